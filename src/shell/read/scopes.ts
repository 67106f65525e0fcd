import type { SyntaxNode } from 'unbash'
import { newScope, type Scope, spend, type State } from './state.ts'

/*
 * Tracks whether a variable has its assigned value at the place where the variable is used:
 * - In `(x=ls)`, `x=ls true` and `echo | x=ls`, the value of x is visible only inside this code.
 * - In `false && x=ls` and in branches, x may stay unset.
 * - An assignment that comes after the use does not count.
 * Without these rules, `$x` in `x=ls true; $x curl y` would be read as `ls`.
 */

/**
 * The kind of a part of the code. Assignments in an `alone` part are visible only inside this part. Assignments in a
 * `perhaps` or `function` part may also be visible after this part.
 */
export type Kind = 'alone' | 'perhaps' | 'function'

export function scoped(kind: Kind | undefined, state: State, act: () => void): void {
  if (kind === undefined) return act()
  const outer = state.scope
  const inner = newScope(outer, kind === 'function' || outer.inFunction)
  state.scope = inner
  act()
  state.scope = outer
  if (kind === 'alone') return
  spend(state, (inner.sure.size + inner.perhaps.size) / 2)
  for (const names of [inner.sure, inner.perhaps]) for (const name of names) outer.perhaps.add(name)
}

/**
 * Returns the kind of scope that a node opens in its parent. Returns undefined if the node opens no scope, because it
 * always runs, and runs in the same shell as its parent.
 */
export function kindOf(parent: SyntaxNode, node: SyntaxNode): Kind | undefined {
  switch (node.type) {
    case 'Subshell':
    case 'Coproc':
    case 'CommandExpansion':
    case 'ProcessSubstitution':
      return 'alone'
    case 'Statement':
      return node.background === true ? 'alone' : undefined
    case 'CaseItem':
    case 'Elif':
      return 'perhaps'
    case 'CompoundList':
      if (parent.type === 'If' || parent.type === 'While')
        return node === parent.clause ? undefined : 'perhaps'
      return /^(For|ArithmeticFor|Select)$/.test(parent.type) ? 'perhaps' : undefined
    case 'Assignment':
      // An assignment before a command's name is visible only to this command.
      return parent.type === 'Command' && parent.name !== undefined && node.pos < parent.name.pos
        ? 'alone'
        : undefined
    default:
      return parent.type === 'Pipeline' && parent.commands.length > 1 ? 'alone' : undefined
  }
}

/**
 * Records a use of a variable, if the command may not have set the variable before this use. The variable may then
 * still have the value from before the command.
 */
export function used(name: string, state: State): void {
  if (state.unset.get(name) === 'sure' || !/^[A-Za-z_]\w*$/.test(name)) return
  let perhaps = false
  let steps = 0
  for (let scope: Scope | undefined = state.scope; scope !== undefined; scope = scope.outer) {
    steps += 1
    if (scope.sure.has(name)) return spend(state, steps / 4)
    perhaps ||= scope.perhaps.has(name)
  }
  spend(state, steps / 4)
  state.values.clear()
  // A function sees assignments made before its call, so only the call decides whether the variable is set.
  const called = state.scope.inFunction && state.unset.get(name) !== 'perhaps'
  state.unset.set(name, perhaps ? 'perhaps' : called ? 'called' : 'sure')
}
