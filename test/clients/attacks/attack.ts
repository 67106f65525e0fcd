import type { AgentClient, Place } from '../client.ts'
import type { Turn } from '../script.ts'

/** A key that the service of these tests takes for one of another organization. */
export const strangeKey = 'csk_test_org_00000000000000000000000002'

/** Who installed the hook: an administrator for everybody, a user, or a project in its own folder. */
export type Installation = 'managed' | 'user' | 'project'

/** A denied call runs: why, and what an administrator can do. Both are sentences of docs/agents-reference.md. */
export interface Open {
  readonly why: string
  readonly helps: string
}

/** One way around the hook, and what came of it with the real client. */
export interface Attack {
  /** Unique. The denied call makes a file with this name, unless `call` says otherwise. */
  readonly id: string
  /** What somebody does, as docs/agents-reference.md says it. */
  readonly attack: string
  readonly expected: 'holds' | Open
  /** The calls of the model, of which one makes the file. Default: a `curl`, which the service denies. */
  readonly turns?: (client: AgentClient, file: string, place: Place) => readonly Turn[]
}

/** Attacks that one run of the client tries, one after the other. */
export interface AttackRun {
  readonly client: AgentClient['name']
  readonly installation: Installation
  readonly attacks: readonly Attack[]
  /** Changes files after the installation: in the home, the project, or the machine (`machineOf`). */
  readonly setup?: (place: Place) => void
  /** More words of the client's command line. */
  readonly words?: readonly string[]
  /** Lines for `sh` in the client's folder before it starts, as root of its own machine. It inherits their exports. */
  readonly before?: string
  /** Codex has not been told to trust the user's hooks. */
  readonly untrusted?: true
  /** All calls are blocked, also allowed ones. */
  readonly blocksAll?: true
  /** The last line of `doctor`, run in the client's folder with the client's environment. */
  readonly doctor?: RegExp
}
