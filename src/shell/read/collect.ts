import { type Command, forEachChild, type ParsedScript, type SyntaxNode } from 'unbash'
import { deepest } from '../limits.ts'
import { unknown } from '../marks.ts'
import { scanForSenders } from '../scan.ts'
import {
  changesNamesIn,
  literalOf,
  onlyPrinted,
  onlyVariable,
  runsBetweenQuotes,
  runsInArithmetic,
  runsWhenEvaluated,
} from './guards.ts'
import { redirected } from './input.ts'
import { defineByBuiltin } from './variable-builtins.ts'
import {
  type Body,
  define,
  FunctionBody,
  type Source,
  spend,
  type State,
  Tangled,
  type Value,
  Scope,
} from './state.ts'
import { valuesOf } from './variables.ts'
import { assembled, assignedValues, expandWords, textsOf } from './words.ts'

interface Position {
  readonly body: Body
  readonly source: Source | undefined
  readonly text: string
  readonly depth: number
  readonly inHeredoc: boolean
}

/** What has an effect in a piece of code, and what cannot be read. Visits every node once. */
export function collect(script: ParsedScript, text: string, state: State): Body {
  const body = new FunctionBody()
  visit(script, { body, source: undefined, text, depth: 0, inHeredoc: false }, state)
  return body
}

function visit(node: SyntaxNode, at: Position, state: State): void {
  spend(state, 2)
  if (at.depth > deepest) throw new Tangled()
  if (node.type === 'Script' && node.errors !== undefined && node.errors.length > 0) unread(at.text, state)
  const text = node.type === 'Script' ? (node.source ?? at.text) : at.text
  const position = { ...at, text, depth: at.depth + 1 }
  if (visitsItself(node, position, state)) return
  note(node, position, state)
  visitChildren(node, position, state)
}

/** Visits the children if they need another `Place` or scope, such as another source of input; false if not. */
function visitsItself(node: SyntaxNode, position: Position, state: State): boolean {
  switch (node.type) {
    case 'Pipeline':
      node.commands.forEach((command, index) => {
        const before = node.commands[index - 1]
        const source = before && { redirects: [], before: simple(before), outer: undefined }
        visitIn(node, command, { ...position, source: source ?? position.source }, state)
      })
      return true
    case 'AndOr':
      andOr(node, position, state)
      return true
    case 'Redirected': {
      const source = { redirects: node.redirects, before: undefined, outer: position.source }
      visitIn(node, node.command, { ...position, source }, state)
      for (const redirect of node.redirects) visit(redirect, position, state)
      return true
    }
    case 'Function': {
      const body = new FunctionBody()
      const others = state.functions.get(node.name.value)
      if (others === undefined) state.functions.set(node.name.value, [body])
      else others.push(body)
      scoped('function', state, () => visit(node.body, { ...position, body, source: undefined }, state))
      return true
    }
    case 'HereDocBody':
      spend(state, node.parts === undefined ? 0 : node.text.length)
      visitChildren(node, { ...position, inHeredoc: true }, state)
      return true
    case 'CommandExpansion':
    case 'ProcessSubstitution':
    case 'ArithmeticCommandExpansion':
      // The parser reads inner code only now, and all deeper levels again at every level.
      spend(state, node.end - node.pos)
      if (node.script === undefined) unread(node.text, state)
      visitChildren(node, { ...position, source: undefined, inHeredoc: false }, state)
      return true
    default:
      return false
  }
}

