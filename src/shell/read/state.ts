import type { Command, Redirection, Word } from 'unbash'
import { fuel } from '../limits.ts'
import { changesNames } from '../tables/names.ts'
import type { Shell } from '../types.ts'

/** One possible value of a variable: the elements of an array, or the single value of a plain variable. */
export type Value = readonly string[]

/** An assignment: its possible values, and whether it appends (`+=`) text or elements. */
export interface Definition {
  readonly append: false | 'text' | 'elements'
  readonly values: () => readonly Value[]
  /** The command named the element's index (`a[5]=x`), so positions of the other elements are unknown. */
  readonly indexed?: boolean
  /** A builtin built or read the value. */
  readonly builtin?: boolean
  /** The variable whose whole value is assigned. */
  readonly from?: string | undefined
}

/** The sources of a command's standard input: redirections around it, and the command before it in the pipe. */
export interface Source {
  readonly redirects: readonly Redirection[]
  readonly before: Command | undefined
  readonly outer: Source | undefined
}

/** A command in the text, with the sources of its input. */
export interface Site {
  readonly command: Command
  readonly source: Source | undefined
}

/** A variable that gets a value: by `=`, a loop, `read`, `printf -v`, `${x:=word}` and similar. */
export interface Bound {
  readonly name: string
  readonly values: () => readonly Value[]
  /** The text is appended to the earlier value. */
  readonly grows: boolean
}

/** The active parts of one piece of code, filled by `collect` and read by `evaluate`. */
export interface Body {
  readonly sites: Site[]
  readonly bound: Bound[]
  readonly targets: Word[]
  /** Texts that are evaluated as expressions, if variables are part of them. */
  readonly expressions: (() => readonly string[])[]
}

export interface FunctionBody extends Body {
  called: boolean
  /** Number of calls of this function that are in progress, each inside another call. */
  active: number
}

/** A part of the code whose assignments apply inside it. After it, its assignments may apply or do not apply. */
export interface Scope {
  readonly outer: Scope | undefined
  /** A function's body, which sees assignments made before its call. */
  readonly inFunction: boolean
  readonly sure: Set<string>
  readonly perhaps: Set<string>
}

/** The state of one classification. A variable keeps the values of all its assignments, in any order. */
export interface State {
  readonly shell: Shell
  readonly definitions: Map<string, Definition[]>
  /** All definitions of a name, since their order at run time is unknown. */
  readonly functions: Map<string, FunctionBody[]>
  /** Cached values, valid until the next assignment. */
  readonly values: Map<string, readonly Value[]>
  /** All texts assigned to a variable, appended to each other. */
  readonly grown: Map<string, string>
  /** The part of the code being collected. */
  scope: Scope
  /** Variables that are used where the command has certainly not set them (`sure`), or perhaps not set them. */
  readonly unset: Map<string, 'sure' | 'perhaps' | 'called'>
  /** Names whose value is being computed, and how many of their definitions it may use. */
  readonly resolving: Map<string, number>
  /** `$1`, `$2` and so on: known inside a function with a visible call. */
  positional: readonly string[] | undefined
  /** `$0`, if `sh -c` sets it. */
  zero: string | undefined
  /** Texts of all heredocs and `<<<`, because any file descriptor can lead to one. */
  readonly texts: (() => string | undefined)[]
  shifts: boolean
  depth: number
  left: number
}

export const newScope = (outer?: Scope, inFunction = outer?.inFunction ?? false): Scope => ({
  outer,
  inFunction,
  sure: new Set(),
  perhaps: new Set(),
})

/** Thrown when reading would take too long; the command then counts as too tangled. */
export class Tangled extends Error {}

export function spend(state: State, amount: number): void {
  state.left -= amount
  if (state.left < 0) throw new Tangled()
}

export function newState(shell: Shell): State {
  return {
    shell,
    definitions: new Map(),
    functions: new Map(),
    values: new Map(),
    grown: new Map(),
    scope: newScope(),
    unset: new Map(),
    resolving: new Map(),
    positional: undefined,
    zero: undefined,
    texts: [],
    shifts: false,
    depth: 0,
    left: fuel,
  }
}

export const newBody = (): FunctionBody => ({
  sites: [],
  bound: [],
  targets: [],
  expressions: [],
  called: false,
  active: 0,
})

/** Records a value of a variable; `evaluate` judges it with the rest of the body. */
export function define(state: State, body: Body, name: string, definition: Definition): void {
  state.values.clear()
  state.scope.sure.add(name)
  if (changesNames(name, definition.indexed === true))
    state.shell.note('script', 'it changes what a name runs')
  body.bound.push({ name, values: definition.values, grows: definition.append === 'text' })
  const known = state.definitions.get(name)
  if (known === undefined) state.definitions.set(name, [definition])
  else known.push(definition)
}
