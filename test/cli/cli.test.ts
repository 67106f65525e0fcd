import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createClient, type Bootstrap, type Client, type Person } from '../../src/demo/client.ts'
import { programEnv } from '../support/program-env.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'
import { until } from '../stack/until.ts'
import { bin, cli, inTerminal, type RunOptions } from './run-cli.ts'

/* The command line against a whole Countersign. Files and errors of the connection: files.test.ts. */

let home: StackHome
let stack: StartedStack
let bootstrap: Bootstrap
let client: Client
let organization: string
let folder: string

beforeAll(async () => {
  home = stackHome()
  folder = join(home.dataDir, '..', 'terminal')
  mkdirSync(folder)
  stack = await startStack({ dataDir: home.dataDir })
  bootstrap = stack.bootstrap<Bootstrap>()
  client = createClient(bootstrap)
  organization = `/organizations/${bootstrap.organization_id}`
  await client.get('owner', 'PATCH', `${organization}/governance`, { approvals_enabled: true })
  await client.get('admin', 'POST', `${organization}/rules`, {
    ...{ name: 'internal data leaves with a second person', verdict: 'require_approval' },
    ...{ side_effects: ['egress'], labels: { any_of: ['internal'] } },
  })
  const to = { type: 'string', required: true }
  const send = { id: 'send', tool: 'mail_send', params: { to: '{{input.to}}', subject: 'Report', text: '{{steps.read.output.text}}' } } // prettier-ignore
  const read = { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } }
  await client.get('admin', 'POST', '/workflows', {
    ...{ name: 'send the report', slug: 'report' },
    definition: { inputs: { to }, steps: [read, send] },
  })
  await client.get('admin', 'POST', '/workflows', {
    ...{ name: 'sum it up', slug: 'sum' },
    definition: {
      inputs: { numbers: { type: 'array', required: true }, word: { type: 'string' } },
      steps: [
        { id: 'add', compute: { total: '{{sum(input.numbers)}}', word: '{{input.word}}' } },
        { id: 'keep', tool: 'memory_set', params: { key: 'sum', value: '{{steps.add.output.total}}' } },
      ],
      result: { total: '{{steps.add.output.total}}', word: '{{steps.add.output.word}}' },
    },
  })
})
afterAll(async () => {
  await stack?.stop()
  await home?.remove()
})

const envOf = (who: Person) => ({
  COUNTERSIGN_URL: bootstrap.base_url,
  COUNTERSIGN_API_KEY: bootstrap.users[who].api_key,
})
const as = (who: Person, args: readonly string[], options: RunOptions = {}) =>
  cli(args, { ...options, env: { ...envOf(who), ...options.env } })
const statusOf = async (run: string) =>
  (await client.get<{ status: string }>('admin', 'GET', `/runs/${run}`)).status
const mails = (): number =>
  readdirSync(join(home.dataDir, 'mail')).filter((file) => file.endsWith('.eml')).length
const idIn = (text: string, kind: 'run' | 'apr'): string =>
  new RegExp(`${kind}_\\w{26}`).exec(text)?.[0] ?? ''

