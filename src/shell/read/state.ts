import type { Command, Redirection, Word } from 'unbash'
import { fuel } from '../limits.ts'
import { changesNames } from './guards.ts'
import type { Shell } from '../types.ts'

/** An array has several elements; any other variable has one. */
export type Value = readonly string[]

interface Definition {
  readonly append: false | 'text' | 'elements'
  readonly values: () => readonly Value[]
  /** The assignment names an index (`a[5]=x`): the positions of the other elements are unknown. */
  readonly indexed?: boolean
  /** Made by a builtin such as `printf -v` or `read`. */
  readonly builtin?: boolean
  readonly from?: string | undefined
}

/** Where standard input can come from: redirections, or the command before in the pipe. */
export interface Source {
  readonly redirects: readonly Redirection[]
  readonly before: Command | undefined
  readonly outer: Source | undefined
}

export interface Site {
  readonly command: Command
  readonly source: Source | undefined
}

/** By `=`, a loop, `read`, `printf -v`, `${x:=word}` and similar. */
interface Bound {
  readonly name: string
  readonly values: () => readonly Value[]
  /** Appended to the earlier value (`+=`). */
  readonly grows: boolean
}

/** The parts of one piece of code that have an effect. */
export interface Body {
  readonly sites: Site[]
  readonly bound: Bound[]
  /** Files of redirections. */
  readonly targets: { readonly word: Word; readonly writes: boolean }[]
  /** Texts that bash evaluates as expressions and that contain variables. */
  readonly expressions: (() => readonly string[])[]
}

export class FunctionBody implements Body {
  readonly sites: Site[] = []
  readonly bound: Bound[] = []
  readonly targets: Body['targets'] = []
  readonly expressions: Body['expressions'] = []
  called = false
  /** How many nested calls of this function are being evaluated. */
  active = 0
}

/** A part of the code, such as a branch or a subshell. */
export class Scope {
  readonly outer: Scope | undefined
  /** A function also sees assignments made before its call. */
  readonly inFunction: boolean
  /** Set in this part, before the place that `collect` is visiting; `perhaps`: if it runs. */
  readonly sure = new Set<string>()
  readonly perhaps = new Set<string>()

  constructor(outer?: Scope, inFunction = false) {
    this.outer = outer
    this.inFunction = inFunction
  }
}

/** Holds all values that the command assigns to a variable, because the order at run time is uncertain. */
export class State {
  readonly shell: Shell
  readonly definitions = new Map<string, Definition[]>()
  /** All definitions of each name, because their order at run time is unknown. */
  readonly functions = new Map<string, FunctionBody[]>()
  /** Computed values, valid until the next assignment. */
  readonly values = new Map<string, readonly Value[]>()
  /** All texts assigned to a variable, joined. */
  readonly grown = new Map<string, string>()
  scope = new Scope()
  /** Uses before the variable is set, surely or perhaps. `called`: in a function, where the call decides. */
  readonly unset = new Map<string, 'sure' | 'perhaps' | 'called'>()
  /** Variables being computed, with how many definitions count if the value has the variable itself (`x=a$x`). */
  readonly resolving = new Map<string, number>()
  /** `$1`, `$2` and so on, inside a function or the text of `sh -c`; undefined if unknown. */
  positional: readonly string[] | undefined
  /** The value of `$0`, if `sh -c` sets it. */
  zero: string | undefined
  /** The texts of all heredocs and `<<<`: a path such as `/dev/fd/9` can lead to any of them. */
  readonly texts: (() => string | undefined)[] = []
  shifts = false
  depth = 0
  /** Steps of work that may still be spent. */
  left = fuel

  constructor(shell: Shell) {
    this.shell = shell
  }
}

/** Thrown if reading would take too long. The command then counts as too tangled. */
export class Tangled extends Error {}

export function spend(state: State, amount: number): void {
  state.left -= amount
  if (state.left < 0) throw new Tangled()
}

/** `evaluate` judges the value with the rest of the body. */
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
