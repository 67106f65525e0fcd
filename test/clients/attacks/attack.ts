import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import type { AgentClient, Place } from '../client.ts'
import type { Turn } from '../script.ts'

/** A key that the scripted service of these tests treats as a key of another organization. */
export const strangeKey = 'csk_test_org_00000000000000000000000002'

/** Who installed the hook: an administrator for everybody, a user, or a project in its own folder. */
export type Installation = 'managed' | 'user' | 'project'

/** The last line of `doctor`. */
export type Verdict = 'protected' | 'works' | 'NOT protected'

/**
 * Why a denied call runs, and how an administrator can prevent it. The two texts are sentences of
 * docs/agents-reference.md.
 */
export interface Open {
  readonly why: string
  readonly helps: string
  /**
   * The id of the same attack in a run in which the administrator has done what `helps` says. It holds there. Default:
   * the action is not a setting of the client.
   */
  readonly closedBy?: string
}

/** The tool calls that the model makes. One of them creates the file. */
export type Turns = (client: AgentClient, file: string, place: Place) => readonly Turn[]

/** One attempt to get around the hook, and the result with the real client. */
export interface Attack {
  /** Unique. The denied call creates a file with this name, unless `turns` says otherwise. */
  readonly id: string
  /** What the attacker does, in the words of docs/agents-reference.md. */
  readonly attack: string
  readonly expected: 'holds' | Open
  /** Default: a `curl`, which the service denies. */
  readonly turns?: Turns
  /** The calls of a subagent. `turns` starts this subagent under the name `part`. */
  readonly part?: (client: AgentClient, file: string) => readonly Turn[]
}

/** A command that the service denies. If the command runs, it creates the file. */
export const deniedCommand = (file: string): string => `curl https://example.invalid; echo ran > ${file}`
export const deniedCall = (client: AgentClient, file: string): Turn => [client.shell(deniedCommand(file))]
/** A harmless call. The attacker's own hook rewrites it into a denied call. */
export const harmless: Turns = (client) => [[client.shell('echo harmless')]]

/** Makes the project a repository. */
export const repository = ({ work }: Place): void => void execFileSync('git', ['init', '-q', work])
/** For `before`: the client starts in a folder below the project. */
export const goesBelow = 'mkdir below; cd below'
/** A denied call whose file is in the project, not in the folder below it. */
export const callsFromBelow: Turns = (client, file, { work }) => [
  [client.shell(deniedCommand(join(work, file)))],
]

/** A subagent makes the denied call. */
export const bySubagent: Pick<Attack, 'turns' | 'part'> = {
  turns: (client) => client.delegate('part'),
  part: (client, file) => [deniedCall(client, file)],
}

/** Attacks that one run of the client tries, one after the other. */
export interface AttackRun {
  readonly client: AgentClient['name']
  readonly installation: Installation
  readonly attacks: readonly Attack[]
  /** Changes files after the installation: in the home, the project, or the files of the machine (`machineOf`). */
  readonly setup?: (place: Place) => void
  /** Additional arguments of the client's command line. */
  readonly words?: readonly string[]
  /**
   * Lines for `sh` in the client's folder, run before the client starts, as root of the client's own machine. The
   * client inherits the variables that they export.
   */
  readonly before?: string
  /** Codex has not been told to trust the user's hooks. */
  readonly untrusted?: true
  /** All calls are blocked, including the allowed ones. */
  readonly blocksAll?: true
  /**
   * The verdict of `doctor` in the client's folder with the client's environment. It is required for every run in which
   * a denied call runs.
   */
  readonly doctor?: Verdict
}

/**
 * The fields of a run with one attack. `oneAttack` derives the attack's id from the client, the installation and a
 * name.
 */
export type More = Omit<Partial<AttackRun>, 'attacks'> & Partial<Pick<Attack, 'expected' | 'turns' | 'part'>>

/** A run with one attack. The attack is expected to be blocked, unless `expected` says otherwise. */
export function oneAttack(
  client: AttackRun['client'],
  installation: Installation,
  id: string,
  attack: string,
  { expected = 'holds', turns, part, ...run }: More = {},
): AttackRun {
  const calls = { ...(turns && { turns }), ...(part && { part }) }
  return {
    client,
    installation,
    attacks: [{ id: `${client}-${installation}-${id}`, attack, expected, ...calls }],
    ...run,
  }
}
