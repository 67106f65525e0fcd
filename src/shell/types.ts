/**
 * The effect of a command, from harmless to serious. `write`: the command is harmless. `script`: it runs code that was
 * not read. `egress`: it sends data out.
 */
export type ShellKind = 'write' | 'script' | 'egress'

/**
 * The result for a command. `because` explains the effect in up to four phrases for people. It may name programs of the
 * tables, but contains no other part of the command.
 */
export interface ShellReading {
  readonly kind: ShellKind
  readonly because: string
  /** The files that the command runs as scripts, as it names them. Example: `./deploy.sh`. At most `mostScripts`. */
  readonly scripts: readonly string[]
}

/** The input of a command, as far as the text of the command shows it: standard input, and the output of `<(...)`. */
export interface Call {
  readonly input: string | undefined
  readonly files: readonly string[]
}

/**
 * A `Program` calls these functions for what it finds in the arguments of a program. Words contain the marks of
 * `marks.ts`.
 */
export interface Shell {
  /** Records an effect of the command, and a phrase that explains it. */
  note(kind: 'script' | 'egress', because: string): void
  /** Records a file whose content the command runs. Does nothing without a name. */
  script(file: string | undefined): void
  /** Reads words as a command, e.g. the command that a wrapper runs. */
  run(words: readonly string[], call?: Call): void
  /**
   * Reads a text as shell code, e.g. the text of `sh -c`. `words` are the values of `$0`, `$1` and so on, if they are
   * known.
   */
  code(text: string, words?: readonly string[]): void
  /** Judges a variable that is set in the environment of later programs. */
  environment(name: string, value: string): void
  /**
   * Records that a builtin such as `read`, `printf -v` or `export "x=y"` sets a variable or an element. If `value` is
   * missing, the value is unknown.
   */
  sets(name: string, value?: string): void
  /** Whether the command defines a function of this name. */
  isFunction(name: string): boolean
  /** Runs `act` and returns the worst effect that `act` records. This effect does not count for the command. */
  attempt(act: () => void): ShellKind
}

/** A function that reads the arguments of one program. `args` does not contain the name of the program. */
export type Program = (args: readonly string[], shell: Shell, call: Call, name: string) => void

export const noInput: Call = { input: undefined, files: [] }
