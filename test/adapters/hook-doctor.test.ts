import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/*
 * The verdicts of `doctor`. `works` is for a user's own installation whose checks all passed. No client
 * gets `protected` today; test/clients/attacks tests that.
 */

const own = 'org_00000000000000000000000001'
const another = 'org_00000000000000000000000002'
let service: ScriptedService
let home: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.script = (asked, socket) => {
    // An agent's key may only ask for decisions.
    if (asked.path === '/api/v1/me') return reply(socket, 403, { error: { message: 'missing scope' } })
    if (asked.path !== '/api/v1/authorize') return reply(socket, 404, {})
    const stranger = asked.body.includes('"organization_id":"org_00000000000000000000000000"')
    const isNamed = asked.body.includes('"organization_id"') && !asked.body.includes(`"${own}"`)
    const wrong = { ...denied, rule_name: null, reason: 'wrong organization' }
    reply(socket, 200, stranger || isNamed ? wrong : allowed)
  }
  home = temporaryFolder()
  // The PATH has Python and sh, but no client.
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home, PATH: '/usr/bin:/bin' }
  program('claude', '#!/bin/sh\necho 2.1.329\n')
})
afterAll(() => service.close())

const run = (...args: string[]): Promise<Ended> =>
  runHook({ command: [python, hookFile], args, env, cwd: home })
const install = (dialect: string): Promise<Ended> => run('install', '--dialect', dialect, '--yes')
const place = (path: string, text: string): string => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
  return path
}
/** Writes a program into a folder on PATH. */
function program(name: string, text: string): void {
  const bin = join(home, 'bin')
  chmodSync(place(join(bin, name), text), 0o755)
  env = { ...env, PATH: `${bin}:/usr/bin:/bin` }
}
const withoutClient = (): void => void (env = { ...env, PATH: '/usr/bin:/bin' })
const settings = (): string => join(home, '.claude', 'settings.json')
const edit = (from: string, to: string) => (): void => {
  const text = readFileSync(settings(), 'utf8')
  expect(text).toContain(from)
  writeFileSync(settings(), text.replace(from, to))
}
const set = (changed: object): void => {
  const path = join(home, '.countersign', 'hook.json')
  writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as object), ...changed }))
}
const failMode = (fail_mode: string): void => set({ fail_mode })
const withOrganization = (organization_id: string) => (): void => set({ organization_id })

test('works: every check was made', async () => {
  await install('claude')
  const ended = await run('doctor', '--dialect', 'claude')
  expect(ended.stdout.split('\n').filter((line) => !line.startsWith('note'))).toEqual([
    'ok    claude: the installed command blocks an event that it cannot read',
    'ok    claude 2.1.329 blocks when its hook fails',
    'ok    fail mode is closed',
    `ok    ${service.url} answered: a call for another organization was denied, and blocked (your rules were not tried)`,
    'ok    a call is blocked while the service is unreachable',
    'works',
    '',
  ])
  expect(ended.code).toBe(0)
  expect(ended.stdout + ended.stderr).not.toContain('csk_secret')
})

test('its own sessions are recognised by their agent name, and ended', async () => {
  await install('claude')
  withOrganization(own)()
  service.asked.length = 0
  await run('doctor', '--dialect', 'claude')
  const asked = (path: string): { session_id: string; agent: { name: string } }[] =>
    service.asked.filter((each) => each.path === `/api/v1${path}`).map(({ body }) => JSON.parse(body))
  const [first, second, ...more] = asked('/authorize')
  expect(more).toEqual([])
  expect([first?.agent.name, second?.agent.name]).toEqual(['doctor', 'doctor'])
  expect(asked('/authorize/sessions/end').map((each) => each.session_id)).toEqual([
    first?.session_id,
    second?.session_id,
  ])
})

test.each([
  ['claude', '.claude/settings.json', '{"disableAllHooks": true}'],
  ['claude', '.claude/settings.local.json', '{"disableAllHooks": true}'],
  ['gemini', '.gemini/settings.json', '{"hooksConfig": {"enabled": false}}'],
])('not protected in a folder whose project switches hooks off: %s, %s', async (client, file, text) => {
  await install(client)
  const cwd = temporaryFolder()
  place(join(cwd, file), text)
  const ended = await runHook({
    command: [python, hookFile],
    args: ['doctor', '--dialect', client],
    env,
    cwd,
  })
  expect(ended.stdout).toContain(`${cwd}/${file} switches the hook off in this folder`)
  expect(ended.stdout).toMatch(/\nNOT protected\n$/)
  expect(ended.code).toBe(1)
})

