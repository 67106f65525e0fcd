import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runBlocks, shellBlocks, shownOutputs } from '../support/shell-blocks.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

/* The shell blocks of docs/tutorial.md, and of docs/workflows.md and docs/previews.md, which continue in the same shell. */

/** Runs lines in a reader's shell. It never fails. */
const typed = (dataDir: string, ...lines: string[]) =>
  promisify(execFile)('bash', ['--norc', '-c', lines.join('\n')], {
    cwd: folder,
    timeout: 180_000,
    env: { ...process.env, DATA_DIR: dataDir, TMPDIR: join(folder, '..') },
  })

let home: StackHome
let stack: StartedStack
/** The reader's folder has no data folder in it, so the commands depend on `DATA_DIR`. */
let folder: string

beforeAll(async () => {
  home = stackHome()
  folder = join(home.dataDir, '..', 'reader')
  mkdirSync(folder)
  symlinkSync(join(import.meta.dirname, '../../samples'), join(folder, 'samples'))
  stack = await startStack({ dataDir: home.dataDir })
})

afterAll(async () => {
  await stack?.stop()
  await home?.remove()
})

test('the commands of the tutorial, of docs/workflows.md and of docs/previews.md: a workflow is saved, held and approved, with receipt and verification', async () => {
  const last = shellBlocks('docs/tutorial.md', 'Clean up')
  const tutorial = shellBlocks('docs/tutorial.md').filter((block) => !last.includes(block))
  const previews = shellBlocks('docs/previews.md')
  const blocks = [...tutorial, ...shellBlocks('docs/workflows.md'), ...previews, ...last]
  const ran = await runBlocks(blocks, folder, home.dataDir)
  const cleaned = ran.splice(-last.length)
  expect(ran.splice(-previews.length)).toEqual(['', ...shownOutputs('docs/previews.md')])
  const [setup, on, rule, workflow, held, self, approved, mail, receipt = '', proof = '', denied, ...more] =
    ran
  expect(readdirSync(folder)).toEqual(['samples'])
  expect(more).toEqual(shownOutputs('docs/workflows.md'))
  const name = 'internal data leaves with a second person'
  const waits = `paused: step \`send\` waits for approval by an admin or owner (rule \`${name}\`): 0 of 1 vote given, 1 missing`
  expect([setup, on, rule]).toEqual(['', 'true', name])
  expect(workflow).toMatch(/^wf_\w{26}$/)
  expect(held).toBe(waits)
  expect(self).toBe(
    'you cannot decide your own request: ask `approver@countersign.test` or `owner@countersign.test`',
  )
  expect(approved).toBe('team@larkspur.example Third quarter\napproved\ncompleted: every step has ended')
  expect(mail).toMatch(/^To: team@larkspur\.example\r?\nSubject: Third quarter\r?\nMessage-ID: <\S+>$/)
  expect(readdirSync(join(home.dataDir, 'mail')).filter((file) => file.endsWith('.eml'))).toHaveLength(1)
  expect(receipt.split('\n')).toEqual([
    'file_read allow null [] completed',
    `mail_send require_approval ${name} ["internal"] completed`,
    'approver@countersign.test approve',
  ])
  expect(JSON.parse(proof)).toMatchObject({ valid: true, first_mismatch: null })
  const outputs = [on, rule, workflow, held, self, approved, mail, receipt, denied, ...cleaned]
  expect(shownOutputs('docs/tutorial.md').map(withoutIds)).toEqual(outputs.map(withoutIds))
})

const withoutIds = (text = ''): string => text.replaceAll(/wf_\w+|<\S+>/g, '...').replaceAll('\r', '')

test('a refused request says why, and waiting for a run ends when the run cannot reach the state', async () => {
  const run = (...lines: string[]) => typed(home.dataDir, '. samples/shell.sh', ...lines)
  const wrong = await run(
    'api $ADMIN POST /workflows/wf_none/execute -d \'{}\' | field id; echo "stopped: $?"',
  )
  expect(wrong).toEqual({ stdout: 'stopped: 1\n', stderr: 'not_found: no workflow `wf_none`\n' })
  const ended = await run(
    'RUN=$(api $ADMIN GET "/runs?status=completed" | field "data[0].id")',
    'node samples/wait-for-run.mjs "$RUN" paused; echo "stopped: $?"',
  )
  expect(ended).toEqual({ stdout: 'stopped: 1\n', stderr: 'the run is completed: every step has ended\n' })
})

test('an answer that is not an object, and a missing data folder, give one line', async () => {
  const run = (...lines: string[]) => typed(home.dataDir, '. samples/shell.sh', ...lines)
  const signIn = `curl -sS -H "Origin: $BASE" -H 'Content-Type: application/json' "$BASE/api/auth/sign-in/email"`
  for (const [line, said] of [
    [
      `${signIn} -d '{"email": "a@larkspur.example", "password": "wrong"}' | field user.email`,
      /^[A-Z][^{\n]+\n$/,
    ],
    ['echo "<p>busy</p>" | field id', /^the answer is not JSON: <p>busy<\/p>\n$/],
    ['echo "[]" | field "[0].id"', /^the answer has no `\[0\]\.id`\n$/],
    ['echo null | field id', /^the answer has no `id`\n$/],
  ] as const) {
    const { stdout, stderr } = await run(line, 'true')
    expect([line, stdout]).toEqual([line, ''])
    expect(stderr).toMatch(said)
  }
  const nowhere = await typed('', '. samples/shell.sh', 'true')
  expect(nowhere.stderr).toBe(
    `there is no ${folder}/.data/bootstrap.json: start \`npm start\` first, or go to the repository's folder, or set DATA_DIR to your data folder\n`,
  )
})

test('the terminal shows progress, and the complete logs are files', () => {
  expect(stack.output()).not.toMatch(/^\{/m)
  for (const name of ['api', 'worker']) {
    const lines = readFileSync(join(home.dataDir, 'logs', `${name}.log`), 'utf8')
      .trim()
      .split('\n')
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ process: name, level: 30 })
  }
})
