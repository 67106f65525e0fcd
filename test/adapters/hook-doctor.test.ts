import {
  chmodSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
  existsSync,
  readdirSync,
  symlinkSync,
  utimesSync,
  cpSync,
  rmSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test, describe } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { selfSigned } from '../support/self-signed.ts'
import { hookFile, python, runHook, type Ended } from './run-hook.ts'
import { allowed, denied, reply, type ScriptedService } from './scripted-service.ts'
import { useService } from './use-service.ts'

/*
 * The verdicts of `doctor`. `works` is for a user's own installation whose checks all passed. No client
 * gets `protected` today; test/clients/attacks tests that.
 */

const own = 'org_00000000000000000000000001'
const another = 'org_00000000000000000000000002'
let service: ScriptedService
/** One folder for all tests, because the installed commands name it. */
const home = temporaryFolder()
let env: NodeJS.ProcessEnv
useService(
  (started) => (service = started),
  ({ path, body }, socket) => {
    // An agent's key may only ask for decisions.
    if (path === '/api/v1/me') return reply(socket, 403, { error: { message: 'missing scope' } })
    if (path !== '/api/v1/authorize') return reply(socket, 404, {})
    const stranger = body.includes('"organization_id":"org_00000000000000000000000000"')
    const isNamed = body.includes('"organization_id"') && !body.includes(`"${own}"`)
    const wrong = { ...denied, rule_name: null, reason: 'wrong organization' }
    reply(socket, 200, stranger || isNamed ? wrong : allowed)
  },
)
beforeEach(() => {
  for (const name of readdirSync(home)) rmSync(join(home, name), { recursive: true })
  // The PATH has Python and sh, but no client.
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_secret', HOME: home, PATH: '/usr/bin:/bin' }
  program('claude', '#!/bin/sh\necho 2.1.329\n')
})

const runIn = (cwd: string, ...args: string[]): Promise<Ended> =>
  runHook({ command: [python, hookFile], args, env, cwd })
const run = (...args: string[]): Promise<Ended> => runIn(home, ...args)

/** What `install` wrote, by everything that it depends on. An installation is copied, and not made again. */
const installed = new Map<string, string>()
async function install(dialect: string): Promise<void> {
  const key = JSON.stringify([dialect, env, readdirSync(home, { recursive: true })])
  const known = installed.get(key)
  if (known !== undefined) return cpSync(known, home, { recursive: true })
  expect((await run('install', '--dialect', dialect, '--yes')).code).toBe(0)
  installed.set(key, temporaryFolder())
  const filter = (path: string): boolean => path !== join(home, 'bin')
  cpSync(home, installed.get(key) as string, { recursive: true, filter })
}
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
const answers = (status: number, body: object): void => {
  service.script = (_asked, socket) => reply(socket, status, body)
}
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
  const ended = asked('/authorize/sessions/end').map((each) => each.session_id)
  expect(ended).toEqual([first?.session_id, second?.session_id])
})

