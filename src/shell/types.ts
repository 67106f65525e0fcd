/** `write`: harmless. `script`: it runs code that was not read. `egress`: it sends data out. */
export type ShellKind = 'write' | 'script' | 'egress'

/** `because` has up to four phrases for people, and no part of the command but names of programs. */
export interface ShellReading {
  readonly kind: ShellKind
  readonly because: string
  /** Files run as scripts, as the command names them (`./deploy.sh`). At most `mostScripts`. */
  readonly scripts: readonly string[]
  /** Names of programs that it starts. At most `mostNames`, as `writes`. */
  readonly programs: readonly string[]
  /** Paths that it writes by redirections or by programs such as `cp`, and files that a patch in it names. */
  readonly writes: readonly string[]
}

export const mostNames = 200

/** As far as the text of the command shows them: standard input, and the outputs of `<(...)`. */
export interface Call {
  readonly input: string | undefined
  readonly files: readonly string[]
  /** Standard input is a file, or what another command prints. */
  readonly fed: boolean
}

/** What a `Program` calls for what it finds in its arguments. Words contain the marks of `marks.ts`. */
export interface Shell {
  note(kind: 'script' | 'egress', because: string): void
  /** A file whose content the command runs. Does nothing without a name. */
  script(file: string | undefined): void
  starts(program: string): void
  writes(path: string): void
  /** Reads words as a command. */
  run(words: readonly string[], call?: Call): void
  /** Reads a text as shell code. `words` are the values of `$0`, `$1` and so on, if they are known. */
  code(text: string, words?: readonly string[]): void
  /** Judges a variable of the environment of later programs. */
  environment(name: string, value: string): void
  /** A builtin such as `read`, `printf -v` or `export "x=y"` sets a variable or an element. */
  sets(name: string, value?: string): void
  isFunction(name: string): boolean
  /** Records a script for this reason, and reads the text as shell code. */
  runsText(because: string, text: string): void
  /** Records `egress` for this reason if `act` does, whose other effects do not count. */
  suspects(because: string, act: () => void): void
  /** The worst effect that `act` records, which does not count for the command. */
  attempt(act: () => void): ShellKind
}

/** Reads the arguments of one program, without its name. */
export type Program = (args: readonly string[], shell: Shell, call: Call, name: string) => void

export const noInput: Call = { input: undefined, files: [], fed: false }

/** A program whose only trace is an argument that matches. */
export const when =
  (pattern: RegExp, kind: 'script' | 'egress', because: (name: string) => string): Program =>
  (args, shell, _, name) => {
    if (args.some((arg) => pattern.test(arg))) shell.note(kind, because(name))
  }

/** The words of a table. */
export const list = (text: string): string[] => text.trim().split(/\s+/)

export const named = (names: string, program: Program): [string, Program][] =>
  list(names).map((name) => [name, program])
