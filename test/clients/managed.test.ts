import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test as jestTest } from '@jest/globals'
import {
  allowed,
  denied,
  reply,
  scriptedService,
  type ScriptedService,
} from '../adapters/scripted-service.ts'
import { hookFile, python } from '../adapters/run-hook.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import type { AgentClient, Place } from './client.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { installHook, type ServiceSettings } from './product-hook.ts'
import { runClient, type ClientRun } from './run-client.ts'
import { sideBySide } from './side-by-side.ts'

/*
 * The files of `install --managed` in the places where clients look: each run has its own /etc and /opt, in a mount
 * namespace of Linux. A user can only switch off their own hooks.
 */

let service: ScriptedService
const test = sideBySide(3, async () => {
  await ensureClients()
  service = await scriptedService(({ body }, socket) => {
    const stranger = body.includes('"organization_id":"org_0000')
    reply(socket, 200, body.includes('curl') || stranger ? denied : { ...allowed, ok: true })
  })
})
afterAll(() => service.close())

const below = (place: Place): string => join(place.root, 'machine')

/**
 * The process is root in the namespace, and root's key is in root's home: that of the accounts, as the hook reads it.
 */
const homeOfRoot = /^root:(?:[^:]*:){4}([^:]+)/m.exec(readFileSync('/etc/passwd', 'utf8'))?.[1] ?? '/'
const keyFolder = join(homeOfRoot, '.countersign')

/** Mounts the files over the machine's, for one process and its children. */
const within = (words: readonly string[], place: Place): readonly string[] => {
  const lay = (folder: string): string =>
    `mount -t overlay overlay -o lowerdir="${below(place)}${folder}:${folder}" ${folder}`
  const root = process.getuid?.() === 0 ? [] : ['--map-root-user']
  const script = `${['/etc', '/opt', homeOfRoot].map(lay).join(' && ')} && exec "$@"`
  return ['unshare', '--mount', ...root, 'sh', '-c', script, 'sh', ...words]
}

/**
 * Where a process cannot mount its own folders (not Linux, or not allowed), nothing can be tested here. test/adapters
 * tests the files of `install --managed`.
 */
const canLay = ((): boolean => {
  const place = { root: temporaryFolder() } as Place
  mkdirSync(join(below(place), 'etc'), { recursive: true })
  mkdirSync(join(below(place), 'opt'))
  mkdirSync(join(below(place), homeOfRoot), { recursive: true })
  const [program = '', ...words] = within(['true'], place)
  return spawnSync(program, words).status === 0
})()
const inNamespace = canLay ? test : (name: string): void => jestTest.skip(name, () => {})

/** How a user would switch hooks off: with settings or on the command line. */
interface Switch {
  readonly settings?: (place: Place) => void
  readonly words?: readonly string[]
}
const change = (file: string, more: object): void => {
  let known = {}
  try {
    known = JSON.parse(readFileSync(file, 'utf8')) as object
  } catch {
    // It does not exist yet.
  }
  writeFileSync(file, JSON.stringify({ ...known, ...more }))
}
const switches: readonly (readonly [AgentClient['name'], string, Switch])[] = [
  ['claude', '--bare', { words: ['--bare'] }],
  ['claude', '--safe-mode', { words: ['--safe-mode'] }],
  [
    'claude',
    'disableAllHooks',
    { settings: ({ home }) => change(join(home, '.claude', 'settings.json'), { disableAllHooks: true }) },
  ],
  ['codex', 'hooks that nobody has trusted', {}],
  [
    'gemini',
    'hooksConfig.enabled: false',
    {
      settings: ({ home }) =>
        change(join(home, '.gemini', 'settings.json'), { hooksConfig: { enabled: false } }),
    },
  ],
  [
    'copilot',
    'disableAllHooks',
    {
      settings: ({ home }) =>
        change(join(home, '.copilot', 'hooks', 'countersign.json'), { disableAllHooks: true }),
    },
  ],
]

/** A curl, which the service denies, and a call that it allows. */
function run(
  [name, , { settings, words: more = [] }]: (typeof switches)[number],
  setup: (client: AgentClient, place: Place) => void,
  command = (words: readonly string[], _place: Place): readonly string[] => words,
): Promise<ClientRun> {
  const client = clients.find(([each]) => each === name)?.[1] as AgentClient
  return runClient(client, {
    script: [
      [client.shell('curl https://example.invalid; echo ran > CURL')],
      [client.shell('echo ran > FINE')],
    ],
    setup: (place) => {
      setup(client, place)
      settings?.(place)
    },
    command: (words, place) =>
      command([...words.filter((word) => !word.includes('bypass-hook-trust')), ...more], place),
  })
}
const hook = (): ServiceSettings => ({ url: service.url, key: 'csk_test' })

