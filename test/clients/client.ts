import type { Dialect, ToolCall, Turn } from './script.ts'
import type { ClientPrograms } from './install.ts'

/** A command line that a client runs at an event. */
export interface HookCommand {
  readonly command: string
  /** In seconds, whatever the client counts in. */
  readonly timeout: number
  /** Claude Code's `onFailure: "block"`. */
  readonly block?: boolean
}

/** By the event's role; each client has its own name for it. */
export interface Hooks {
  readonly pre?: HookCommand
  readonly post?: HookCommand
  readonly end?: HookCommand
}

/** The folders of one run. */
export interface Place {
  /** Names the run in every command line. */
  readonly root: string
  /** HOME: the client's own settings and nothing else. */
  readonly home: string
  /** Where the client works; empty at the start. */
  readonly work: string
}

/** An agent client: how it is set up and started offline, and its words for what all of them can do. */
export interface AgentClient {
  readonly name: keyof ClientPrograms
  readonly dialect: Dialect
  /**
   * Writes the client's settings, so that the model is the one at `url`. `trusted`: shell and edits need nobody's
   * leave; otherwise the client has to ask, and has nobody to ask.
   */
  prepare(place: Place, url: string, trusted: boolean): void
  /** Writes hooks into its user settings. */
  hook(place: Place, hooks: Hooks): void
  /** Arguments for one run without a terminal. */
  args(place: Place, prompt: string, trusted: boolean): readonly string[]
  env(url: string): Readonly<Record<string, string>>
  /** Calls that the client refused, as it tells on standard output; null when it does not tell. */
  denials(stdout: string): number | null
  /** The client's id of its session, as it tells on standard output. */
  sessionId(stdout: string): string
  shell(command: string): ToolCall
  write(path: string, text: string): ToolCall
  /** Whether the calls of a subagent come under a session id of its own, and nothing says whose it is. */
  readonly partsApart?: boolean
  /** Turns that start a subagent, which follows the script of this name, and wait for it. */
  delegate(script: string): readonly Turn[]
}
