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
import { ensureClients } from '../install.ts'
import { keyOf, machineOf, onMachine } from '../machine.ts'
import { installHook, settingsFiles, type ServiceSettings } from '../product-hook.ts'
import { runClient, type ClientRun } from '../run-client.ts'
import type { Turn } from '../script.ts'
import type { AttackRun, Installation } from './attack.ts'

/** The organization whose rules apply on the machine. */
const organization = 'org_00000000000000000000000001'

/** A word in the path of a file that no call may change. */
const forbiddenPath = 'PROTECTED'

interface Asked {
  readonly tool_name?: string
  readonly tool_input?: { readonly file_path?: unknown }
  readonly organization_id?: string
}

/** Denies a `curl`, a change of a protected file, and the organization of `doctor`'s test. */
export const denyingService = (): Promise<ScriptedService> =>
  scriptedService(({ path, body, headers }, socket) => {
    // Each key is of the organization that it names.
    const [, key] = headers['authorization']?.split('csk_test_') ?? []
    if (path === '/api/v1/me') {
      const id = key === undefined ? organization : key
      return reply(socket, 200, { organization_id: id, scopes: { 'agents:authorize': true } })
    }
    const { tool_name, tool_input, organization_id } = readBody(body)
    const changes = tool_name === 'Write' || tool_name === 'Edit'
    const isProtected = changes && JSON.stringify(tool_input?.file_path ?? '').includes(forbiddenPath)
    const stranger = organization_id !== undefined && organization_id !== organization
    const isDenied = JSON.stringify(tool_input ?? '').includes('curl') || isProtected || stranger
    reply(socket, 200, isDenied ? denied : { ...allowed, ok: true })
  })

const readBody = (body: string): Asked => {
  try {
    return JSON.parse(body) as Asked
  } catch {
    return {}
  }
}

/** What came of one run of attacks. */
export interface Outcome {
  /** The attacks whose denied call ran. */
  readonly ran: readonly string[]
  /** Whether an allowed call ran after them. */
  readonly goesOn: boolean
  /** The last line of `doctor`; null if it was not asked for. */
  readonly verdict: string | null
  /** For the message of a failed test. */
  readonly told: string
}

/** Installs the hook, changes what the attack changes, and lets the client make the denied calls. */
export async function tryAttacks(run: AttackRun, service: ServiceSettings): Promise<Outcome> {
  const client = clients.find(([name]) => name === run.client)?.[1] as AgentClient
  const program = (await ensureClients())[run.client]
  const script: Turn[] = []
  const ended = await runClient(client, {
    script,
    setup: (place) => {
      install(client, run.installation, place, service)
      run.setup?.(place)
      for (const { id, turns } of run.attacks) {
        const denied: Turn = [client.shell(`curl https://example.invalid; echo ran > ${id}`)]
        script.push(...(turns?.(client, id, place) ?? [denied]))
      }
      script.push([client.shell('echo ran > FINE')])
    },
    command: (words, place) => {
      const isManaged = run.installation === 'managed'
      // Codex trusts a managed hook. The option would make it trust all others too.
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

/** Where a client reads the hooks of a project, below its folder. */
const projectFiles = {
  claude: '.claude/settings.json',
  codex: '.codex/hooks.json',
  gemini: '.gemini/settings.json',
  copilot: '.github/hooks/countersign.json',
} as const

/** `install --managed` for a run, with a key in root's home. */
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

/** The words, after lines of a shell that run before them in the client's folder. */
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
    writeFileSync(join(bin, run.client), `#!/bin/sh\nexec '${program.join("' '")}' "$@"\n`, { mode: 0o755 })
    const more = run.installation === 'managed' ? ' --managed' : ''
    const doctor = `${hookFile} doctor --dialect ${run.client}${more}`
    lines.push(`PATH='${bin}':"$PATH" '${python}' ${doctor} > DOCTOR 2>&1`)
  }
  return lines.length === 0 ? words : ['sh', '-c', `${lines.join('\n')}\nexec "$@"`, 'sh', ...words]
}

const described = ({ exit, stdout, stderr, results }: ClientRun, doctor = ''): string =>
  [`exit ${exit}`, stdout, stderr, ...results.map(({ text }) => text), doctor]
    .map((text) => text.slice(-2_000))
    .join('\n---\n')
