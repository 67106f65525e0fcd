import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { workflowBundlePath } from '../../src/programs/workflow-bundle.ts'

const root = join(import.meta.dirname, '..', '..')
const bundle = async (): Promise<string> => readFileSync(await workflowBundlePath(), 'utf8')

test('a worker loads the workflow code once, for all runs', async () => {
  const [, body = ''] = /preloadModules = function preloadModules\(\) \{(.*?)\n\}/s.exec(await bundle()) ?? []
  expect(body.match(/src\/workflows\/[\w-]+\.ts/g)).toEqual(
    expect.arrayContaining(['src/workflows/no-stacks.ts', 'src/workflows/index.ts']),
  )
})

test('no module of the workflow code has state, because all runs share it', async () => {
  const modules = [...(await bundle()).matchAll(/^\/\*\*\*\/ "\.\/(src\/[^"]+\.ts)"/gm)].map(
    ([, path]) => path ?? '',
  )
  expect(modules.length).toBeGreaterThan(5)
  const state =
    /^(?:export )?(?:let|var) .*|^(?:export )?const \w+\b(?!: Readonly)[^=\n]*= (?:new (?:Map|Set|WeakMap|WeakSet)\b|\[\]).*/gm
  for (const path of modules) {
    const found = readFileSync(join(root, path), 'utf8').match(state)
    expect([path, found]).toEqual([path, null])
  }
})
