import type { Reference } from '../reference.ts'
import type { Json } from '../types.ts'

/* The parts of an expression, as the parser makes them and the evaluator reads them. */

export type BinaryOperator = keyof typeof precedence

/** A higher number binds more tightly. */
export const precedence = {
  '??': 1,
  '||': 2,
  '&&': 3,
  '==': 4,
  '!=': 4,
  in: 5,
  '<=': 5,
  '>=': 5,
  '<': 5,
  '>': 5,
  '+': 6,
  '-': 6,
  '*': 7,
  '/': 7,
  '%': 7,
} as const

export type Node =
  | { readonly is: 'value'; readonly value: Json }
  | { readonly is: 'reference'; readonly reference: Reference }
  /** The variable of `filter(rows, row, …)`. */
  | { readonly is: 'variable'; readonly name: string }
  | { readonly is: 'part'; readonly of: Node; readonly key: string | Node }
  | { readonly is: 'list'; readonly items: readonly Node[] }
  | { readonly is: 'object'; readonly fields: readonly (readonly [string, Node])[] }
  | { readonly is: 'not' | 'minus'; readonly of: Node }
  | {
      readonly is: 'binary'
      readonly operator: BinaryOperator
      readonly left: Node
      readonly right: Node
    }
  | { readonly is: 'choice'; readonly test: Node; readonly yes: Node; readonly no: Node }
  | {
      readonly is: 'call'
      readonly name: string
      readonly args: readonly Node[]
      /** For each element of the first argument, with the element as this variable. */
      readonly each: { readonly variable: string; readonly body: Node } | null
    }

/** `{{ … }}` that computes something. Its label sources are all references in its text. */
export interface Expression {
  readonly kind: 'expression'
  /** With its braces, for messages. */
  readonly text: string
  readonly node: Node
  readonly references: readonly Reference[]
}

/** Says what is wrong with the text of an expression, and where. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError'
}