const managed = (client: AgentClient, place: Place): void => {
  mkdirSync(below(place) + keyFolder, { recursive: true })
  writeFileSync(join(below(place), keyFolder, 'key'), 'csk_test', { mode: 0o600 })
  installHook(client, place, hook(), ['--managed', '--root', below(place)])
}

for (const each of switches) {
  const [name, how] = each
  inNamespace(`${name}, ${how}: the managed hook asks all the same`, async () => {
    const ended = await run(each, managed, within)
    expect(ended).toMatchObject({ exit: 0, files: { FINE: 'ran\n' } })
    expect(ended.files['CURL']).toBeUndefined()
    expect(ended.results[0]?.text).toContain('no-egress')
  })

  // Checks that the test above can fail.
  test(`${name}, ${how}: a hook of the user's own does not`, async () => {
    const ended = await run(each, (client, place) => installHook(client, place, hook()))
    expect(Object.keys(ended.files).sort()).toEqual(['CURL', 'FINE'])
  })
}

/* A managed hook of Claude Code is a program with arguments, not a shell line. */

const claude = clients.find(([each]) => each === 'claude')?.[1] as AgentClient
/** A script in the namespace, which starts the client with `exec "$@"`. */
const beforehand =
  (script: string) =>
  (words: readonly string[], place: Place): readonly string[] =>
    within(['sh', '-c', script, 'sh', ...words], place)

inNamespace('claude: doctor calls the managed hook protected', async () => {
  const doctor = `PATH="\$(dirname "$1"):$PATH" ${python} ${hookFile} doctor --dialect claude --managed`
  const ended = await runClient(claude, {
    script: [[claude.shell('echo ran > FINE')]],
    setup: (place) => managed(claude, place),
    command: beforehand(`${doctor} > DOCTOR; echo "exit $?" >> DOCTOR; exec "$@"`),
  })
  expect(ended.files['DOCTOR']).toMatch(/\nprotected\nexit 0\n$/)
  expect(ended.files['DOCTOR']).not.toMatch(/^(FAIL|note|\?\?)/m)
})

inNamespace('claude: without the Python that the managed settings name, calls are blocked', async () => {
  const ended = await runClient(claude, {
    script: [[claude.shell('echo ran > FINE')]],
    setup: (place) => {
      managed(claude, place)
      const file = join(below(place), 'etc/claude-code/managed-settings.json')
      writeFileSync(file, readFileSync(file, 'utf8').replaceAll('/usr/bin/python3', '/usr/bin/python3.0'))
    },
    command: within,
  })
  expect(ended.files).toEqual({})
})

/*
 * bash reads SHELLOPTS from its environment. With `noexec` it runs nothing and exits with 0. Claude Code removes a
 * project's `env` for managed hooks, but not that of the user's settings.
 */
const withoutShells = async (setup: (place: Place) => void): Promise<ClientRun> =>
  runClient(claude, {
    script: [[claude.write('FILE', 'curl')]],
    setup: (place) => {
      setup(place)
      change(join(place.home, '.claude', 'settings.json'), { env: { SHELLOPTS: 'noexec' } })
      for (const folder of ['etc', 'opt', homeOfRoot])
        mkdirSync(join(below(place), folder), { recursive: true })
    },
    // Its /bin/sh is bash, as on many systems.
    command: beforehand(
      'mount --bind "$(readlink -f "$(command -v bash)")" "$(readlink -f /bin/sh)" && exec "$@"',
    ),
  })

inNamespace('claude: no variable of a shell keeps a managed hook from being started', async () => {
  const ended = await withoutShells((place) => managed(claude, place))
  expect(ended.files['FILE']).toBeUndefined()
  expect(ended.results[0]?.text).toContain('no-egress')
})

// Checks that the test above can fail.
inNamespace("claude: with a shell in between, as in a user's own installation, one does", async () => {
  const ended = await withoutShells((place) => installHook(claude, place, hook()))
  expect(ended.files['FILE']).toBe('curl')
})
