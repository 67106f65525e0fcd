import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { caughtMail } from '../../src/demo/story.ts'
import { createClient, type Bootstrap, type Client } from '../../src/demo/client.ts'
import { inBrowser, openPage } from '../support/chromium.ts'
import { runBlocks, shellBlocks, shownOutputs } from '../support/shell-blocks.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'
import { fileURLToPath } from 'node:url'
import { programEnv } from '../support/program-env.ts'

/**
 * Runs the program of `npm run demo` or `npm run samples`. `program` is its path in the project. Standard input is
 * closed, because the program must not ask anything. When the output contains `interruptAt`, the program gets SIGINT
 * twice, as after Ctrl-C under npm. Whenever there is new output, `onOutput` gets all output so far.
 */
function runShow(
  program: string,
  env: Record<string, string>,
  interruptAt?: string,
  { args = [], onOutput }: { args?: readonly string[]; onOutput?: (output: string) => void } = {},
): Promise<{ code: number | null; output: string }> {
  const file = fileURLToPath(new URL(`../../${program}`, import.meta.url))
  const child = spawn(process.execPath, [file, ...args], {
    env: { ...programEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let isInterrupted = false
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      onOutput?.(output)
      if (isInterrupted || interruptAt === undefined || !output.includes(interruptAt)) return
      isInterrupted = true
      for (let times = 0; times < 2; times++) child.kill('SIGINT')
    })
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })))
}

interface Policy {
  readonly tool_name: string
  readonly role: string | null
  readonly allowed: boolean | null
  readonly restrictions: object
}

const runDemo = (env: Record<string, string>) => runShow('src/demo/main.ts', env)

test('without a stack it starts one, shows everything, and leaves nothing behind', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'demo-'))
  const { code, output } = await runDemo({
    TMPDIR: folder,
    DATA_DIR: join(folder, 'none'),
    // Addresses of servers that the demo must not use.
    DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none',
    TEMPORAL_ADDRESS: '127.0.0.1:1',
    SMTP_URL: 'smtp://127.0.0.1:1',
  })
  expect(output).toMatch(/\nevery check passed\n/)
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const [, shown = ''] = /shortened:\n\n```\n(.*?)\n```/s.exec(readme) ?? []
  for (const line of shown.split('\n').filter((each) => each !== ''))
    for (const part of line.split('...')) expect(output).toContain(part)
  expect(output).toMatch(
    /\n2\. A preview shows what would be decided, before anything runs\n *send: deny is possible: /,
  )
  expect(output).toMatch(/\n14\. The audit log proves itself\n/)
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual([])
})

test('an unknown name lists the samples of docs/samples.md, and starts nothing', async () => {
  const args = ['release-notes', 'nothing']
  const { code, output } = await runShow('scripts/samples/main.ts', {}, undefined, { args })
  const [, names = ''] = /there is no sample `nothing`: name one of (.*)/.exec(output) ?? []
  const page = readFileSync(new URL('../../docs/samples.md', import.meta.url), 'utf8')
  const shown = [...page.matchAll(/^\| `samples\/workflows\/([\w-]+)\.(?:json|yaml)`/gm)].map(
    ([, name = '']) => name,
  )
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
    const { steps } = parse(
      readFileSync(new URL(`../../samples/workflows/${file}`, import.meta.url), 'utf8'),
    ) as { steps: readonly { id: string; tool?: string }[] }
    // A step that calls no tool has no receipt.
    for (const { id, tool } of steps)
      if (tool !== undefined) expect(output).toMatch(new RegExp(`${id}(\\[\\d+\\])?: ${tool} .*completed`))
  }
  expect(code).toBe(0)
  expect(readdirSync(folder)).toEqual([])
})

/** Runs lines in a reader's shell. It never fails. */
const typed = (folder: string, dataDir: string, ...lines: string[]) =>
  promisify(execFile)('bash', ['--norc', '-c', lines.join('\n')], {
    cwd: folder,
    timeout: 180_000,
    env: { ...process.env, DATA_DIR: dataDir, TMPDIR: join(folder, '..') },
  })

const withoutIds = (text = ''): string => text.replaceAll(/wf_\w+|<\S+>/g, '...').replaceAll('\r', '')