test.each([
  [[], 'no client asks: run `install --dialect ...`'],
  [['--managed'], 'no client asks: run `install --managed --dialect ...`'],
  [['--dialect', 'claude'], 'claude does not ask: run `install --dialect claude`'],
  [['--managed', '--dialect', 'claude'], 'claude does not ask: run `install --managed --dialect claude`'],
])('nothing is installed: doctor %j says only that, and what to run', async (words, says) => {
  env = { HOME: home, PATH: env['PATH'] }
  const ended = await run('doctor', ...words)
  expect(ended).toMatchObject({ code: 1, stdout: `FAIL  ${says}\nNOT protected\n`, stderr: '' })
})

test('an image is not tested from outside', async () => {
  const ended = await run('doctor', '--root', home)
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('run doctor --managed inside it')
})

test('works with its own organization named', async () => {
  env = { ...env, SERVICE_ORG_ID: own }
  await install('claude')
  expect(await run('doctor', '--dialect', 'claude')).toMatchObject({ code: 0 })
})

test.each<[string, () => void, string]>([
  ['nothing is installed', () => writeFileSync(settings(), '{}'), 'does not ask'],
  [
    'the client is too old',
    () => program('claude', '#!/bin/sh\necho 2.1.294\n'),
    'too old.*claude-code@latest',
  ],
  ['hooks are switched off', edit('{', '{"disableAllHooks": true,'), 'disableAllHooks'],
  ['a failed hook would let calls pass', edit('"block"', '"continue"'), 'onFailure'],
  ['the client’s timeout is too short', edit('"timeout": 90', '"timeout": 9'), 'time-out'],
  ['some tools are left out', edit('"matcher": "*"', '"matcher": "Bash"'), 'matcher'],
  [
    'the client does not wait for its answer',
    edit('"onFailure"', '"async": true,\n"onFailure"'),
    'does not wait',
  ],
  ['its command is not the hook', edit('"command": "/bin', '"command": 1, "was": "/bin'), 'cannot be read'],
  ['the hook is gone', edit('service_hook.py pre', 'service_hook.py.gone pre'), ''],
  ['calls pass while it is unreachable', () => failMode('open'), 'fail mode is open'],
  [
    'everything is allowed',
    () => void (service.script = (_asked, socket) => reply(socket, 200, allowed)),
    'must be denied was not',
  ],
  ['another organization is named', withOrganization(another), `\`${another}\`.*SERVICE_ORG_ID`],
  [
    'the key is refused',
    () => void (service.script = (_asked, socket) => reply(socket, 401, {})),
    'could not be asked.* 401.*SERVICE_API_KEY.*; calls are blocked meanwhile',
  ],
])('not protected: %s', async (_name, breaks, says) => {
  await install('claude')
  breaks()
  const ended = await run('doctor', '--dialect', 'claude')
  expect(ended.stdout).toMatch(new RegExp(`^FAIL .*${says}`, 'm'))
  expect(ended.stdout).toMatch(/NOT protected\n$/)
  expect(ended.code).toBe(1)
})

test.each([
  ['closed', 'are blocked'],
  ['open', 'run unchecked'],
])(
  'nothing answers, in %s mode: the check could not be made, and calls %s meanwhile',
  async (mode, meanwhile) => {
    await install('claude')
    failMode(mode)
    service.script = (_asked, socket) => socket.destroy()
    const { stdout, code } = await run('doctor', '--dialect', 'claude')
    const [line, ...more] = stdout.split('\n').filter((each) => each.includes('unreachable ('))
    expect(more).toEqual([])
    expect(line).toContain(`FAIL  ${service.url} could not be asked: the service is unreachable (`)
    expect(line).toContain(`; calls ${meanwhile} meanwhile: start it, or correct SERVICE_API_URL`)
    expect(stdout).not.toContain('must be denied')
    expect(code).toBe(1)
  },
)

test.each<[string, string, () => void, string]>([
  ['the client was never tested', 'cursor', () => {}, 'cursor was never tested'],
  [
    'the organization of the key is unknown',
    'claude',
    () => {
      const { script } = service
      service.script = (asked, socket, nth) =>
        asked.body.includes('"tool_name":"Glob"') ? reply(socket, 404, {}) : script(asked, socket, nth)
      withOrganization(own)()
    },
    `\`${own}\``,
  ],
])('not proven: %s', async (_name, dialect, breaks, says) => {
  await install(dialect)
  breaks()
  const ended = await run('doctor', '--dialect', dialect)
  expect(ended.stdout).toMatch(new RegExp(`^\\?\\? {4}.*${says}`, 'm'))
  expect(ended.stdout).toMatch(/\nnot proven: see to the lines with \?\?\n$/)
  expect(ended.stdout).not.toContain('FAIL')
  expect(ended.code).toBe(1)
})