describe('a run', () => {
  test('takes typed inputs, shows its steps, and prints the result alone to a pipe', async () => {
    const args = ['run', 'sum', '-i', 'numbers=[1, 2, 39]', '-i', 'word=[1]', '--follow']
    const { code, stdout, stderr } = await as('member', args)
    expect([code, JSON.parse(stdout)]).toEqual([0, { total: 42, word: '[1]' }])
    expect(stderr).toMatch(
      /step\.completed keep memory_set\n[^]*completed after [\d.]+ s: every step has ended\n$/,
    )
    const json = await as('member', [...args, '--json'])
    expect(JSON.parse(json.stdout)).toMatchObject({ status: 'completed', result: { total: 42 } })
  })

  test('by its name; a wrong name, input or form of an input says what there is', async () => {
    const started = await as('member', ['run', 'sum it up', '-i', 'numbers=[]'])
    expect([started.code, started.stdout]).toEqual([0, expect.stringMatching(/^run_\w{26}\t\w+\n$/)])
    const wrong = async (...args: readonly string[]) => (await as('member', args)).stderr
    expect(await wrong('run', 'repord', '-i', 'to=x')).toContain('did you mean `report`')
    expect(await wrong('run', 'sum', '-i', 'number=[]')).toContain('it has `numbers`, `word`')
    expect(await wrong('run', 'sum', '-i', 'numbers=a')).toContain('of type array: write it as JSON, such as')
    expect(await wrong('run', 'sum', '-i', 'numbers')).toContain('write `-i name=value`')
    expect(await wrong('run', 'sum', '-i', 'word=a')).toMatch(/numbers/)
  })

  test('that is held says who decides, goes on waiting, and completes after the approval, once', async () => {
    const before = mails()
    let decided: Promise<unknown> | null = null
    const { code, stdout, stderr } = await as(
      'admin',
      ['run', 'report', '-i', 'to=team@larkspur.example', '-f'],
      {
        onOutput(output) {
          const approval = idIn(output, 'apr')
          if (approval !== '' && output.includes('run.paused'))
            decided ??= as('approver', ['approve', approval, '--yes', '-c', 'fine'])
        },
      },
    )
    expect([code, await (decided as unknown as Promise<object>)]).toEqual([
      0,
      expect.objectContaining({ code: 0 }),
    ])
    expect(stderr).toContain('waits for approval by an admin or owner')
    expect(stderr).toMatch(/decide it: countersign approve apr_\w+, or http/)
    expect(stderr).toContain('completed after')
    expect(Object.keys(JSON.parse(stdout))).toEqual(['read', 'send'])
    expect(mails()).toBe(before + 1)

    // Once more: what an earlier run has sent is held again.
    const again = await as('admin', [
      'rerun',
      idIn(stderr, 'run'),
      '--from',
      'start',
      '--on-repeat',
      'skip',
      '-f',
    ])
    expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('completed') })
    expect(mails()).toBe(before + 1)
  })

  test('that does not complete ends with 1', async () => {
    const { stdout } = await as('admin', ['run', 'report', '-i', 'to=team@larkspur.example'])
    const run = idIn(stdout, 'run')
    const logs = as('admin', ['logs', run, '--follow'])
    const cancelled = await as('admin', ['cancel', run, '--reason', 'a test'])
    expect(cancelled.stdout).toBe(`${run}\tcancelled\n`)
    expect(await logs).toMatchObject({ code: 1, stdout: expect.stringMatching(/\trun\.cancelled .*a test/) })
    const listed = await as('admin', ['runs', '--status', 'cancelled', '-n', '1'])
    expect(listed.stdout.split('\t').slice(0, 2)).toEqual([run, 'cancelled'])
    const ended = await as('admin', ['logs', run, '--json'])
    const lines = ended.stdout.trim().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as { seq: number }).seq)).toEqual(
      lines.map((_, at) => at + 1),
    )
  })

  test('that waits is not followed any more when nobody reads on', async () => {
    const { stdout } = await as('admin', ['run', 'report', '-i', 'to=c@larkspur.example'])
    const run = idIn(stdout, 'run')
    await until('it waits', async () => (await statusOf(run)) === 'paused')
    const script = `'${process.execPath}' '${bin}' logs ${run} --follow | head -n 2; echo \${PIPESTATUS[0]}`
    const { stdout: read } = await promisify(execFile)('bash', ['-c', script], {
      env: { ...programEnv(), ...envOf('admin') },
    })
    expect(read.trim().split('\n').slice(2)).toEqual(['0'])
    expect(await statusOf(run)).toBe('paused')
  })

  describe.each([
    ['a pipe', test],
    ['a terminal', inTerminal],
  ] as const)('in %s', (where, only) => {
    only('goes on after Ctrl-C', async () => {
      let isStopped = false
      const { code, stdout, stderr } = await as(
        'admin',
        ['run', 'report', '-i', 'to=a@larkspur.example', '-f'],
        {
          ...(where === 'a terminal' ? { terminal: true as const } : {}),
          onOutput(output, _type, interrupt) {
            if (isStopped || !output.includes('decide it')) return
            isStopped = true
            interrupt()
          },
        },
      )
      expect(code).toBe(130)
      expect(stdout + stderr).toContain('the run goes on: `countersign logs run_')
      expect(await statusOf(idIn(stdout + stderr, 'run'))).toBe('paused')
    })
  })
})

