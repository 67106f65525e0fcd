import { spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { bin, cli } from './run-cli.ts'
import { programEnv } from '../support/program-env.ts'
import { startStandIn, type StandIn } from './stand-in.ts'

/* `plan`, `apply`, `pull` and the errors of the connection, against a server that answers what a test says. */

let standIn: StandIn
let url: string
let folder: string

beforeAll(async () => {
  standIn = await startStandIn()
  url = standIn.url
  folder = mkdtempSync(join(tmpdir(), 'cli-files-'))
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await standIn?.close()
})
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  standIn.begin()
})

const env = () => ({ COUNTERSIGN_URL: url, COUNTERSIGN_API_KEY: 'csk_live_secret', NO_COLOR: '1' })
const run = (...args: readonly string[]) => cli(args, { env: env() })
const put = (path: string, text: string): void => {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}
const read = (path: string): string => readFileSync(join(folder, path), 'utf8')
const applied = (changes: readonly object[] = [], counts = {}) => ({
  ...{ dry_run: true, plan: 'hash-1', created: 0, changed: 0, deleted: 0, unchanged: 0, more: 0 },
  ...counts,
  changes,
})
const aRule = 'kind: rule\nname: mail\nverdict: deny\n'
const change = {
  ...{ action: 'change', kind: 'rule', name: 'mail', id: 'rule_1', path: 'mail.yaml' },
  lines: ['verdict: allow → deny'],
  decided_otherwise: {
    call: { tool: 'mail_send', params: { to: 'a@b.test' }, labels: ['pii'] },
    before: 'allow',
    after: 'deny',
  },
}
const refused = (status: number, code: string, message: string, details: object[] = []) =>
  [status, { error: { code, message, details } }] as const

describe('plan', () => {
  test('sends each file with its path, shows the changes, and ends with 2; with 0 if nothing would change', async () => {
    put('rules/mail.yaml', aRule)
    put('flows/hello.yaml', 'name: hello\nslug: hello\n$schema: s\nsteps: []\n')
    put('countersign.yaml', 'approvals_enabled: true\n')
    put('.hidden/x.yaml', 'a: [')
    put('node_modules/x.yaml', 'a: [')
    put('notes.md', 'a: [')
    standIn.answers['POST /organizations/org_1/apply'] = () => [200, applied([change], { changed: 1 })]
    const { code, stdout, stderr } = await run('plan', folder, '--repository', 'https://git.test/a')
    expect(stdout).toBe(
      '~ rule mail (mail.yaml)\n    verdict: allow → deny\n    for example mail_send {"to":"a@b.test"}, labels pii: allow → deny\n',
    )
    expect([code, stderr]).toEqual([2, 'plan: 0 to create, 1 to change, 0 to delete, 0 unchanged\n'])
    expect(standIn.sent.at(-1)?.body).toEqual({
      objects: [
        { kind: 'organization', approvals_enabled: true, path: 'countersign.yaml' },
        {
          kind: 'workflow',
          name: 'hello',
          slug: 'hello',
          definition: { steps: [] },
          path: 'flows/hello.yaml',
        },
        { kind: 'rule', name: 'mail', verdict: 'deny', path: 'rules/mail.yaml' },
      ],
      repository: 'https://git.test/a',
      dry_run: true,
    })
    standIn.answers['POST /organizations/org_1/apply'] = () => [200, applied([], { unchanged: 3 })]
    expect((await run('plan', folder)).code).toBe(0)
  })

  test('paths are from the root of the repository', async () => {
    mkdirSync(join(folder, '.git'))
    put('config/rules/mail.yaml', aRule)
    standIn.answers['POST /organizations/org_1/apply'] = () => [200, applied()]
    await run('plan', join(folder, 'config'))
    expect(standIn.sent.at(-1)?.body.objects[0].path).toBe('config/rules/mail.yaml')
  })

  test('as Markdown, the names of a stranger’s branch are no markup and mention nobody', async () => {
    put('mail.yaml', aRule)
    const hostile = {
      ...change,
      name: '```\n@everyone <img src=x>',
      lines: ['a\u001b[2Jb'],
      decided_otherwise: null,
    }
    standIn.answers['POST /organizations/org_1/apply'] = () => [200, applied([hostile], { changed: 1 })]
    const { code, stdout } = await run('plan', folder, '--format', 'markdown')
    expect(code).toBe(2)
    expect(stdout).toBe(
      '### Countersign: 0 to create, 1 to change, 0 to delete, 0 unchanged\n\n````diff\n! rule ```\\n@everyone <img src=x> (mail.yaml)\n    a\\u001b[2Jb\n````\n\nPlan `hash-1`\n',
    )
  })

  test('mistakes that the server finds stand at their line', async () => {
    put('rules/mail.yaml', 'kind: rule\nname: mail\n# why\nverdict: maybe\n')
    const details = [{ path: 'rules/mail.yaml.verdict', message: 'must be `allow`' }]
    standIn.answers['POST /organizations/org_1/apply'] = () =>
      refused(422, 'validation_error', 'wrong', details)
    const { code, stderr } = await run('plan', folder)
    expect([code, stderr]).toEqual([
      1,
      'error: rules/mail.yaml: line 4, column 10: verdict: must be `allow`\n',
    ])
  })
})

