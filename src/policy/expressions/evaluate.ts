import type { Budget } from '../budget.ts'
import { MissingPath, type Reference } from '../reference.ts'
import { TextPieces } from '../text-pieces.ts'
import { maybe, no, tri, yes, type Tri } from '../tri.ts'
import type { Json } from '../types.ts'
import { Hole, isList, type Partial } from '../values.ts'
import { areEqual, order } from './compare.ts'
import { shapes, type Shape } from './functions.ts'
import { finite, listOf, numberOf, spendOn } from './shape.ts'
import type { BinaryOperator, Node } from './syntax.ts'

/*
 * One evaluator for values and for a plan’s unknowns. An unknown part is a hole, and the result of a plan is a hole, or
 * has one, wherever the values could change it. Nothing catches an error: `??` takes null and missing paths only. For
 * every filling of the holes, the result with the values fits the result with the holes, or is an error.
 */

/** What a path that leads to nothing gives. */
export class Missing {
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

export type Value = Partial | Missing

export interface Env {
  read(reference: Reference): Value
  readonly budget: Budget
  /** False: there are no holes, so none are looked for. */
  readonly mayLack: boolean
}

/** The innermost variable, with those around it. */
interface Variables {
  readonly name: string
  value: Partial
  readonly outer: Variables | null
}

function valueOfVariable(name: string, variables: Variables | null): Partial {
  for (let at = variables; at !== null; at = at.outer) if (at.name === name) return at.value
  return null
}

/** Throws TypeError, MissingPath and BudgetExceeded. Messages contain no value. */
export function evaluate(node: Node, env: Env): Value {
  const value = new Evaluation(env).value(node, null)
  if (!(value instanceof Missing)) spendOn(value instanceof Hole ? value.pieces : value, env.budget)
  return value
}

/** Null and a missing path count as false. A hole may be both. Throws TypeError for other values. */
export function truth(value: Value): Tri {
  if (value instanceof Hole) return maybe
  if (value === null || value instanceof Missing) return no
  if (typeof value === 'boolean') return tri(value)
  throw new TypeError('a condition must be true or false: compare the value, for example with `!= null`')
}

class Evaluation {
  readonly #env: Env
  readonly #from = new Set<string>()

  constructor(env: Env) {
    this.#env = env
  }

