import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
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
  const previews = shellBlocks('docs/previews.md')
  const blocks = [...shellBlocks('docs/tutorial.md'), ...shellBlocks('docs/workflows.md'), ...previews]
  const ran = await runBlocks(blocks, folder, home.dataDir)
  const [ruleName, ...previewed] = ran.splice(-previews.length)
  expect(ruleName).toBe('mail stays here')
  expect(previewed).toEqual(shownOutputs('docs/previews.md'))
  const [setup, on, rule, workflow, held, self, approved, mail, receipt = '', proof = '', ...more] = ran
  expect(readdirSync(folder)).toEqual(['samples'])
  const name = 'internal data leaves with a second person'
  const waits = `paused: step \`send\` waits for approval by an admin or owner (rule \`${name}\`): 0 of 1 vote given, 1 missing`
  expect(more).toEqual([
    'hello Ines 2\ninput `name` is required\n' +
      'step `look`: parameter `key`: `{{nowhere.output.key}}`: there is no step `nowhere`\n' +
      'step `keep`: parameter `key` must be text, and `{{input.copies}}` is a number: ' +
      "write `{{''}}{{input.copies}}` to make it text " +
      'step `keep`: parameter `value`: `{{read.output.txt}}`: the output of step `read` has no `txt` ' +
      '(it has `path`, `text`, `media_type`, `size`, `rows`, `rows_problem`)\nfailed template_unresolved',
    'large skipped\nany completed\nlarge completed\nany completed',
    'internal',
    'Harlingen 4',
    'completed customers/1002',
    'Is it cold? No.',
    'failed step `read` ended the run: there is no such file in the shared folder; check `path`' +
      '\ncompleted\nread failed\nkeep completed',
    'high 1\nthe same run\nawaiting_approval low the run waits for approval: the workflow is of category `financial` ' +
      '(`category_flags`): 0 of 1 vote given, 1 missing\nrun approved\ncompleted: every step has ended\nnull 1',
    'run_denied step `keep` would be denied by `the budget cannot be changed`: nothing was started',
    'bad_transition',
    `${waits}\ncancelled: the run was cancelled by \`admin@countersign.test\`\nread completed\nsend cancelled`,
  ])
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
  const outputs = [on, rule, workflow, held, self, approved, mail, receipt]
  expect(shownOutputs('docs/tutorial.md').map(withoutIds)).toEqual(outputs.map(withoutIds))
})

/** The outputs that a page shows below its commands. */
function shownOutputs(name: string): string[] {
  const page = readFileSync(join(import.meta.dirname, '../..', name), 'utf8')
  return [...page.matchAll(/^```sh\n.*?^```\n\n```\n(.*?)^```$/gms)].map(([, output = '']) => output.trim())
}

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
    `there is no ${folder}/.data/bootstrap.json: start \`npm start\` first, or set DATA_DIR to its data folder\n`,
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
