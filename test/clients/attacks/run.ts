import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { hookFile, python } from '../../adapters/run-hook.ts'
import {
  allowed,
  denied,
  reply,
  scriptedService,
  type ScriptedService,
} from '../../adapters/scripted-service.ts'
import type { AgentClient, Place } from '../client.ts'
import { clients } from '../clients.ts'
import { programOf, versionOf } from '../install.ts'
import { keyOf, machineOf, onMachine } from '../machine.ts'
import { installHook, settingsFiles, type ServiceSettings } from '../product-hook.ts'
import { runClient, type ClientRun } from '../run-client.ts'
import type { Turn } from '../script.ts'
import { deniedCall, type AttackRun, type Installation } from './attack.ts'

/** The organization whose rules apply on the test machine. */
const organization = 'org_00000000000000000000000001'

/** No call may change a file, or type into a program, whose name contains this text. */
const forbiddenName = 'PROTECTED'

interface Asked {
  readonly tool_name?: string
  readonly tool_input?: { readonly file_path?: unknown; readonly command?: unknown }
  readonly organization_id?: string
}

/** Denies a `curl`, a change of a protected file, typing into a protected program, and the organization of `doctor`'s test call. */
export const denyingService = (): Promise<ScriptedService> =>
  scriptedService(({ path, body, headers }, socket) => {
    // Each key belongs to the organization that its text names.
    const [, key] = headers['authorization']?.split('csk_test_') ?? []
    if (path === '/api/v1/me') {
      const id = key === undefined ? organization : key
      return reply(socket, 200, { organization_id: id, scopes: { 'agents:authorize': true } })
    }
    const { tool_name, tool_input, organization_id } = readBody(body)
    const changed = tool_name === 'Write' || tool_name === 'Edit' ? tool_input?.file_path : undefined
    const named = tool_name === 'write_stdin' ? tool_input?.command : changed
    const isProtected = JSON.stringify(named ?? '').includes(forbiddenName)
    const stranger = organization_id !== undefined && organization_id !== organization
    const isDenied = JSON.stringify(tool_input ?? '').includes('curl') || isProtected || stranger
    if (path.startsWith('/api/v1/hooks/claude-code?')) return reply(socket, 200, isDenied ? httpDenial : {})
    reply(socket, 200, isDenied ? denied : { ...allowed, ok: true })
  })

/** What the service answers to the http hook of Claude Code. */
const httpDenial = {
  hookSpecificOutput: {
    hookEventName: 'PreToolUse',
    permissionDecision: 'deny',
    permissionDecisionReason: 'denied by a rule',
  },
}

const readBody = (body: string): Asked => {
  try {
    return JSON.parse(body) as Asked
  } catch {
    return {}
  }
}

/** The result of one run of attacks. */
export interface Outcome {
  /** The attacks whose denied call ran. */
  readonly ran: readonly string[]
  /** Whether an allowed call ran after the attacks. */
  readonly goesOn: boolean
  /** The last line of `doctor`; null if it was not asked for. */
  readonly verdict: string | null
  /** For the message of a failed test. */
  readonly told: string
}

/** Installs the hook, changes what the attack changes, and lets the client make the denied calls. */
export async function tryAttacks(run: AttackRun, service: ServiceSettings): Promise<Outcome> {
  const client = clients.find(([name]) => name === run.client)?.[1] as AgentClient
  const program = await programOf(run.client)
  const script: { main: Turn[]; part: Turn[] } = { main: [], part: [] }
  const ended = await runClient(client, {
    script,
    setup: (place) => {
      install(client, run.installation, place, service)
      run.setup?.(place)
      for (const { id, turns, part } of run.attacks) {
        script.main.push(...(turns?.(client, id, place) ?? [deniedCall(client, id)]))
        script.part.push(...(part?.(client, id) ?? []))
      }
      script.main.push([client.shell('echo ran > FINE')])
    },
    command: (words, place) => {
      const isManaged = run.installation === 'managed'
      // Codex trusts a managed hook anyway. The option would make Codex trust all other hooks too.
      const own =
        isManaged || run.untrusted === true
          ? words.filter((word) => !word.includes('bypass-hook-trust'))
          : words
      const all = beforehand(run, place, program, [...own, ...(run.words ?? [])])
      return isManaged || run.before !== undefined ? onMachine(all, place) : all
    },
  })
  const doctor = ended.files['DOCTOR']
  return {
    ran: run.attacks.map(({ id }) => id).filter((id) => ended.files[id] !== undefined),
    goesOn: ended.files['FINE'] !== undefined,
    verdict: run.doctor === undefined ? null : (doctor?.trim().split('\n').at(-1) ?? ''),
    told: described(ended, doctor),
  }
}

/** The settings file in which a client reads the hooks of a project, relative to the project's folder. */
const projectFiles = {
  claude: '.claude/settings.json',
  codex: '.codex/hooks.json',
  gemini: '.gemini/settings.json',
  copilot: '.github/hooks/countersign.json',
  opencode: '.opencode/plugin/countersign.js',
} as const

/** Runs `install --managed` for a run, with a key in root's home. */
function installManaged(client: AgentClient, place: Place, service: ServiceSettings): void {
  installHook(client, place, { ...service, organization }, ['--managed', '--root', machineOf(place)])
  mkdirSync(dirname(keyOf(place)), { recursive: true })
  writeFileSync(keyOf(place), service.key, { mode: 0o600 })
}

function install(
  client: AgentClient,
  installation: Installation,
  place: Place,
  service: ServiceSettings,
): void {
  if (installation === 'managed') return installManaged(client, place, service)
  installHook(client, place, service)
  if (installation === 'user') return
  const file = join(place.work, projectFiles[client.name])
  mkdirSync(dirname(file), { recursive: true })
  renameSync(join(place.home, settingsFiles[client.name]), file)
}

/** The command line `words`, preceded by the shell lines of `run.before`, which run in the client's folder. */
function beforehand(
  run: AttackRun,
  place: Place,
  program: readonly string[],
  words: readonly string[],
): readonly string[] {
  const lines = run.before === undefined ? [] : [run.before]
  if (run.doctor !== undefined) {
    const bin = join(place.root, 'bin')
    mkdirSync(bin)
    // hooks.test.ts lets `doctor` ask the client itself for its version. Some clients take seconds to answer, so
    // here a script answers.
    const version = `[ "$*" = --version ] && exec echo ${versionOf(run.client)}`
    const script = `#!/bin/sh\n${version}\nexec '${program.join("' '")}' "$@"\n`
    writeFileSync(join(bin, run.client), script, { mode: 0o755 })
    const more = run.installation === 'managed' ? ' --managed' : ''
    const doctor = `${hookFile} doctor --dialect ${run.client}${more}`
    lines.push(`PATH='${bin}':"$PATH" '${python}' ${doctor} > '${join(place.work, 'DOCTOR')}' 2>&1`)
  }
  return lines.length === 0 ? words : ['sh', '-c', `${lines.join('\n')}\nexec "$@"`, 'sh', ...words]
}

const described = ({ exit, stdout, stderr, results }: ClientRun, doctor = ''): string =>
  [`exit ${exit}`, stdout, stderr, ...results.map(({ text }) => text), doctor]
    .map((text) => text.slice(-2_000))
    .join('\n---\n')
