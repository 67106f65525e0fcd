import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { runShow } from '../support/run-show.ts'

test('an unknown name lists the samples of docs/samples.md, and starts nothing', async () => {
  const args = ['release-notes', 'nothing']
  const { code, output } = await runShow('scripts/samples/main.ts', {}, undefined, { args })
  const [, names = ''] = /there is no sample `nothing`: name one of (.*)/.exec(output) ?? []
  const page = readFileSync(new URL('../../docs/samples.md', import.meta.url), 'utf8')
  const shown = [...page.matchAll(/^\| `samples\/workflows\/([\w-]+)\.json`/gm)].map(([, name = '']) => name)
  expect(names.split(', ').toSorted()).toEqual(shown.toSorted())
  expect(code).toBe(2)
})

test('npm run samples starts a stack, runs every sample, and leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'samples-'))
  const { code, output } = await runShow('scripts/samples/main.ts', {
    TMPDIR: folder,
    DATA_DIR: join(folder, 'none'),
    // This setting of the user would keep the service away from the emulators.
    CONNECTION_HOSTS: 'git.internal',
  })
  expect(output).toMatch(/\nevery check passed\n/)
  const page = readFileSync(new URL('../../docs/samples.md', import.meta.url), 'utf8')
  const [, shown = ''] = /shortened:\n\n```\n(.*?)\n```/s.exec(page) ?? []
  const parts = shown.split('\n').flatMap((line) => line.split('...'))
  expect(parts.length).toBeGreaterThan(10)
  for (const part of parts) expect(output).toContain(part)
  expect(output).toContain('comment[2]: github_comment require_approval')
  expect(output).toMatch(/worker ended unexpectedly \(signal SIGKILL\)/)
  for (const file of readdirSync(new URL('../../samples/workflows', import.meta.url))) {
    expect(page).toContain(`samples/workflows/${file}`)
    // Each saved workflow has run: its receipt names a step of it.
    const { steps } = JSON.parse(
      readFileSync(new URL(`../../samples/workflows/${file}`, import.meta.url), 'utf8'),
    ) as { steps: readonly { id: string; tool: string }[] }
    for (const { id, tool } of steps)
      expect(output).toMatch(new RegExp(`${id}(\\[\\d+\\])?: ${tool} .*completed`))
  }
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual([])
})