  value(node: Node, variables: Variables | null): Value {
    this.#env.budget.spend(1)
    switch (node.is) {
      case 'value':
        return node.value
      case 'reference':
        return this.#noting(this.#env.read(node.reference))
      case 'variable':
        return valueOfVariable(node.name, variables)
      case 'part':
        return this.#part(node, variables)
      case 'list':
        return node.items.map((each) => this.#given(each, variables))
      case 'object':
        return Object.fromEntries(node.fields.map(([name, each]) => [name, this.#given(each, variables)]))
      case 'not': {
        const found = truth(this.value(node.of, variables))
        return found === maybe ? this.#unknown() : found === no
      }
      case 'minus': {
        const of = this.#given(node.of, variables)
        return of instanceof Hole ? this.#unknown() : finite(-numberOf(of as Json, '-'), '-')
      }
      case 'binary':
        return this.#binary(node, variables)
      case 'choice': {
        const test = truth(this.value(node.test, variables))
        if (test === maybe) return this.#unknown()
        return this.value(test === yes ? node.yes : node.no, variables)
      }
      default:
        return this.#call(node, variables)
    }
  }

  #noting(value: Value): Value {
    if (value instanceof Hole) for (const name of value.from) if (this.#from.size < 100) this.#from.add(name)
    return value
  }

  #unknown(): Hole {
    return new Hole(null, { from: [...this.#from] })
  }

  /** Throws MissingPath. */
  #given(node: Node, variables: Variables | null): Partial {
    const value = this.value(node, variables)
    if (value instanceof Missing) throw new MissingPath(value.message)
    return value
  }

  #isKnown(value: Partial): value is Json {
    if (!this.#env.mayLack) return true
    this.#env.budget.spend(1)
    if (value instanceof Hole) return false
    return (
      typeof value !== 'object' || value === null || Object.values(value).every((each) => this.#isKnown(each))
    )
  }

  #part({ of, key }: Extract<Node, { is: 'part' }>, variables: Variables | null): Value {
    const whole = this.value(of, variables)
    const at = typeof key === 'string' ? key : this.#given(key, variables)
    if (whole instanceof Missing) return whole
    if (whole instanceof Hole || at instanceof Hole) return this.#unknown()
    if (typeof at !== 'string' && typeof at !== 'number')
      throw new TypeError('`[…]` needs the name of a field or a place in a list')
    const found = partOf(whole, String(at))
    return found === undefined
      ? new Missing(
          `there is no \`${typeof key === 'string' ? key : '[…]'}\` in the value: write \`?? \` with what stands in for it`,
        )
      : found
  }

  #binary({ operator, left, right }: Extract<Node, { is: 'binary' }>, variables: Variables | null): Value {
    if (operator === '&&' || operator === '||') {
      const decides = operator === '&&' ? no : yes
      const first = truth(this.value(left, variables))
      if (first === decides) return decides === yes
      const second = first === maybe ? this.#perhaps(right, variables) : truth(this.value(right, variables))
      if (second === decides) return decides === yes
      return first === maybe || second === maybe ? this.#unknown() : decides === no
    }
    const first = this.value(left, variables)
    if (operator === '??') {
      if (first === null || first instanceof Missing) return this.value(right, variables)
      return first instanceof Hole && first.prefix === null ? this.#unknown() : first
    }
    return this.#strict(operator, first, this.value(right, variables))
  }

  /** The left side may decide alone, so an error of this one is not certain. */
  #perhaps(node: Node, variables: Variables | null): Tri {
    try {
      return truth(this.value(node, variables))
    } catch {
      return maybe
    }
  }

  #strict(operator: Exclude<BinaryOperator, '&&' | '||' | '??'>, left: Value, right: Value): Partial {
    const isMissing = left instanceof Missing || right instanceof Missing
    switch (operator) {
      case '==':
      case '!=': {
        if (isMissing) return operator === '!='
        if (!this.#isKnown(left) || !this.#isKnown(right)) return this.#unknown()
        return areEqual(left, right, this.#env.budget) === (operator === '==')
      }
      case 'in':
        return isMissing ? false : this.#isIn(left, right)
      case '<':
      case '>':
      case '<=':
      case '>=': {
        if (isMissing || left === null || right === null) return false
        if (left instanceof Hole || right instanceof Hole) return this.#unknown()
        const found = order(left as Json, right as Json, operator, this.#env.budget)
        if (operator === '<') return found < 0
        if (operator === '>') return found > 0
        return operator === '<=' ? found <= 0 : found >= 0
      }
      default:
        if (left instanceof Missing) throw new MissingPath(left.message)
        if (right instanceof Missing) throw new MissingPath(right.message)
        return operator === '+' ? this.#sum(left, right) : this.#number(operator, left, right)
    }
  }

  #isIn(value: Partial, list: Partial): Partial {
    if (list instanceof Hole) return this.#unknown()
    if (!isList(list)) throw new TypeError('`in` needs a list: for texts write `contains(…)`')
    let isUnclear = false
    for (const each of list) {
      this.#env.budget.spend(1)
      if (!this.#isKnown(value) || !this.#isKnown(each)) isUnclear = true
      else if (areEqual(value, each, this.#env.budget)) return true
    }
    return isUnclear ? this.#unknown() : false
  }

  #sum(left: Partial, right: Partial): Partial {
    if (isText(left) || isText(right)) {
      if (![left, right].every((each) => isText(each) || each instanceof Hole))
        throw new TypeError(
          '`+` joins two texts or adds two numbers: write `text(…)` or `number(…)`, and for a date `add(today, days(3))`',
        )
      const pieces = new TextPieces()
      for (const each of [left, right] as readonly (string | Hole)[]) {
        this.#env.budget.spend(1 + ((typeof each === 'string' ? each.length : each.leastLength) >> 6))
        pieces.add(each)
      }
      return pieces.joined()
    }
    return this.#number('+', left, right)
  }

  #number(operator: '+' | '-' | '*' | '/' | '%', left: Partial, right: Partial): Partial {
    if (left instanceof Hole || right instanceof Hole) return this.#unknown()
    const [a, b] = [numberOf(left as Json, operator), numberOf(right as Json, operator)]
    return finite(arithmetic[operator](a, b), operator)
  }

  #call({ name, args, each }: Extract<Node, { is: 'call' }>, variables: Variables | null): Partial {
    const shape = shapes[name] as Shape
    const given = args.map((arg) => this.#given(arg, variables))
    if (given.some((arg) => arg instanceof Hole)) return this.#unknown()
    const { budget } = this.#env
    if (each === null) {
      if (shape.opaque !== true && !given.every((arg) => this.#isKnown(arg))) return this.#unknown()
      return shape.run(given as readonly Json[], { budget, keys: null })
    }
    const list = listOf(given[0] as Json, name) as readonly Partial[]
    const inner: Variables = { name: each.variable, value: null, outer: variables }
    const keys = list.map((element) => {
      inner.value = element
      return this.#given(each.body, inner)
    })
    const isUnclear =
      name !== 'map' &&
      !(keys.every((key) => this.#isKnown(key)) && given.slice(1).every((arg) => this.#isKnown(arg)))
    return isUnclear
      ? this.#unknown()
      : shape.run(given as readonly Json[], { budget, keys: keys as readonly Json[] })
  }
}

/** A hole with a beginning is text for certain. */
const isText = (value: Partial): boolean =>
  typeof value === 'string' || (value instanceof Hole && value.prefix !== null)

const arithmetic = {
  '+': (a: number, b: number) => a + b,
  '-': (a: number, b: number) => a - b,
  '*': (a: number, b: number) => a * b,
  '/': (a: number, b: number) => a / b,
  '%': (a: number, b: number) => a % b,
}

/** Own fields and places only. */
function partOf(whole: Partial, key: string): Partial | undefined {
  if (typeof whole !== 'object' || whole === null || whole instanceof Hole) return undefined
  if (isList(whole)) return /^\d{1,9}$/.test(key) ? whole[Number(key)] : undefined
  return Object.hasOwn(whole, key) ? whole[key] : undefined
}
