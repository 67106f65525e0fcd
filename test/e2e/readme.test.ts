import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { runBlocks, shellBlocks } from '../support/shell-blocks.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

/* README.md, "A first workflow, with curl", and docs/workflows.md, which goes on in its shell: their shell blocks, word for word and in one shell, as a reader types them. */

/** What a reader's shell writes, whatever becomes of it. */
const typed = (dataDir: string, ...lines: string[]) =>
  promisify(execFile)('bash', ['--norc', '-c', lines.join('\n')], {
    cwd: folder,
    timeout: 180_000,
    env: { ...process.env, DATA_DIR: dataDir, TMPDIR: join(folder, '..') },
  })

const heading = 'A first workflow, with curl'

let home: StackHome
let stack: StartedStack
/** Where the reader stands: in no folder with data, so that all depends on `DATA_DIR`. */
let folder: string

beforeAll(async () => {
  home = stackHome()
  folder = join(home.dataDir, '..', 'reader')
  mkdirSync(folder)
  stack = await startStack({ dataDir: home.dataDir })
})

afterAll(async () => {
  await stack?.stop()
  await home?.remove()
})

test('a workflow of one’s own: saved, held, approved, receipted, verified', async () => {
  const [setup, rule, workflow, held, approved, mail, proof, ...more] = await runBlocks(
    [...shellBlocks('README.md', heading), ...shellBlocks('docs/workflows.md')],
    folder,
    home.dataDir,
  )
  expect(readdirSync(folder)).toEqual([])
  expect(more).toEqual([
    'hello Ines 2\ninput `name` is required\nstep `look`: `{{nowhere.output.key}}`: there is no step `nowhere`',
    'large skipped, any completed\nlarge completed, any completed',
    'internal',
    'Harlingen of 4 calls',
    'failed: step `read` ended the run: there is no such file in the shared folder; check `path`' +
      '\ncompleted\nread failed, keep completed',
    'bad_transition',
    'read completed, send cancelled',
  ])
  expect(setup).toBe('')
  expect(rule).toBe('true\ninternal data leaves with a second person')
  expect(workflow).toMatch(/^wf_\w{26}$/)
  expect(held).toBe(
    'step `send` waits for approval by an admin or owner (rule `internal data leaves with a second person`)',
  )
  expect(approved).toBe(
    'your own request is decided by someone else: ask `approver@countersign.test` or `owner@countersign.test`' +
      '\nteam@larkspur.example\napproved',
  )
  expect(mail).toMatch(/^To: team@larkspur\.example\r?\nSubject: Third quarter\r?\nMessage-ID: <\S+>$/)
  expect(readdirSync(join(home.dataDir, 'mail')).filter((name) => name.endsWith('.eml'))).toHaveLength(1)

  const lines = proof?.split('\n') ?? []
  const name = 'internal data leaves with a second person'
  expect(lines.slice(0, -1)).toEqual([
    'file_read · allow · no rule · labels:  · completed',
    `mail_send · require_approval · ${name} · labels: internal · held · approver@countersign.test: approve`,
    `mail_send · require_approval · ${name} · labels: internal · completed · approver@countersign.test: approve`,
  ])
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ valid: true, first_mismatch: null })
})

test('a request that is refused says so, and nothing waits for what cannot come', async () => {
  const [setup = '', , , held = ''] = shellBlocks('README.md', heading)
  const run = (...lines: string[]) => typed(home.dataDir, setup, ...lines)
  const wrong = await run('WORKFLOW=wf_none', held, 'true')
  expect(wrong.stdout.trim()).toBe('')
  expect(wrong.stderr).toContain('not_found: no workflow `wf_none`')
  const gone = await run('URL=http://127.0.0.1:9/', 'RUN=run_x', 'until_run paused; echo "stopped: $?"')
  expect(gone.stdout.trim()).toBe('stopped: 1')
  expect(gone.stderr).toMatch(/curl: .*connect/)
  const ended = await run(
    'RUN=$(api $ADMIN GET "/runs?status=completed" | pick "data[0].id")',
    'until_run paused; echo "stopped: $?"',
  )
  expect(ended).toEqual({ stdout: 'stopped: 1\n', stderr: 'the run is completed: every step has ended\n' })
})

test('an answer of any form that is none, and a data folder that is none, are one line and no stack', async () => {
  const [setup = ''] = shellBlocks('README.md', heading)
  const run = (...lines: string[]) => typed(home.dataDir, setup, ...lines)
  const signIn = `curl -sS -H "Origin: $BASE" -H 'Content-Type: application/json' "$BASE/api/auth/sign-in/email"`
  for (const [line, said] of [
    [
      `${signIn} -d '{"email": "a@larkspur.example", "password": "wrong"}' | pick user.email`,
      /^[A-Z][^{\n]+\n$/,
    ],
    ['echo "<p>busy</p>" | pick id', /^no JSON: <p>busy<\/p>\n$/],
    ['echo "[]" | pick "[0].id"', /^the answer has no \[0\]\.id\n$/],
    ['echo null | pick id', /^the answer has no id\n$/],
    ['boot users.nobody.api_key', /^\S+bootstrap\.json has no users\.nobody\.api_key\n$/],
  ] as const) {
    const { stdout, stderr } = await run(line, 'true')
    expect([line, stdout]).toEqual([line, ''])
    expect(stderr).toMatch(said)
  }
  const nowhere = await typed('', setup, 'true')
  expect(nowhere.stderr).toBe(
    `no ${folder}/.data/bootstrap.json: is npm start ready, and DATA_DIR its own?\n`,
  )
})

test('the terminal shows progress for people; whole logs are files', () => {
  expect(stack.output()).not.toMatch(/^\{/m)
  for (const name of ['api', 'worker']) {
    const lines = readFileSync(join(home.dataDir, 'logs', `${name}.log`), 'utf8')
      .trim()
      .split('\n')
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ process: name, level: 30 })
  }
})