/** Collects one node without its children. */
function note(node: SyntaxNode, position: Position, state: State): void {
  switch (node.type) {
    case 'Command':
      position.body.sites.push({ command: node, source: position.source })
      defineByBuiltin(node, position.source, position.body, state)
      break
    case 'Assignment':
      assignment(node, position, state)
      break
    case 'For':
    case 'Select':
      loop(node, position, state)
      break
    case 'ArithmeticFor':
      if (runsInArithmetic(position.text.slice(node.pos, node.body.pos))) unread(position.text, state)
      break
    case 'ArithmeticExpansion':
    case 'ArithmeticCommand':
      arithmetic(node, position, state)
      break
    case 'SimpleExpansion':
      used(node.text.slice(1), state)
      break
    case 'ParameterExpansion':
      used(node.parameter, state)
      parameterGuards(node, position, state)
      break
    case 'TestUnary':
    case 'TestBinary':
      testGuards(node, position, state)
      break
    case 'ExtendedGlob':
      // `*(e:code:)` and `*(+name)` run code in zsh.
      if (/^(e.|\+)/.test(node.pattern)) unread(node.pattern, state)
      break
    case 'HereString':
    case 'HereDoc':
      // The parser may expand a delimiter, which bash does not, so both may see the end at different lines.
      if (node.type === 'HereDoc' && /[$`]/.test(node.delimiter?.text ?? '')) unread(position.text, state)
      state.texts.push(() => redirected([node], state, true))
      break
    case 'Redirect':
      if (node.target !== undefined)
        position.body.targets.push({ word: node.target, writes: node.operator.includes('>') })
      if (node.descriptor?.type === 'FileDescriptorVariable' && changesNamesIn(node.descriptor.name))
        unread(node.descriptor.name, state)
      break
    case 'Word':
      spend(state, node.parts === undefined ? 0 : node.end - node.pos)
      break
    default:
  }
}

type NodeOf<Type extends SyntaxNode['type']> = Extract<SyntaxNode, { type: Type }>

function assignment(node: NodeOf<'Assignment'>, position: Position, state: State): void {
  const { value } = node
  // `a[1]=b` adds an element, like `a+=(b)`.
  const element = /^[1-9]\d*$/.test(node.index?.value ?? '') && node.append !== true
  const append = element || (node.append === true && value.type !== 'Word') ? 'elements' : 'text'
  define(state, position.body, node.name, {
    append: element || node.append === true ? append : false,
    values: () => assignedValues(value, state),
    indexed:
      node.index !== undefined ||
      (value.type !== 'Word' && value.elements.some(({ text }) => text.startsWith('['))),
    builtin: value.type === 'Word' && onlyPrinted(value),
    from: value.type === 'Word' ? onlyVariable(value) : undefined,
  })
  const texts = value.type === 'Word' ? [value] : value.elements
  if (node.index !== undefined && runsBetweenQuotes(node.index.text)) unread(node.text, state)
  if (
    texts.some(
      (word) =>
        runsWhenEvaluated(literalOf(word)) || (word.text.startsWith('[') && runsBetweenQuotes(word.text)),
    )
  )
    unread(node.text, state)
}

function loop(node: NodeOf<'For' | 'Select'>, position: Position, state: State): void {
  const words = node.wordlist
  const each = (): readonly Value[] =>
    words === undefined
      ? valuesOf('@', state)
      : words.flatMap((word) =>
          expandWords([word], state)
            .flat()
            .map((field) => [field]),
        )
  define(state, position.body, node.name.value, { append: false, values: each })
}

function arithmetic(
  node: NodeOf<'ArithmeticExpansion' | 'ArithmeticCommand'>,
  position: Position,
  state: State,
): void {
  const raw = node.type === 'ArithmeticCommand' ? node.body : node.text.replace(/^\$(\(\(|\[)/, '')
  if (runsInArithmetic(raw)) unread(raw, state)
  if ((raw.match(/\$[\w{]/g) ?? []).length > 1) position.body.expressions.push(() => assembled(raw, state))
  spend(state, raw.length)
}

function testGuards(node: NodeOf<'TestUnary' | 'TestBinary'>, position: Position, state: State): void {
  for (const word of node.type === 'TestUnary' ? [node.operand] : [node.left, node.right])
    if (runsWhenEvaluated(literalOf(word))) unread(word.text, state)
    else if (word.parts !== undefined) position.body.expressions.push(() => textsOf(word, state))
  if (node.type === 'TestBinary' && node.operator === '=~')
    define(state, position.body, 'BASH_REMATCH', { append: false, values: () => [[unknown]], builtin: true })
}

function visitChildren(node: SyntaxNode, position: Position, state: State): void {
  forEachChild(node, (child) => visitIn(node, child, position, state))
}

/**
 * The first command always runs, so all others see its effects. After `&&`, a command also sees the effects of the one
 * before; after `||`, perhaps not. In `a && b || c`, the effects of `a` are certain for `c`, those of `b` are not.
 */
function andOr(node: Extract<SyntaxNode, { type: 'AndOr' }>, position: Position, state: State): void {
  const { commands, operators } = node
  for (let at = 0; at < commands.length;) {
    let end = at + 1
    while (at > 0 && end < commands.length && operators[end - 1] === '&&') end += 1
    const part = commands.slice(at, end)
    scoped(at === 0 ? undefined : 'perhaps', state, () =>
      part.forEach((each) => visitIn(node, each, position, state)),
    )
    at = end
  }
}

const visitIn = (parent: SyntaxNode, node: SyntaxNode, position: Position, state: State): void =>
  scoped(kindOf(parent, node), state, () => visit(node, position, state))

function parameterGuards(
  node: Extract<SyntaxNode, { type: 'ParameterExpansion' }>,
  position: Position,
  state: State,
): void {
  const { operation, index, text } = node
  const parts = [index?.text ?? '']
  if (operation?.type === 'Slice') parts.push(operation.offset.text, operation.length?.text ?? '')
  if (parts.some(runsBetweenQuotes) || (position.inHeredoc && runsBetweenQuotes(text))) unread(text, state)
  const keys = operation?.type === 'Names' || index?.value === '@' || index?.value === '*'
  if (node.prefix === '!' && !keys) state.shell.note('script', 'a variable names the variable that is read')
  if (operation?.type === 'Unknown') unread(text, state)
  // `${x:=word}` sets x.
  if (operation?.type === 'Default' && operation.operator.endsWith('=')) {
    const { operand } = operation
    define(state, position.body, node.parameter, {
      append: false,
      values: () => assignedValues(operand, state),
      indexed: index !== undefined,
    })
  }
  if (operation?.type === 'Transform' && /P/.test(operation.operand.value))
    state.shell.note('script', "a variable's value is read as shell code")
}

/** The parser may read the text differently than bash: a script, or egress if it contains a sender. */
export function unread(text: string, state: State): void {
  state.shell.note('script', 'part of the command cannot be read with certainty')
  const sender = scanForSenders(text)
  if (sender !== undefined)
    state.shell.note('egress', `\`${sender}\` sends data out, in a part that cannot be read`)
}

const simple = (node: SyntaxNode): Command | undefined => (node.type === 'Command' ? node : undefined)

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