test.each([
  ['several documents', 'kind: rule\n---\nkind: rule\n', 'line 2, column 1: a text has one document'],
  ['an alias', 'kind: rule\nname: &a x\nverdict: *a\n', 'line 2, column 10: leave the anchor'],
  ['a bomb of aliases', `a: &a [x]\n${'bcdefgh'.split('').map((each, at) => `${each}: &${each} [${Array(9).fill(`*${'abcdefg'[at]}`).join(', ')}]`).join('\n')}\n`, 'leave the anchor'], // prettier-ignore
  ['a field twice', 'kind: rule\nname: a\nname: b\n', 'line 3, column 1: the field is there twice'],
  ['a tag', 'kind: !!js/function rule\n', 'line 1, column 7: Unresolved tag'],
  [
    'a large whole number',
    'kind: rule\nname: a\nx: -12345678901234567890\n',
    'line 3, column 4: this is a whole number beyond',
  ],
  ['depth', `kind: ${'['.repeat(30_000)}`, 'too deep'],
  ['another kind', 'kind: rules\n', 'there is no kind "rules": `organization`, `rule`'],
  ['no kind', 'name: x\n', 'say in `kind` what it is'],
  ['a list', '- a\n', 'a file has one object'],
  ['size', `kind: rule\nname: ${'x'.repeat(600_000)}\n`, 'a file has at most 512 KiB'],
  ['bytes that are no text', 'kind: \u00ff', null],
])('a file with %s is an error with its place, and nothing is sent', async (_what, text, said) => {
  put('good.yaml', aRule)
  writeFileSync(join(folder, 'x.yaml'), text, said === null ? 'latin1' : 'utf8')
  const { code, stderr } = await run('apply', folder, '--yes')
  expect(code).toBe(1)
  expect(stderr).toContain(`x.yaml: ${said === null ? 'it is not UTF-8' : ''}`)
  if (said !== null) expect(stderr).toContain(said)
  expect(standIn.sent).toEqual([])
})

test.each([
  ['out of the folder', (at: string) => symlinkSync('/etc/hostname', at)],
  ['nowhere', (at: string) => symlinkSync(join(folder, 'nothing'), at)],
])('a link that leads %s is refused', async (_where, link) => {
  put('good.yaml', aRule)
  link(join(folder, 'x.yaml'))
  const { code, stderr } = await run('apply', folder, '--yes')
  expect([code, standIn.sent]).toEqual([1, []])
  expect(stderr).toContain('leads out of the folder')
})

test.each(['x.yaml', 'rules'])(
  'a link `%s` to a folder is refused: its objects would be deleted',
  async (name) => {
    put('good.yaml', aRule)
    put('.shared/mail.yaml', aRule)
    symlinkSync(join(folder, '.shared'), join(folder, name))
    const { code, stderr } = await run('apply', folder, '--yes')
    expect([code, standIn.sent]).toEqual([1, []])
    expect(stderr).toContain(`${name}\` is a link to a folder: put the folder itself there`)
  },
)

test.each(['plan', 'apply'])('%s of a folder without objects is an error', async (verb) => {
  put('notes.md', 'nothing')
  const { code, stderr } = await run(verb, folder, '--repository', 'https://git.test/a')
  expect([code, standIn.sent]).toEqual([1, []])
  expect(stderr).toContain('has no file that ends in .yaml')
})