test.each([
  ['claude', '.claude/settings.json', '{"disableAllHooks": true}'],
  ['claude', '.claude/settings.local.json', '{"disableAllHooks": true}'],
  ['gemini', '.gemini/settings.json', '{"hooksConfig": {"enabled": false}}'],
])('not protected in a folder whose project switches hooks off: %s, %s', async (client, file, text) => {
  await install(client)
  const cwd = temporaryFolder()
  place(join(cwd, file), text)
  const ended = await runIn(cwd, 'doctor', '--dialect', client)
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
  ['it is too old', () => program('claude', '#!/bin/sh\necho 2.1.294\n'), 'too old.*claude-code@latest'],
  ['hooks are switched off', edit('{', '{"disableAllHooks": true,'), 'disableAllHooks'],
  ['a failed hook would let calls pass', edit('"block"', '"continue"'), 'onFailure'],
  ['the client’s timeout is too short', edit('"timeout": 90', '"timeout": 9'), 'time-out'],
  ['some tools are left out', edit('"matcher": "*"', '"matcher": "Bash"'), 'matcher'],
  ['the client does not wait', edit('"onFailure"', '"async": true,\n"onFailure"'), 'does not wait'],
  ['its command is not the hook', edit('"command": "/bin', '"command": 1, "was": "/bin'), 'cannot be read'],
  ['the hook is gone', edit('service_hook.py pre', 'service_hook.py.gone pre'), ''],
  ['calls pass while it is unreachable', () => failMode('open'), 'fail mode is open'],
  ['everything is allowed', () => answers(200, allowed), 'must be denied was not'],
  ['another organization is named', withOrganization(another), `\`${another}\`.*SERVICE_ORG_ID`],
  [
    'the key is refused',
    () => answers(401, {}),
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
    const ended = await runIn(cwd, 'doctor', '--dialect', 'claude')
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

describe('in the folder of a project', () => {
  const doctorIn = async (cwd: string, client = 'claude') =>
    (await runIn(cwd, 'doctor', '--dialect', client)).stdout
  /** Adds settings to the user's settings. */
  const userSettings = (more: object): void => {
    const known = JSON.parse(readFileSync(settings(), 'utf8')) as object
    place(settings(), JSON.stringify({ ...known, ...more }))
  }

  test.each<[string, string, string, string, string]>([
    [
      'a hook that can change a call',
      '.claude/settings.json',
      '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}}',
      '{}',
      "FAIL .*a project's hook in .*/.claude/settings.json can change a call",
    ],
    [
      'a skill with a command',
      '.claude/skills/a/b/SKILL.md',
      'look: !`date`',
      '{}',
      'FAIL .*/.claude/skills/a/b/SKILL.md has a shell command that runs before any hook',
    ],
    ['a slash command', '.claude/commands/x.md', '```!\ndate\n```', '{}', 'FAIL .*/x.md has a shell'],
    [
      'a skill, while the project allows their commands',
      '.claude/skills/a/SKILL.md',
      '!`date`',
      '{"disableSkillShellExecution": false}',
      'FAIL .*SKILL.md',
    ],
  ])('not protected in a folder whose project has %s', async (_name, file, text, local, says) => {
    await install('claude')
    userSettings({ disableSkillShellExecution: local !== '{}' })
    const cwd = temporaryFolder()
    place(join(cwd, '.claude/settings.local.json'), local)
    place(join(cwd, file), text)
    const stdout = await doctorIn(cwd)
    expect(stdout).toMatch(new RegExp(`^${says}`, 'm'))
    expect(stdout).toMatch(/\nNOT protected\n$/)
  })

  test.each<[string, string, string, object]>([
    ['a hook after calls', '.claude/settings.json', '{"hooks": {"PostToolUse": [{}]}}', {}],
    ['a skill without a command', '.claude/skills/a/SKILL.md', 'Look at `date`!', {}],
    [
      'a skill whose commands the user has switched off',
      '.claude/skills/a/SKILL.md',
      '!`date`',
      { disableSkillShellExecution: true },
    ],
  ])('works in a folder whose project has %s', async (_name, file, text, more) => {
    await install('claude')
    userSettings(more)
    const cwd = temporaryFolder()
    place(join(cwd, file), text)
    expect(await doctorIn(cwd)).toMatch(/\nworks\n$/)
  })

  test('not protected beside an extension of Gemini CLI with a hook that can change a call', async () => {
    program('gemini', '#!/bin/sh\necho 0.61.0\n')
    await install('gemini')
    const cwd = temporaryFolder()
    const verdict = () => doctorIn(cwd, 'gemini')
    const file = join(home, '.gemini/extensions/own/hooks/hooks.json')
    place(file, '{"hooks": {"AfterTool": [{}]}}')
    expect(await verdict()).toMatch(/\nworks\n$/)
    place(file, '{"hooks": {"BeforeTool": [{}]}}')
    expect(await verdict()).toMatch(new RegExp(`\nFAIL .*${file}.*\n(.*\n)*NOT protected\n$`))
  })

  test('not protected in a folder whose project knows the name of the hook for Gemini CLI', async () => {
    program('gemini', '#!/bin/sh\necho 0.61.0\n')
    await install('gemini')
    const installed = readFileSync(join(home, '.gemini', 'settings.json'), 'utf8')
    const [name = ''] = /countersign-\w{16}/.exec(installed) ?? []
    const cwd = temporaryFolder()
    const doctorAfter = async (disabled: string): Promise<string> => {
      place(join(cwd, '.gemini', 'settings.json'), JSON.stringify({ hooksConfig: { disabled: [disabled] } }))
      return doctorIn(cwd, 'gemini')
    }
    expect(await doctorAfter('countersign-0000000000000000')).toMatch(/\nworks\n$/)
    const stdout = await doctorAfter(name)
    expect(stdout).toContain(`FAIL  \`hooksConfig.disabled\` in ${cwd}/.gemini/settings.json`)
    expect(stdout).toMatch(/\nNOT protected\n$/)
  })

  test.each(['SHELLOPTS=noexec', 'export LD_TRACE_LOADED_OBJECTS=1'])(
    'not protected while ~/.codex/.env has %s',
    async (line) => {
      await install('codex')
      place(join(home, '.codex', '.env'), `OPENAI_API_KEY=x\n`)
      const verdict = () => doctorIn(home, 'codex')
      expect(await verdict()).toMatch(/\nnot tried: .*\n$/)
      place(join(home, '.codex', '.env'), `OPENAI_API_KEY=x\n${line}\n`)
      expect(await verdict()).toMatch(/\nFAIL .*\.codex\/\.env keeps the hook.*\n(.*\n)*NOT protected\n$/)
    },
  )

  const doctorOf = async (client: string, more: NodeJS.ProcessEnv): Promise<string> => {
    await install(client)
    env = { ...env, ...more }
    return doctorIn(home, client)
  }

  test.each(['BASH_ENV', 'SHELLOPTS', 'LD_PRELOAD'])(
    'not protected while the environment has %s',
    async (name) => {
      // None of these values does anything.
      const stdout = await doctorOf('claude', { [name]: name === 'SHELLOPTS' ? 'hashall' : '/nowhere' })
      expect(stdout).toContain(`FAIL  \`${name}\` in the environment can keep the hook from running`)
      expect(stdout).toMatch(/\nNOT protected\n$/)
    },
  )

  test('works while the environment has folders of libraries and values without a meaning for shells', async () => {
    const stdout = await doctorOf('claude', {
      LD_LIBRARY_PATH: '/nowhere',
      BASH_ENV: '',
      ENV: 'production',
      'BASH_FUNC_which%%': '() { :; }',
    })
    expect(stdout).toContain('note  `LD_LIBRARY_PATH` is set here')
    expect(stdout).toMatch(/\nworks\n$/)
  })

  test.each(['codex', 'copilot'])(
    '%s: the hook is tried with the shell that the client uses',
    async (client) => {
      place(join(home, 'quiet.sh'), 'exit 0\n')
      const says = `FAIL  ${client}: the installed command does not block (exit code 0)`
      expect(await doctorOf(client, { BASH_ENV: join(home, 'quiet.sh') })).toContain(says)
    },
  )

  test('gemini: the hook is tried with the first bash of the PATH', async () => {
    program('bash', '#!/bin/sh\nexit 0\n')
    expect(await doctorOf('gemini', {})).toContain(
      'FAIL  gemini: the installed command does not block (exit code 0)',
    )
  })
})

describe('the environment of a session', () => {
  /*
   * A project's settings can change the environment of a session. If the hook has a settings file, the environment must
   * change neither which service is asked nor the conditions under which calls pass. Nothing else on the machine may
   * prevent a deny.
   */

  let secure: ScriptedService
  useService((started) => (secure = started), undefined, true)
  /** The certificate authority of the service, in a file that nobody else can change. */
  let authority: string
  beforeEach(() => {
    answers(200, allowed)
    rmSync(join(home, 'bin'), { recursive: true })
    authority = join(temporaryFolder(), 'authority.pem')
    writeFileSync(authority, readFileSync(selfSigned.certFile), { mode: 0o600 })
  })

  const event = {
    session_id: 's',
    hook_event_name: 'PreToolUse',
    tool_name: 'Bash',
    tool_input: { command: 'ls' },
  }
  const file = (settings: object): string => {
    const path = join(temporaryFolder(), 'hook.json')
    writeFileSync(path, JSON.stringify({ api_key: 'csk_file', ...settings }), { mode: 0o600 })
    return path
  }
  const pre = (settings: object, env: NodeJS.ProcessEnv): Promise<Ended> =>
    runHook({
      args: ['pre', '--dialect', 'claude', '--config', file(settings)],
      env: { HOME: home, ...env },
      event,
    })
  const install = (dialect: string, env: NodeJS.ProcessEnv, ...more: string[]): Promise<Ended> =>
    runHook({
      command: [python, hookFile],
      args: ['install', '--dialect', dialect, '--yes', ...more],
      env: { HOME: home, SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_x', ...env },
    })
  const installed = (): Record<string, unknown> =>
    JSON.parse(readFileSync(join(home, '.countersign', 'hook.json'), 'utf8')) as Record<string, unknown>

  describe('with a settings file the environment does not decide', () => {
    test('the organization', async () => {
      expect(await pre({ api_url: service.url }, { SERVICE_ORG_ID: 'org_other' })).toMatchObject({ code: 0 })
      expect(JSON.parse(service.asked[0]?.body ?? '')).not.toHaveProperty('organization_id')
    })

    test('the address to which the key of the file is sent', async () => {
      const ended = await pre({}, { SERVICE_API_URL: service.url })
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('SERVICE_API_URL is not set') })
      expect(service.asked).toEqual([])
    })

    test('which authorities to trust; the file decides', async () => {
      const ended = await pre({ api_url: secure.url }, { SSL_CERT_FILE: authority })
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('CERTIFICATE_VERIFY_FAILED') })
      expect(secure.asked).toEqual([])
      expect(await pre({ api_url: secure.url, ca_file: authority }, {})).toMatchObject({ code: 0 })
    })

    test('where secrets of the connection are written', async () => {
      const log = join(home, 'keys')
      const config = file({ api_url: secure.url, ca_file: authority })
      const ended = await runHook({
        // As if the hook was started by hand. With -I, Python ignores the variable.
        command: [python, hookFile, 'pre', '--dialect', 'claude', '--config', config],
        env: { HOME: home, SSLKEYLOGFILE: log },
        event,
      })
      expect(ended).toMatchObject({ code: 0 })
      expect(existsSync(log)).toBe(false)
    })

    test('the fail mode; the file decides', async () => {
      service.script = (_asked, socket) => reply(socket, 403, {})
      const settings = { api_url: 'https://service.invalid', approval_wait: 0 }
      expect(await pre(settings, { HTTPS_PROXY: service.url, https_proxy: service.url })).toMatchObject({
        code: 2,
      })
      expect(service.asked).toEqual([])
      expect(await pre({ ...settings, https_proxy: service.url }, {})).toMatchObject({ code: 2 })
      expect(service.asked[0]).toMatchObject({ method: 'CONNECT', path: 'service.invalid:443' })
    })
  })

  test('`install` keeps the connection settings of the environment, and shows no password', async () => {
    const way = { SSL_CERT_FILE: authority, HTTPS_PROXY: 'http://me:proxy-secret@proxy.example:3128' }
    const ended = await install('claude', { SERVICE_API_URL: 'https://service.invalid', ...way })
    expect(ended.code).toBe(0)
    expect(installed()).toMatchObject({ https_proxy: way.HTTPS_PROXY, ca_file: authority })
    expect(ended.stdout + ended.stderr).not.toContain('proxy-secret')
    const none = await install('gemini', {
      ...way,
      SERVICE_API_URL: 'https://service.invalid',
      NO_PROXY: '*',
    })
    expect(none.code).toBe(0)
  })

  test('a managed file, which everybody can read, contains no password', async () => {
    const root = temporaryFolder()
    const way = { SERVICE_API_URL: 'https://service.invalid', HTTPS_PROXY: 'http://me:x@proxy.example:3128' }
    const named = { ...way, SERVICE_ORG_ID: 'org_00000000000000000000000001' }
    const ended = await install('claude', named, '--managed', '--root', root)
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('has a password') })
    expect(readdirSync(root)).toEqual([])
  })

  test('no program on PATH can replace the shell that blocks', async () => {
    await install('claude', {})
    const settings = JSON.parse(readFileSync(join(home, '.claude', 'settings.json'), 'utf8'))
    const line = settings.hooks.PreToolUse[0].hooks[0].command as string
    const bin = temporaryFolder()
    for (const name of ['sh', '[', 'echo', 'python3', 'case'])
      writeFileSync(join(bin, name), '#!/bin/sh\nexit 0\n', { mode: 0o755 })
    const env = { HOME: home, PATH: `${bin}:/usr/bin:/bin` }
    const ended = await runHook({ command: ['/bin/sh', '-c', line], env, event: 'nonsense' })
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('not JSON') })
  })

  describe('HOME leads elsewhere:', () => {
    const old = new Date(Date.now() - 30 * 86_400_000)
    const aged = (path: string): string => {
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, 'mine')
      utimesSync(path, old, old)
      return path
    }

    test('other people’s files stay unchanged', async () => {
      const theirs = temporaryFolder()
      const kept = [aged(join(theirs, '00000000-61')), aged(join(theirs, 'thesis'))]
      mkdirSync(join(home, '.countersign'))
      symlinkSync(theirs, join(home, '.countersign', 'ended-sessions'))
      await pre({ api_url: service.url }, {})
      await runHook({ args: ['flush', '--config', file({ api_url: service.url })], env: { HOME: home } })
      expect(kept.filter((path) => !existsSync(path))).toEqual([])
    })

    test('files in our folder that are not notes stay unchanged', async () => {
      const folder = join(home, '.countersign', 'ended-sessions')
      const [kept, note] = [aged(join(folder, 'thesis')), aged(join(folder, '00000000-61'))]
      await pre({ api_url: service.url }, {})
      await until('the old note is gone', () => !existsSync(note))
      expect(existsSync(kept)).toBe(true)
    })
  })

  describe('`install`', () => {
    const clients = ['claude', 'codex', 'gemini', 'copilot', 'cursor', 'opencode']
    const files = (): string[] =>
      readdirSync(home, { recursive: true, withFileTypes: true })
        .filter((each) => each.isFile() && !each.name.endsWith('.pyc'))
        .map((each) => each.name)

    test('several at once: each writes a whole file or says to run `install` again; after removal nothing is left', async () => {
      let left = clients
      for (let turn = 0; left.length > 0; turn += 1) {
        expect(turn).toBeLessThan(clients.length)
        const ended = await Promise.all(left.map((client) => install(client, {})))
        for (const { code, stderr } of ended) if (code !== 0) expect(stderr).toContain('run `install` again')
        left = left.filter((_client, index) => ended[index]?.code !== 0)
      }
      for (const client of clients) expect((await install(client, {}, '--uninstall')).code).toBe(0)
      expect(files()).toEqual([])
    })
  })
})
