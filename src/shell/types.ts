/** The effect of a command, the most serious last: no special effect, runs unread code, sends data out. */
export type ShellKind = 'write' | 'script' | 'egress'

/**
 * `because` says why, in up to four phrases for users. It may name programs of the tables, but no other part of the
 * command.
 */
export interface ShellReading {
  readonly kind: ShellKind
  readonly because: string
}

/** The visible input of a command: its standard input, and files made by `<(...)`. */
export interface Call {
  readonly input: string | undefined
  readonly files: readonly string[]
}

/** Functions for the reader of one program's arguments. Words contain the marks of `marks.ts`. */
export interface Shell {
  note(kind: 'script' | 'egress', because: string): void
  /** Reads words as a command, e.g. the command that a wrapper runs. */
  run(words: readonly string[], call?: Call): void
  /** Reads a text as shell code, e.g. the text of `sh -c`, with `$0`, `$1` and so on if they are known. */
  code(text: string, words?: readonly string[]): void
  /** Sets a variable in the environment of later programs. */
  environment(name: string, value: string): void
  /**
   * Sets a variable or an element that a builtin gives a known or unknown value: `read`, `printf -v`, `export "x=y"`.
   */
  sets(name: string, value?: string): void
  /** Whether the command defines a function of this name. */
  isFunction(name: string): boolean
  /** The worst effect found by `act`, without noting it. */
  attempt(act: () => void): ShellKind
}

/** Reads the arguments (without the name) of one program. */
export type Program = (args: readonly string[], shell: Shell, call: Call, name: string) => void

export const noInput: Call = { input: undefined, files: [] }