test('validate checks workflows alone by their route, and everything else by a plan', async () => {
  put('hello.yaml', 'name: hello\nsteps: []\n')
  standIn.answers['POST /workflows/validate'] = () => [200, { valid: true }]
  expect(await run('validate', folder)).toMatchObject({ code: 0, stdout: 'valid\t1 file\n' })
  // A key that may only read plans instead.
  standIn.answers['POST /workflows/validate'] = () => refused(403, 'missing_scope', 'no')
  standIn.answers['POST /organizations/org_1/apply'] = () => [200, applied()]
  expect((await run('validate', folder)).code).toBe(0)
  put('rules/mail.yaml', 'kind: rule\nname: mail\nverdict: maybe\n')
  const details = [{ path: 'rules/mail.yaml:verdict', message: 'must be `allow`' }]
  standIn.answers['POST /organizations/org_1/apply'] = () => refused(422, 'validation_error', 'no', details)
  const { code, stderr } = await run('validate', folder)
  expect([code, stderr]).toEqual([1, 'error: rules/mail.yaml: line 3, column 10: verdict: must be `allow`\n'])
  expect(standIn.sent.at(-1)?.body).toMatchObject({ dry_run: true })
})

describe('apply', () => {
  beforeEach(() => put('mail.yaml', aRule))

  test('does what the plan said, with its hash, and asks before', async () => {
    standIn.answers['POST /organizations/org_1/apply'] = (body) => [200, { ...applied([change], { changed: 1 }), dry_run: body.dry_run === true }] // prettier-ignore
    const unasked = await run('apply', folder)
    expect([unasked.code, standIn.sent.filter(({ path }) => path.includes('apply')).length]).toEqual([1, 1])
    expect(unasked.stderr).toContain('add `--yes` if you are sure')
    const { code, stdout } = await run('apply', folder, '--yes', '--commit', 'abc', '--repository', 'r')
    expect(code).toBe(0)
    expect(stdout).toContain('applied\t0 created, 1 changed, 0 deleted, 0 unchanged\n')
    const [last] = standIn.sent.splice(-1)
    expect(last?.body).toEqual({
      objects: [{ kind: 'rule', name: 'mail', verdict: 'deny', path: 'mail.yaml' }],
      ...{ plan: 'hash-1', commit: 'abc', repository: 'r' },
    })
    expect(last?.headers['idempotency-key']).toMatch(/^[\w-]{36}$/)
  })

  test('says who must decide a looser change, and what else has changed meanwhile', async () => {
    const later = (answer: readonly [number, unknown]) => (body: { dry_run?: boolean }) =>
      body.dry_run === true ? ([200, applied([change], { changed: 1 })] as const) : answer
    standIn.answers['POST /organizations/org_1/apply'] = later([
      202,
      { change: { id: 'apr_1', status: 'pending', why: ['`mail` allows more'] } },
    ])
    const held = await run('apply', folder, '--yes')
    expect([held.code, held.stdout]).toEqual([2, expect.stringContaining(`waiting\tapr_1\t${url}/console/approvals/apr_1\n`)]) // prettier-ignore
    expect(held.stderr).toContain('`mail` allows more')
    standIn.answers['POST /organizations/org_1/apply'] = later(
      refused(409, 'conflict', 'something has changed'),
    )
    expect(await run('apply', folder, '--yes')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('error: something has changed'),
    })
  })
})

