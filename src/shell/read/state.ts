import type { Command, Redirection, Word } from 'unbash'
import { fuel } from '../limits.ts'
import { changesNames } from '../tables/names.ts'
import type { Shell } from '../types.ts'

/** One possible value of a variable. An array has several elements; any other variable has one. */
export type Value = readonly string[]

/** An assignment: its possible values, and whether it appends (`+=`) text or elements. */
export interface Definition {
  readonly append: false | 'text' | 'elements'
  readonly values: () => readonly Value[]
  /** True if the assignment names an index (`a[5]=x`). The positions of the other elements are then unknown. */
  readonly indexed?: boolean
  /** True if a builtin such as `printf -v` or `read` made the value. */
  readonly builtin?: boolean
  /** The variable whose whole value is copied (`x=$y`). */
  readonly from?: string | undefined
}

/**
 * Where a command's standard input can come from: redirections around the command, or the command before it in the
 * pipe.
 */
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
  /** True if the text is appended to the earlier value (`+=`). */
  readonly grows: boolean
}

/** The parts of one piece of code that have an effect. `collect` fills the lists, and `evaluate` reads them. */
export interface Body {
  readonly sites: Site[]
  readonly bound: Bound[]
  /** Targets of redirections. */
  readonly targets: Word[]
  /** Texts that bash evaluates as expressions and that contain variables. */
  readonly expressions: (() => readonly string[])[]
}

export interface FunctionBody extends Body {
  called: boolean
  /** The number of nested calls of this function that are being evaluated. */
  active: number
}

/**
 * A part of the code, such as a branch or a subshell. Assignments in this part are visible inside the part, and perhaps
 * after it.
 */
export interface Scope {
  readonly outer: Scope | undefined
  /** Whether the part is in a function's body. A function also sees assignments made before its call. */
  readonly inFunction: boolean
  /** Variables that have been set in this part, before the place that `collect` is visiting. */
  readonly sure: Set<string>
  /** Variables that may have been set in this part, before the place that `collect` is visiting. */
  readonly perhaps: Set<string>
}

/**
 * The state of the classification of one command. It contains all values that the command assigns to a variable,
 * because the order at run time is uncertain.
 */
export interface State {
  readonly shell: Shell
  readonly definitions: Map<string, Definition[]>
  /**
   * Functions by their names. The list of a name contains all its definitions, because their order at run time is
   * unknown.
   */
  readonly functions: Map<string, FunctionBody[]>
  /** The values that are already computed. They are valid until the next assignment. */
  readonly values: Map<string, readonly Value[]>
  /** All texts that are assigned to a variable, joined to one text. */
  readonly grown: Map<string, string>
  /** The part of the code that `collect` is visiting. */
  scope: Scope
  /**
   * Variables that are used when the command may not have set them yet. `sure`: the command has certainly not set the
   * variable. `perhaps`: the command may or may not have set it. `called`: the use is in a function, so the place of
   * the call decides.
   */
  readonly unset: Map<string, 'sure' | 'perhaps' | 'called'>
  /**
   * Variables whose value is being computed. The number of a variable is the number of its definitions before the
   * current definition. If a value contains the variable itself (`x=a$x`), only these earlier definitions are used.
   */
  readonly resolving: Map<string, number>
  /** The values of `$1`, `$2` and so on, inside a function or the text of `sh -c`. undefined if they are unknown. */
  positional: readonly string[] | undefined
  /** The value of `$0`, if `sh -c` sets it. */
  zero: string | undefined
  /** The texts of all heredocs and `<<<`. A path such as `/dev/fd/9` can lead to any of these texts. */
  readonly texts: (() => string | undefined)[]
  /** Whether the command contains `shift`. */
  shifts: boolean
  /** How deeply the current command is nested in other commands, as in `sh -c`. */
  depth: number
  /** The number of steps of work that may still be spent. */
  left: number
}

export const newScope = (outer?: Scope, inFunction = outer?.inFunction ?? false): Scope => ({
  outer,
  inFunction,
  sure: new Set(),
  perhaps: new Set(),
})

/** Thrown if reading the command would take too long. The command then counts as too tangled. */
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

/** Records an assignment to a variable. `evaluate` judges the value with the rest of the body. */
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
