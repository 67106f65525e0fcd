import type { Dialect, ToolCall, Turn } from './script.ts'
import type { ClientPrograms } from './install.ts'

/** A command line that a client runs at an event. */
export interface HookCommand {
  readonly command: string
  /** In seconds, even if the client's settings use another unit. */
  readonly timeout: number
  /** Claude Code's `onFailure: "block"`. */
  readonly block?: boolean
}

/** The hooks by the role of their event. Each client has its own names for these events. */
export interface Hooks {
  readonly pre?: HookCommand
  readonly post?: HookCommand
  readonly end?: HookCommand
}

/** The folders of one run. */
export interface Place {
  /** The root folder of the run. Its unique name appears in every command line. */
  readonly root: string
  /** HOME, with only the client's own settings. */
  readonly home: string
  /** The client's working folder; empty at the start. */
  readonly work: string
}

/** An agent client: how to set it up and start it offline, and its names for common tools. */
export interface AgentClient {
  readonly name: keyof ClientPrograms
  readonly dialect: Dialect
  /**
   * Writes the client's settings, with the model at `url`. If `trusted` is true, shell and edits need no permission.
   * Otherwise the client must ask its user, and no user is present.
   */
  prepare(place: Place, url: string, trusted: boolean): void
  /** Writes hooks into the client's user settings. */
  hook(place: Place, hooks: Hooks): void
  /** Arguments for one run without a terminal. */
  args(place: Place, prompt: string, trusted: boolean): readonly string[]
  env(url: string): Readonly<Record<string, string>>
  /** Number of calls that the client refused, read from standard output; null if it does not print that. */
  denials(stdout: string): number | null
  /** The client's session id, read from standard output. */
  sessionId(stdout: string): string
  shell(command: string): ToolCall
  write(path: string, text: string): ToolCall
  /** Whether a subagent's calls have a separate session id that does not name the parent session. */
  readonly partsApart?: boolean
  /** Turns that start a subagent and wait for it. The subagent follows the script with this name. */
  delegate(script: string): readonly Turn[]
}