test('apply goes on if nobody reads the plan, and its exit code says what became of it', async () => {
  put('mail.yaml', aRule)
  const lines = Array.from({ length: 2_000 }, () => 'x'.repeat(100))
  standIn.answers['POST /organizations/org_1/apply'] = ({ dry_run: dry = false }) =>
    dry ? [200, applied([{ ...change, lines }])] : refused(409, 'conflict', 'something has changed')
  const script = `'${process.execPath}' '${bin}' apply '${folder}' --yes | head -1; exit \${PIPESTATUS[0]}`
  const code = await new Promise((resolve) =>
    spawn('bash', ['-c', script], { env: { ...programEnv(), ...env() } }).once('close', resolve),
  )
  expect([code, standIn.sent.filter(({ path }) => path.includes('apply')).length]).toEqual([1, 2])
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends the command by this signal, and not with 0',
  async (name) => {
    standIn.answers['GET /me'] = () => {
      child.kill(name)
      return null
    }
    const child = spawn(process.execPath, [bin, 'whoami'], {
      env: { ...programEnv(), ...env() },
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    const ended = await new Promise((resolve) =>
      child.once('exit', (code, signal) => resolve([code, signal])),
    )
    expect(ended).toEqual([null, name])
  },
)

describe('the connection', () => {
  const whoami = (env: Readonly<Record<string, string>>) =>
    cli(['whoami'], { env: { XDG_CONFIG_HOME: folder, ...env } })
  const key = { COUNTERSIGN_API_KEY: 'csk_live_secret' }

  test.each([
    ['no login', {}, /you are not logged in: run `countersign login --server URL`/],
    ['no address', key, /set COUNTERSIGN_URL too/],
    [
      'nobody there',
      { ...key, COUNTERSIGN_URL: 'http://127.0.0.1:65531' },
      /nothing answers at http:\/\/127\.0\.0\.1:65531/,
    ],
    [
      'no such name',
      { ...key, COUNTERSIGN_URL: 'https://nothing.invalid' },
      /the name `nothing\.invalid` is not known/,
    ],
    [
      'a key in the clear',
      { ...key, COUNTERSIGN_URL: 'http://acme.example' },
      /the key would travel in the clear/,
    ],
    ['no address at all', { ...key, COUNTERSIGN_URL: 'acme' }, /`acme` is no address of a server/],
  ])('%s: says what to change', async (_what, env, said) => {
    const { code, stdout, stderr } = await whoami(env)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(said)
    expect(stderr).not.toContain('csk_live')
  })

  test.each([
    ['another site', [200, '<html>'], /is it the address of a Countersign server\?/],
    ['a key that was revoked', refused(401, 'unauthenticated', 'no'), /COUNTERSIGN_API_KEY is wrong, was revoked or has ended/], // prettier-ignore
    [
      'a scope too few',
      refused(403, 'missing_scope', 'no'),
      /make a key with this scope at http.*\/console\/keys/,
    ],
    ['an older server', refused(404, 'not_found', 'no route answers `GET /me`'), /the server is older than this command line/], // prettier-ignore
    ['a second factor', refused(403, 'mfa_required', 'needed', [{ path: 'second_factor', message: 'https://acme.example/console/second-factor' }]), /acme\.example\/console\/second-factor/], // prettier-ignore
    [
      'text that a terminal obeys',
      refused(409, 'conflict', 'a\u001b]0;b\u0007\u202e'),
      /a\\u001b\]0;b\\u0007\\u202e/,
    ],
  ] as const)('%s: says what to do', async (_what, answer, said) => {
    standIn.answers['GET /me'] = () => answer
    const { code, stderr } = await whoami({ ...key, COUNTERSIGN_URL: url })
    expect(code).toBe(1)
    expect(stderr).toMatch(said)
  })

  test('a stored key goes to its own server alone, and only if nobody else can read it', async () => {
    const path = join(folder, 'countersign', 'credentials.json')
    put(
      'countersign/credentials.json',
      JSON.stringify({ server: url, api_key: 'csk_live_secret', key_id: 'key_1' }),
    )
    chmodSync(path, 0o644)
    expect((await whoami({})).stderr).toContain('chmod 600')
    chmodSync(path, 0o600)
    expect((await whoami({ COUNTERSIGN_URL: 'https://elsewhere.example' })).stderr).toContain(
      'you are logged in at',
    )
    expect(standIn.sent).toEqual([])
    standIn.answers['GET /me'] = () => [
      200,
      { organization_id: 'org_1', organizations: [], user: { email: 'a@b.test' } },
    ]
    expect((await whoami({})).stdout).toBe(`a@b.test\t\t\torg_1\t${url}\n`)
    expect(standIn.sent[0]?.headers['authorization']).toBe('Bearer csk_live_secret')
  })

  test('a redirect is not followed, because it could lead the key elsewhere', async () => {
    standIn.answers['GET /me'] = () => [302, '']
    expect((await whoami({ ...key, COUNTERSIGN_URL: url })).stderr).toContain(
      'name that address as the server',
    )
  })
})