describe('an approval', () => {
  const held = async (): Promise<string> => {
    const { stderr } = await as('admin', ['run', 'report', '-i', 'to=b@larkspur.example', '-f'], {
      onOutput: (output, _type, interrupt) => void (output.includes('decide it') && interrupt()),
    })
    return idIn(stderr, 'apr')
  }

  test('shows what would be sent; the requester cannot give it, and nobody without an answer', async () => {
    const id = await held()
    const own = await as('admin', ['approve', id, '--yes'])
    expect(own).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('you cannot decide your own request'),
    })
    expect(own.stderr).toMatch(/what would be sent\n[^]* {2}to {9}b@larkspur\.example\n/)
    const unasked = await as('approver', ['approve', id])
    expect(unasked).toMatchObject({ code: 1, stderr: expect.stringContaining('add `--yes`') })
    const waiting = await as('approver', ['approvals'])
    expect(waiting.stdout).toContain(`${id}\thigh\tSend a mail to b@larkspur.example\tadmin@countersign.test`)
    expect(await as('approver', ['reject', id, '-y', '-c', 'no'])).toMatchObject({ code: 0, stdout: `${id}\trejected\n` }) // prettier-ignore
    expect(await as('approver', ['approve', id, '-y'])).toMatchObject({ code: 1 })
  })

  test('changes are requested, and the requester edits the call', async () => {
    const id = await held()
    const unsaid = await as('approver', ['reject', id, '--yes', '--request-changes'])
    expect(unsaid).toMatchObject({ code: 1, stderr: expect.stringContaining('add `-c TEXT`') })
    const asked = await as('approver', ['reject', id, '-y', '--request-changes', '-c', 'which quarter?'])
    expect([asked.code, asked.stdout]).toEqual([0, `${id}\trejected\n`])
    let waiting = ''
    await until('it is asked', async () => {
      const lines = (await as('admin', ['approvals'])).stdout.split('\n')
      waiting =
        lines.find((line) => line.includes('changes requested: Send a mail to b@larkspur.example')) ?? ''
      return waiting !== ''
    })
    const revision = idIn(waiting, 'apr')
    const approved = await as('admin', ['approve', revision, '-y'])
    expect(approved).toMatchObject({ code: 1, stderr: expect.stringContaining(`countersign revise ${revision} -p name=value`) }) // prettier-ignore
    const revised = await as('admin', ['revise', revision, '-p', 'subject=3', '-y'])
    expect([revised.code, revised.stdout]).toEqual([0, `${revision}\trevised\n`])
    expect(revised.stderr).toMatch(/ {2}subject {4}3\n/)
  })

  test('of a whole run shows its inputs and steps', async () => {
    const holdFrom = (risk: string | null) =>
      client.get('owner', 'PATCH', `${organization}/governance`, { approval_required_from: risk })
    await holdFrom('low')
    const { stderr } = await as('admin', ['run', 'report', '-i', 'to=c@larkspur.example', '-f'], {
      onOutput: (output, _type, interrupt) => void (output.includes('run.awaiting_approval') && interrupt()),
    })
    await holdFrom(null)
    const waiting = await as('approver', ['approvals', '--run', idIn(stderr, 'run')])
    const approved = await as('approver', ['approve', idIn(waiting.stdout, 'apr'), '-y'])
    expect([approved.code, approved.stdout]).toEqual([0, expect.stringMatching(/\tapproved\n$/)])
    expect(approved.stderr).toMatch(
      /what would run\n {2}input\.to {3}c@larkspur\.example\n[^]*step send[^]*"mail_send"/,
    )
  })

  inTerminal('in a terminal it asks, and only yes is yes', async () => {
    const id = await held()
    const answer = (typed: string) => {
      let isTyped = false
      return as('approver', ['approve', id], {
        terminal: true,
        onOutput(output, type) {
          if (isTyped || !output.includes('[y/N]')) return
          isTyped = true
          type(typed)
        },
      })
    }
    expect(await answer('\n')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('nothing was decided'),
    })
    const yes = await answer('y\n')
    expect([yes.code, yes.stdout]).toEqual([0, expect.stringContaining('approved')])
  })
})