describe('with a running stack', () => {
  let home: StackHome
  let stack: StartedStack
  let client: Client
  let organization: string
  /** The reader's folder has no data folder in it, so the commands depend on `DATA_DIR`. */
  let folder: string

  beforeAll(async () => {
    home = stackHome()
    folder = join(home.dataDir, '..', 'reader')
    mkdirSync(folder)
    symlinkSync(join(import.meta.dirname, '../../samples'), join(folder, 'samples'))
    stack = await startStack({ dataDir: home.dataDir })
    const bootstrap = stack.bootstrap<Bootstrap>()
    client = createClient(bootstrap)
    organization = `/organizations/${bootstrap.organization_id}`
  })

  afterAll(async () => {
    await stack?.stop()
    await home?.remove()
  })

  test('the commands of the tutorial and of the guides: a workflow is saved, held and approved, with receipt and verification', async () => {
    const last = shellBlocks('docs/tutorial.md', 'Clean up')
    const tutorial = shellBlocks('docs/tutorial.md').filter((block) => !last.includes(block))
    const previews = shellBlocks('docs/previews.md')
    const guides = [
      'docs/workflows.md',
      'docs/expressions.md',
      'docs/definitions.md',
      'docs/triggers.md',
      'docs/ask.md',
      'docs/again.md',
      'docs/cli.md',
      'docs/revise.md',
      'docs/files-and-ci.md',
    ]
    const blocks = [...tutorial, ...guides.flatMap((page) => shellBlocks(page)), ...previews, ...last]
    const ran = await runBlocks(blocks, folder, home.dataDir)
    const cleaned = ran.splice(-last.length)
    expect(ran.splice(-previews.length)).toEqual(['', ...shownOutputs('docs/previews.md')])
    const [setup, on, rule, workflow, held, self, approved, mail, receipt = '', proof = '', denied, ...more] =
      ran
    expect(readdirSync(folder)).toEqual(['samples'])
    expect(more).toEqual(guides.flatMap((page) => shownOutputs(page)))
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

  test('a refused request says why, and waiting for a run ends when the run cannot reach the state', async () => {
    const run = (...lines: string[]) => typed(folder, home.dataDir, '. samples/shell.sh', ...lines)
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
    const run = (...lines: string[]) => typed(folder, home.dataDir, '. samples/shell.sh', ...lines)
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
    const nowhere = await typed(folder, '', '. samples/shell.sh', 'true')
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

  const governed = async () => ({
    settings: await client.get('owner', 'GET', `${organization}/governance`),
    rules: await client.get('owner', 'GET', `${organization}/rules`),
    labelRules: await client.get('owner', 'GET', `${organization}/label-rules`),
    policies: (
      await client.get<{ data: Policy[] }>('owner', 'GET', `${organization}/tool-policies`)
    ).data.map(({ tool_name, role, allowed, restrictions }) => ({ tool_name, role, allowed, restrictions })),
  })

  describe('the demo and the samples', () => {
    let before: unknown
    afterEach(async () => expect(await governed()).toEqual(before))

    test('it also passes under stricter settings of the user, and restores them', async () => {
      await client.get('owner', 'PATCH', `${organization}/governance`, {
        approval_threshold: 2,
        approval_required_from: 'high',
        allow_self_approval: true,
      })
      const policy = { tool_name: 'mail_send', role: 'member', restrictions: { max_message_length: 900 } }
      await client.get('owner', 'POST', `${organization}/tool-policies`, policy)
      before = await governed()
      const mails = caughtMail(join(home.dataDir, 'mail')).length
      const { code, output } = await runDemo({ DATA_DIR: home.dataDir })
      expect(output).toContain(`using the Countersign that runs at ${stack.baseUrl}`)
      expect(output).toContain('approved by approver and owner')
      expect(output).toContain('A limit on a tool holds, whatever the rules allow')
      expect(output).toMatch(/403 run_denied, .*only recipients in `larkspur\.example` \(`allowed_domains`\)/)
      expect(output).toMatch(/\nevery check passed\n$/)
      expect(code).toBe(0)
      expect(output).toMatch(
        /the viewer approves as a member of demo-\w+-finance: pending\n.*-legal: approved\n/,
      )
      expect(caughtMail(join(home.dataDir, 'mail'))).toHaveLength(mails + 2)
    })

    test('so does `npm run samples`, which leaves the worker alone', async () => {
      const worker = stack.processes().find(({ role }) => role === 'worker')?.pid
      before = await governed()
      const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir })
      expect(output).toContain('when the connection breaks')
      expect(output).toMatch(/\nevery check passed\n$/)
      expect(code).toBe(0)
      expect(stack.processes().find(({ role }) => role === 'worker')?.pid).toBe(worker)
      const { data } = await client.get<{ data: { status: string }[] }>('member', 'GET', '/connections')
      expect(data.filter(({ status }) => status !== 'revoked')).toEqual([])
      expect(await client.get('member', 'GET', '/files')).toMatchObject({ data: [] })
    })

    test('a named sample runs alone', async () => {
      before = await governed()
      const args = ['release-notes']
      const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir }, undefined, { args }) // prettier-ignore
      expect([...output.matchAll(/^\d+\. ([A-Z]\w+)/gm)].map(([, word]) => word)).toEqual(['The', 'Release'])
      expect(output).toMatch(/\nevery check passed\n$/)
      expect(code).toBe(0)
    })

    test('the weekly report by name says that it needs a stack of its own', async () => {
      before = await governed()
      const args = ['weekly-report']
      const { code, output } = await runShow('scripts/samples/main.ts', { DATA_DIR: home.dataDir }, undefined, { args }) // prettier-ignore
      expect(output).toContain('weekly-report runs only on a Countersign of its own')
      expect(output).not.toContain('every check passed')
      expect(code).toBe(1)
    })

    inBrowser(
      'with `--browser`, somebody opens the printed link, signs in, approves, and sees it completed',
      async () => {
        // One vote decides.
        await client.get('owner', 'PATCH', `${organization}/governance`, { approval_threshold: 1 })
        before = await governed()
        const told = Promise.withResolvers<string>()
        const shown = runShow('src/demo/main.ts', { DATA_DIR: home.dataDir }, undefined, {
          args: ['--browser'],
          onOutput(output) {
            const link = /its page: (\S+)\n[^]*the demo waits/.exec(output)?.[1]
            if (link !== undefined) told.resolve(link)
          },
        })
        shown.then(({ output }) => told.reject(new Error(output)), told.reject)
        const { page, errors } = await openPage({
          viewport: { width: 360, height: 740 },
          isMobile: true,
          hasTouch: true,
        })
        await page.goto(await told.promise)
        const { email, password } = stack.bootstrap<{
          users: { approver: { email: string; password: string } }
        }>().users.approver
        await page.getByLabel('E-mail address').fill(email)
        await page.getByLabel('Password').fill(password)
        await page.getByRole('button', { name: 'Sign in', exact: true }).click()
        await page.getByRole('heading', { name: 'Send a mail to', exact: false }).waitFor()
        const button = await page.getByRole('button', { name: 'Approve' }).boundingBox()
        // The button is visible without scrolling.
        expect((button?.y ?? 999) + (button?.height ?? 0)).toBeLessThanOrEqual(740)
        await page.getByRole('button', { name: 'Approve' }).tap()
        await page.getByText('Completed', { exact: true }).first().waitFor()
        await page.getByText('What was sent').waitFor()
        const { code, output } = await shown
        expect(output).toContain(`approved by ${email}`)
        expect(output).toMatch(/\nevery check passed\n$/)
        expect({ code, errors }).toEqual({ code: 0, errors: [] })
      },
    )

    test('Ctrl-C ends the demo and the samples, after what they made is removed', async () => {
      before = await governed()
      const env = { DATA_DIR: home.dataDir }
      for (const [program, at] of [
        ['src/demo/main.ts', '\n3. '],
        ['scripts/samples/main.ts', 'connected slack'],
      ] as const) {
        const { code, output } = await runShow(program, env, at)
        expect(output).toMatch(/\ninterrupted \(SIGINT\): removing what it made\n$/)
        expect(code).toBe(1)
        expect(await governed()).toEqual(before)
      }
      const { data } = await client.get<{ data: { status: string }[] }>('member', 'GET', '/connections')
      expect(data.filter(({ status }) => status !== 'revoked')).toEqual([])
    })

    test('it fails and names the failed check', async () => {
      await client.get('admin', 'POST', `${organization}/rules`, {
        name: 'no mail at all',
        verdict: 'deny',
        tools: ['mail_send'],
      })
      before = await governed()
      const { code, output } = await runDemo({ DATA_DIR: home.dataDir })
      expect(output).toContain('would be denied by `no mail at all`')
      expect(output).not.toContain('every check passed')
      expect(code).toBe(1)
    })
  })
})
