import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

/* README.md, "A first workflow, with curl": its shell blocks, word for word and in one shell, as a reader types them. */

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')

function shellBlocks(heading: string): string[] {
  const [, section = ''] = readme.split(`\n## ${heading}\n`)
  const [text = ''] = section.split('\n## ')
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block)
}

let home: StackHome
let stack: StartedStack

beforeAll(async () => {
  home = stackHome()
  stack = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'warn' } })
}, 120_000)

afterAll(async () => {
  await stack?.stop()
  await home?.remove()
}, 60_000)

test('a workflow of one’s own: saved, held, approved, receipted, verified', async () => {
  const folder = join(home.dataDir, '..', 'reader')
  mkdirSync(folder)
  symlinkSync(home.dataDir, join(folder, '.data'))
  const blocks = shellBlocks('A first workflow, with curl')
  const cut = '=== next block ==='
  const { stdout, stderr } = await promisify(execFile)(
    'bash',
    // Fed from a socket, as Node does it, bash would otherwise take itself for a remote shell and read /etc/bash.bashrc.
    ['--norc', '-e', '-u', '-o', 'pipefail', '-c', blocks.join(`\necho '${cut}'\n`)],
    { cwd: folder, timeout: 90_000 },
  )
  expect(stderr).toBe('')
  const [setup, rule, workflow, held, approved, mail, proof, ...more] = stdout
    .split(`${cut}\n`)
    .map((text) => text.trim())
  expect(more).toEqual([])
  expect(setup).toBe('')
  expect(rule).toBe('true\ninternal data leaves with a second person')
  expect(workflow).toMatch(/^wf_\w{26}$/)
  expect(held).toBe(
    'step `send` waits for approval by an admin or owner (rule `internal data leaves with a second person`)',
  )
  expect(approved).toBe('your own request is decided by someone else\nteam@larkspur.example\napproved')
  expect(mail).toMatch(/^To: team@larkspur\.example\r?\nSubject: Third quarter\r?\nMessage-ID: <\S+>$/)
  expect(readdirSync(join(home.dataDir, 'mail')).filter((name) => name.endsWith('.eml'))).toHaveLength(1)

  const lines = proof?.split('\n') ?? []
  const name = 'internal data leaves with a second person'
  expect(lines.slice(0, -1)).toEqual([
    'file_read · allow ·  · completed',
    `mail_send · require_approval · ${name} · `,
    `mail_send · require_approval · ${name} · completed`,
  ])
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ valid: true, first_mismatch: null })
}, 120_000)