describe('a login with the browser', () => {
  const config = () => ({ XDG_CONFIG_HOME: folder, COUNTERSIGN_API_KEY: '', COUNTERSIGN_URL: '' })
  const login = (decide: (code: string) => Promise<unknown>) => {
    let decided: Promise<unknown> | null = null
    return cli(['login', '--server', bootstrap.base_url], {
      env: config(),
      onOutput(output) {
        const code = /\?code=(\w{4}-\w{4})/.exec(output)?.[1]
        if (code !== undefined) decided ??= decide(code)
      },
    })
  }

  test('keeps the key where nobody else reads it, and never shows it; logout deletes it', async () => {
    const { code, stdout, stderr } = await login((shown) =>
      client.get('member', 'POST', '/terminal-logins/approve', { code: shown }),
    )
    expect([code, stdout]).toEqual([0, 'logged in\tmember@countersign.test\tmember\tCountersign\n'])
    const path = join(folder, 'countersign', 'credentials.json')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    const { api_key: key } = JSON.parse(readFileSync(path, 'utf8')) as { api_key: string }
    expect(stdout + stderr).not.toContain(key)
    const who = await cli(['whoami'], { env: config() })
    expect(who.stdout).toBe(`member@countersign.test\tmember\tCountersign\t${bootstrap.organization_id}\t${bootstrap.base_url}\n`) // prettier-ignore
    const doctor = await cli(['doctor'], { env: config() })
    expect([doctor.code, doctor.stdout]).toEqual([0, expect.stringMatching(/key\tok\tends in 30 days/)])
    expect((await cli(['logout'], { env: config() })).code).toBe(0)
    const answer = await fetch(`${bootstrap.base_url}/api/v1/me`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(answer.status).toBe(401)
    expect(await cli(['whoami'], { env: config() })).toMatchObject({ code: 1 })
  })

  test('that is refused keeps nothing', async () => {
    const { code, stderr } = await login((shown) =>
      client.get('member', 'POST', '/terminal-logins/deny', { code: shown }),
    )
    expect([code, stderr]).toEqual([1, expect.stringContaining('the login was refused in the browser')])
    expect(readdirSync(join(folder, 'countersign'))).toEqual([])
  })
})

describe('the organization', () => {
  test('rules are asked, freezing holds at once, and doctor names what is wrong', async () => {
    const asked = await as('admin', ['rules', 'test', 'mail_send', '-p', 'to=a@b.test', '-l', 'internal'])
    expect(asked.stdout).toMatch(/^require_approval\tinternal data leaves with a second person\tRule .*\n$/)
    const draft = join(folder, 'rule.yaml')
    writeFileSync(draft, 'kind: rule\nname: no mail\nverdict: deny\ntools: [mail_send]\n')
    const unknown = await as('admin', ['rules', 'test', 'nosuchtool'])
    expect(unknown.stderr).toMatch(
      /^error: there is no tool `nosuchtool`: .*; `countersign tools` lists the tools; .* add `--agent`\n$/,
    )
    expect((await as('admin', ['tools'])).stdout).toMatch(/^mail_send\tegress\tyes\t/m)
    expect((await as('admin', ['workflows'])).stdout).toMatch(/^wf_\w+\treport\tsend the report$/m)
    const drafted = await as('admin', ['rules', 'test', 'mail_send', '--rules', draft])
    expect(drafted.stdout).toMatch(/^deny\tno mail\t/)
    const back = await as('admin', ['rules', 'backtest', draft])
    expect([back.code, back.stderr]).toEqual([
      0,
      expect.stringMatching(/\d+ of \d+ calls would be decided otherwise/),
    ])
    const unasked = await as('owner', ['freeze', '--reason', 'a test'])
    expect(unasked).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('add `--yes`') })
    expect((await as('owner', ['freeze', '--reason', 'a test', '--yes'])).stdout).toBe('frozen\n')
    const denied = await as('member', ['run', 'sum', '-i', 'numbers=[]', '-f'])
    expect([denied.code, denied.stderr]).toEqual([1, expect.stringMatching(/frozen|freeze/)])
    expect((await as('owner', ['freeze', '--off', '--reason', 'a test'])).stdout).toBe('not frozen\n')
    expect(await as('member', ['freeze', '--reason', 'x', '-y'])).toMatchObject({ code: 1 })
    const doctor = await as('member', ['doctor'])
    expect(doctor.stdout).toMatch(/^server\tok\t.*\nversion\tok\t.*\nclock\tok\t/)
  })

  test('samples are valid, and a mistake stands at its line', async () => {
    const samples = join(import.meta.dirname, '../../samples/workflows')
    expect((await as('member', ['validate', samples])).stdout).toMatch(/^valid\t\d+ files\n$/)
    const wrong = join(folder, 'wrong.yaml')
    writeFileSync(wrong, 'name: x\nsteps:\n  - id: a\n    tool: memory_gett\n    params: {key: k}\n')
    const { code, stderr } = await as('member', ['validate', wrong])
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: wrong\.yaml: line 4, column 11: steps\.0\.tool/),
    ])
  })
})

