import type { SyntaxNode } from 'unbash'
import { Scope, spend, type State } from './state.ts'

/*
 * Tracks whether a variable has its assigned value at the place where the variable is used:
 * - In `(x=ls)`, `x=ls true` and `echo | x=ls`, the value of x is visible only inside this code.
 * - In `false && x=ls` and in branches, x may stay unset.
 * - An assignment that comes after the use does not count.
 * Without these rules, `$x` in `x=ls true; $x curl y` would be read as `ls`.
 */

/** Assignments in an `alone` part are visible only inside it, others perhaps also after it. */
type Kind = 'alone' | 'perhaps' | 'function'

export function scoped(kind: Kind | undefined, state: State, act: () => void): void {
  if (kind === undefined) return act()
  const outer = state.scope
  const inner = new Scope(outer, kind === 'function' || outer.inFunction)
  state.scope = inner
  act()
  state.scope = outer
  if (kind === 'alone') return
  spend(state, (inner.sure.size + inner.perhaps.size) / 2)
  for (const names of [inner.sure, inner.perhaps]) for (const name of names) outer.perhaps.add(name)
}

/** Undefined if the node always runs, in the same shell as its parent. */
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
      // It is visible only to this command.
      return parent.type === 'Command' && parent.name !== undefined && node.pos < parent.name.pos
        ? 'alone'
        : undefined
    default:
      return parent.type === 'Pipeline' && parent.commands.length > 1 ? 'alone' : undefined
  }
}

/** Records a use before which the command may not have set the variable, which may then have an earlier value. */
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
