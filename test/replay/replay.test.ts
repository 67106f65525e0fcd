import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js'
import { bundleWorkflowCode, DefaultLogger, Worker, type ReplayWorkerOptions } from '@temporalio/worker'
import { workflowBundlePath } from '../../src/workflow-bundle.ts'
import { scenarios } from './scenarios.ts'

const root = join(import.meta.dirname, '..', '..')
const recorded = readdirSync(import.meta.dirname).filter((file) => file.endsWith('.json'))
const historyOf = (file: string) => historyFromJSON(JSON.parse(readFileSync(join(import.meta.dirname, file), 'utf8')))

async function replay(workflowBundle: ReplayWorkerOptions['workflowBundle'] & object): Promise<Map<string, Error | undefined>> {
  const histories = recorded.map((file) => ({ workflowId: file, history: historyOf(file) }))
  const results = new Map<string, Error | undefined>()
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle }, histories))
    results.set(workflowId, error)
  return results
}

describe('recorded histories', () => {
  test('there is one of every kind of run', () => {
    expect(recorded.map((file) => file.replace('.json', '')).sort()).toEqual(Object.keys(scenarios).sort())
  })

  test('replay with the bundle that production runs', async () => {
    const results = await replay({ codePath: await workflowBundlePath() })
    expect([...results].filter(([, error]) => error !== undefined)).toEqual([])
    expect(results.size).toBe(recorded.length)
  })

  test('do not replay with an interpreter that waits where it did not', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'changed-interpreter-'))
    try {
      cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true })
      symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
      const path = join(folder, 'src', 'workflows', 'governed-run', 'call.ts')
      const code = readFileSync(path, 'utf8')
      const changed = code.replace('  try {\n', '  await sleep(1)\n  try {\n').replace('  proxyActivities,', '  proxyActivities,\n  sleep,')
      expect(changed.length).toBeGreaterThan(code.length + 20)
      writeFileSync(path, changed)
      const workflowsPath = join(folder, 'src', 'workflows', 'index.ts')
      const bundle = await bundleWorkflowCode({ workflowsPath, logger: new DefaultLogger('ERROR') })
      const results = await replay(bundle)
      const caught = [...results].filter(([, error]) => error?.name === 'DeterminismViolationError')
      // All but the run that was rejected before its first call.
      expect(caught.map(([file]) => file).sort()).toEqual(recorded.filter((file) => file !== 'gated-rejected.json').sort())
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