describe('the shell', () => {
  test('no colours in a pipe', async () => {
    expect((await as('admin', ['runs'])).stdout).not.toContain('\u001b')
  })

  inTerminal('tables with colours in a terminal, unless NO_COLOR says no', async () => {
    const shown = await as('admin', ['runs'], { terminal: true })
    expect(shown.stdout).toMatch(/\u001b\[1mRUN +\u001b\[22m/) // oxlint-disable-line eslint/no-control-regex
    const plain = await as('admin', ['runs'], { terminal: true, env: { NO_COLOR: '1' } })
    expect(plain.stdout).toMatch(/^RUN +STATUS/)
  })

  test('a reader that has read enough is no error', () => {
    const { status, stderr } = spawnSync('bash', ['-c', `set -o pipefail; ${process.execPath} ${bin} --help | head -1`], { encoding: 'utf8' }) // prettier-ignore
    expect([status, stderr]).toEqual([0, ''])
  })

  test.each(['bash', 'zsh', 'fish'])('completes commands and options in %s', async (shell) => {
    const script = await cli(['completion', shell])
    expect([script.code, script.stdout]).toEqual([0, expect.stringContaining('countersign')])
    const bash = spawnSync('bash', ['-n'], { input: script.stdout, encoding: 'utf8' })
    if (shell === 'bash') expect([bash.status, bash.stderr]).toEqual([0, ''])
  })

  test('names what it completes', async () => {
    const asked = async (...words: readonly string[]) =>
      (await cli(['complete', '--', ...words])).stdout.split('\n').map((line) => line.split('\t')[0])
    expect(await asked('app')).toEqual(expect.arrayContaining(['apply', 'approve', 'approvals']))
    expect(await asked('run', '--f')).toEqual(expect.arrayContaining(['--follow', '--file']))
    expect(await asked('server', 'rot')).toEqual(expect.arrayContaining(['rotate-key']))
    expect(await asked('runs', '--status', 'c')).toEqual(expect.arrayContaining(['completed', 'cancelled']))
  })

  test('a command that is not there suggests another, with exit code 1; programs of operators have their own', async () => {
    expect(await cli(['aprove'])).toMatchObject({ code: 1, stderr: expect.stringContaining('approve') })
    expect(await cli(['verify-audit'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('verify-audit FILE'),
    })
    expect(await cli(['server', 'set-plan'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('usage'),
    })
    expect(await cli(['server', 'check-config'], { env: { APP_ENV: 'nowhere' } })).toMatchObject({ code: 1 })
  })
})
