import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { runShow } from '../support/run-show.ts'

test('npm run samples starts a stack, runs every sample, and leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'samples-'))
  const { code, output } = await runShow('scripts/samples/main.ts', {
    TMPDIR: folder,
    DATA_DIR: join(folder, 'none'),
    // A setting of the user that would keep the service from the emulators.
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
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual([])
})
