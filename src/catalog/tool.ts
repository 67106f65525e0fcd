import type { z } from 'zod'
import type { LimitName } from '../policy/tool-limits.ts'
import type { Category, Label, RiskLevel, SideEffect } from '../policy/types.ts'

/**
 * What happens when a call's process dies between intent and outcome (contract section 4, "No side effect
 * happens twice"):
 * - `free`: reads; the call is made again.
 * - `transactional`: the write and its outcome commit together in our own database; made again.
 * - `keyed`: the integration takes an idempotency key; made again with the same key.
 * - `unsafe`: past its point of no return nothing can tell; the step becomes `unknown_outcome`.
 */
export type Repeat = 'free' | 'transactional' | 'keyed' | 'unsafe'

/** One tool of the catalogue: a declaration only; its executor is in `activities/tools/`. */
export interface ToolDeclaration<Name extends string = string, Params extends z.ZodObject = z.ZodObject> {
  readonly name: Name
  readonly description: string
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** Strict object: a parameter the tool does not have is an error. */
  readonly params: Params
  /** Parameters that name people by address, in which the word `me` is the person who runs; rules see the address. */
  readonly people?: readonly string[]
  readonly categories: readonly Category[]
  readonly risk: Extract<RiskLevel, 'low' | 'medium' | 'high'>
  /** Names of the limits a tool policy may set on it. */
  readonly constraints: readonly LimitName[]
  readonly repeat: Repeat
  /**
   * What an organization must have before the tool works there: nothing, or the installation's own folder or mail server,
   * which its operator gives to organizations by name.
   */
  readonly connection: 'none' | 'installation'
  /** Wall-clock limit of one attempt, unless the step says less. */
  readonly timeoutSeconds: number
}

export function defineTool<const Name extends string, Params extends z.ZodObject>(
  tool: ToolDeclaration<Name, Params>,
): ToolDeclaration<Name, Params> {
  return tool
}
