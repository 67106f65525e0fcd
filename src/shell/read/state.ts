import type { Command, Redirection, Word } from 'unbash'
import { fuel } from '../limits.ts'
import { changesNames } from '../tables/names.ts'
import type { Shell } from '../types.ts'

/** One value that a variable may have: the elements of an array, or the one of a plain variable. */
export type Value = readonly string[]

/** An assignment: what it can assign, and whether it adds to what was there (`+=`): a text to the text, or elements. */
export interface Definition {
  readonly append: false | 'text' | 'elements'
  readonly values: () => readonly Value[]
  /** An element went to an index that the command names (`a[5]=x`): where the others are says nothing. */
  readonly indexed?: boolean
  /** A builtin put the value together or read it. */
  readonly builtin?: boolean
  /** The variable of which an assignment takes nothing but the value. */
  readonly from?: string | undefined
}

/** Where a command's standard input comes from: redirections around it, and the command before it in the pipe. */
export interface Source {
  readonly redirects: readonly Redirection[]
  readonly before: Command | undefined
  readonly outer: Source | undefined
}

/** A command found in the text, and where. */
export interface Site {
  readonly command: Command
  readonly source: Source | undefined
}

/** A variable that is given a value: by `=`, a loop, `read`, `printf -v`, `${x:=word}` ... */
export interface Bound {
  readonly name: string
  readonly values: () => readonly Value[]
  /** The text goes behind what is there. */
  readonly grows: boolean
}

/** What one piece of code holds that acts: filled by `collect`, read by `evaluate`. */
export interface Body {
  readonly sites: Site[]
  readonly bound: Bound[]
  readonly targets: Word[]
  /** Texts that are read as expressions, as far as variables make them up. */
  readonly expressions: (() => readonly string[])[]
}

export interface FunctionBody extends Body {
  called: boolean
  /** How many of its calls are being read, one inside of the other. */
  active: number
}

/** A part of the code whose assignments hold for itself; afterwards they hold perhaps, or not at all. */
export interface Scope {
  readonly outer: Scope | undefined
  /** A function's body: it runs when it is called, with what is assigned by then. */
  readonly inFunction: boolean
  readonly sure: Set<string>
  readonly perhaps: Set<string>
}

/** Everything about one classification. Variables hold what is assigned anywhere in it, whatever the order. */
export interface State {
  readonly shell: Shell
  readonly definitions: Map<string, Definition[]>
  /** Every definition of a name: which of them a call finds depends on when each is made. */
  readonly functions: Map<string, FunctionBody[]>
  /** Values that were worked out, while nothing more is assigned. */
  readonly values: Map<string, readonly Value[]>
  /** The texts that a variable was given, one behind the other. */
  readonly grown: Map<string, string>
  /** Which part of the code is being collected. */
  scope: Scope
  /** Variables that are used where the command has not given them a value, for sure or perhaps. */
  readonly unset: Map<string, 'sure' | 'perhaps' | 'called'>
  /** Names whose value is being worked out, and how many of their definitions may be used for it. */
  readonly resolving: Map<string, number>
  /** `$1`, `$2` ...: known inside of a function whose call was seen. */
  positional: readonly string[] | undefined
  /** `$0`, where `sh -c` gives one. */
  zero: string | undefined
  /** What heredocs and `<<<` hold, wherever they are: a file descriptor can lead to each. */
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

/** Thrown when reading on would take too long; the command then counts as too tangled. */
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

/** Notes a value that a variable gets; `evaluate` judges it with the rest of the body. */
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