test('not tried: there is no client yet, and a set-up can go on', async () => {
  await install('claude')
  withoutClient()
  const ended = await run('doctor', '--dialect', 'claude')
  expect(ended.stdout).toMatch(/^\?\? {4}`claude` is not on the PATH, so its version could not be tried/m)
  expect(ended.stdout).toMatch(/\nnot tried: see to the lines with \?\?\n$/)
  expect(ended.code).toBe(0)
})

test.each(['CLAUDE_CODE_SHELL_PREFIX', 'SHELLOPTS', 'LD_PRELOAD'])(
  'not protected in a folder whose project sets %s',
  async (name) => {
    await install('claude')
    const cwd = temporaryFolder()
    place(join(cwd, '.claude/settings.json'), JSON.stringify({ env: { [name]: 'x' } }))
    const ended = await runHook({
      command: [python, hookFile],
      args: ['doctor', '--dialect', 'claude'],
      env,
      cwd,
    })
    expect(ended.stdout).toContain(`FAIL  \`env.${name}\` in ${cwd}/.claude/settings.json can keep the hook`)
    expect(ended).toMatchObject({ code: 1, stdout: expect.stringMatching(/\nNOT protected\n$/) })
  },
)

/* Codex skips hooks that the user has not trusted. Codex's own server tells which hooks these are. */
const codex = (answer: string): string => `#!/usr/bin/env python3
import json, os, sys
if sys.argv[1:] == ['--version']:
    print('codex-cli 0.169.0')
    sys.exit()
hooks = json.load(open(os.environ['HOME'] + '/.codex/hooks.json'))['hooks']
command = hooks['PreToolUse'][0]['hooks'][0]['command']
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get('method') == 'hooks/list':
        print(json.dumps({'method': 'configWarning'}))
        print(json.dumps({'id': asked['id'], ${answer}}), flush=True)
`
const listed = (hook: string): string => `'result': {'data': [{'hooks': [${hook}]}]}`
const ours = (trust: string, enabled = 'True'): string =>
  `{'command': command, 'enabled': ${enabled}, 'trustStatus': '${trust}', 'eventName': 'preToolUse'}`
const state = (trust: string, enabled = 'True'): string => listed(ours(trust, enabled))
/** Lists a hook of the project beside our own trusted hook. */
const beside = (trust: string, event = 'preToolUse'): string =>
  listed(
    `${ours('trusted')}, {'command': 'x', 'enabled': True, 'trustStatus': '${trust}', 'eventName': '${event}', 'sourcePath': '/p/.codex/hooks.json'}`,
  )
const changes = "FAIL  a project's hook in /p/.codex/hooks.json can change a call"

test.each([
  ['trusted', state('trusted'), 'works', 'ok    codex trusts the hook'],
  ['untrusted', state('untrusted'), 'NOT protected', 'FAIL  codex skips the hook (it is untrusted)'],
  ['changed', state('modified'), 'NOT protected', 'FAIL  codex skips the hook (it is modified)'],
  ['switched off', state('trusted', 'False'), 'NOT protected', 'FAIL  codex skips the hook (it is off)'],
  ['not loaded', listed(''), 'NOT protected', 'FAIL  codex skips the hook (it is not there)'],
  ['trusted, beside one of the project', beside('trusted'), 'NOT protected', changes],
  ['trusted, beside an untrusted one of the project', beside('untrusted'), 'works', 'ok    codex trusts'],
  ['trusted, beside one after calls', beside('trusted', 'postToolUse'), 'works', 'ok    codex trusts'],
  ['not told', `'error': {}`, 'not proven: see to the lines with ??', '??    codex does not say'],
])('codex, its hook %s', async (_name, answer, verdict, says) => {
  program('codex', codex(answer))
  await install('codex')
  const { stdout, code } = await run('doctor', '--dialect', 'codex')
  expect(stdout).toContain(says)
  expect(stdout.trim().split('\n').at(-1)).toBe(verdict)
  expect(code).toBe(verdict === 'works' ? 0 : 1)
})
