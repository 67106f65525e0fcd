/** What a command does, the weightiest last: nothing of note, runs code that was not read, sends data out. */
export type ShellKind = 'write' | 'script' | 'egress'

/** `because` is one phrase in product words. It may name a program of the tables, never anything else the command says. */
export interface ShellReading {
  readonly kind: ShellKind
  readonly because: string
}

/** What a command is fed, as far as the text shows it: its standard input and files made by `<(...)`. */
export interface Call {
  readonly input: string | undefined
  readonly files: readonly string[]
}

/** What the reader of one program's arguments may do with what it finds. Words carry the marks of `marks.ts`. */
export interface Shell {
  note(kind: 'script' | 'egress', because: string): void
  /** Reads words as a command of their own: what a wrapper runs. */
  run(words: readonly string[], call?: Call): void
  /** Reads a text as shell code: what `sh -c` runs, with `$0`, `$1` ... if they are known. */
  code(text: string, words?: readonly string[]): void
  /** A variable that programs will find in their environment. */
  environment(name: string, value: string): void
  /** A builtin gives a variable a value, known or not: `read`, `printf -v`, `export "x=y"`; to an element too. */
  sets(name: string, value?: string): void
  /** Whether the command defines a function of this name. */
  isFunction(name: string): boolean
  /** What an act finds, without noting it. */
  attempt(act: () => void): ShellKind
}

/** Reads the arguments (without the name) of one program. */
export type Program = (args: readonly string[], shell: Shell, call: Call, name: string) => void

export const nothingFed: Call = { input: undefined, files: [] }
