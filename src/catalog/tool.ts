import { z } from 'zod'
import type { LimitedParams } from '../policy/tool-limits.ts'
import type { Category, Json, Label, RiskLevel, SideEffect } from '../policy/types.ts'
import type { PreviewDraft } from './preview.ts'

/**
 * This says what happens if a call's process dies between intent and outcome. So no effect happens twice:
 * - `free`: a read; the call is made again.
 * - `transactional`: the write and its outcome commit together in our own database; the call is made again.
 * - `keyed`: the integration takes an idempotency key; the call is made again with the same key.
 * - `findable`: what the call makes carries a marker. After the point of no return the call is looked for: it is done, or
 *   absent after `findableAfterSeconds` and made again, or a person decides.
 * - `unsafe`: after its point of no return nobody knows the outcome; the step becomes `unknown_outcome`.
 */
export type Repeat = 'free' | 'transactional' | 'keyed' | 'findable' | 'unsafe'

/**
 * Whether the effect of a call can be taken back:
 * - `yes`: the call changes nothing.
 * - `by hand`: a person can delete or change back what it has made.
 * - `no`: people may have read it already.
 */
export const reversibilities = ['yes', 'by hand', 'no'] as const
export type Reversible = (typeof reversibilities)[number]

/**
 * What a call changes. Its revision is read when an approval is made, and checked when the call is made: an approval
 * covers the state that its approvers saw. After a change the call is held again.
 */
export interface Precondition {
  /** Names it in a sentence, e.g. `the value in the memory`. */
  readonly of: string
  /**
   * How the revision is checked:
   * - `transaction`: in the transaction that commits the call's write.
   * - `service`: the write carries the revision, and the service refuses another one.
   * - `before`: it is read again right before the point of no return. A later change is not seen.
   * - `call`: the call reads it once, compares it, and acts on just what it has read.
   */
  readonly check: 'transaction' | 'service' | 'before' | 'call'
}

/** A service outside that several tools share; an organization connects all of them at once. */
export type Integration = 'github' | 'slack' | 'google' | 'jira' | 'trello' | 'search' | 'llm' | 'mail'

/**
 * A service in place of the installation's. It takes an idempotency key: a call that went through it is never `unsafe`. If
 * its answer was lost, it is sent again with its key, through the same connection.
 */
export interface OwnService {
  readonly integration: Integration
  /** Seconds after the first request in which the service surely knows the key. Later a person decides. */
  readonly knowsKeySeconds: number
}

/** A value of any form in an output. */
export const anyJson = z.json() as z.ZodType<Json>

/**
 * The declaration of one catalogue tool; its executor is in `activities/tools/`. The list of tools, the limits of tool
 * policies, risk and the docs come from it.
 */
export interface ToolDeclaration<
  Name extends string = string,
  Params extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> {
  readonly name: Name
  readonly description: string
  readonly sideEffect: SideEffect
  readonly outputLabels: readonly Label[]
  /** A strict object: unknown parameters are errors. */
  readonly params: Params
  /**
   * The value that a call returns. A strict object has no other fields, so a template that names another one is an
   * error when its definition is saved; a loose object may have any. Use `anyJson` for a value of any form.
   */
  readonly output: Output
  /** Parameters that name people by address. `me` in them means the requester; rules see the address. */
  readonly people?: readonly string[]
  readonly categories: readonly Category[]
  readonly risk: Extract<RiskLevel, 'low' | 'medium' | 'high'>
  /** The limits that a tool policy may set on it, each with the parameters that it reads. */
  readonly constraints: LimitedParams
  readonly repeat: Repeat
  readonly reversible: Reversible
  /** Not together with `keyed`: a repeated call could meet its own change. */
  readonly precondition?: Precondition
  /**
   * What an approver sees in place of the parameters, from the parameters alone. Without it, the description and all
   * parameters are shown.
   */
  preview?(params: z.output<Params>): PreviewDraft
  /**
   * For `findable`: seconds after the point of no return until a call that is not found was certainly not made. They
   * cover the longest request and the delay of the service's lists. Without it, a person decides about a call that is not
   * found for 15 minutes.
   */
  readonly findableAfterSeconds?: number
  /**
   * An organization needs this before the tool works there: nothing, the installation's folder or mail server, which the
   * operator gives to organizations by name, or a connection to an integration.
   */
  readonly connection: 'none' | 'installation' | Integration
  /** For a tool of the installation: the service that people may connect in its place. */
  readonly ownService?: OwnService
  /** Without an executor the tool's calls fail with `tool_not_available`. Rules and policies can name it already. */
  readonly hasExecutor: boolean
  /** Time limit of one attempt, unless the step sets a shorter one. */
  readonly timeoutSeconds: number
}

export function defineTool<const Name extends string, Params extends z.ZodObject, Output extends z.ZodObject>(
  tool: ToolDeclaration<Name, Params, Output>,
): ToolDeclaration<Name, Params, Output> {
  return tool
}

/** Finds the declaration of a tool by its name. */
export interface ToolCatalog {
  get(name: string): ToolDeclaration | undefined
}
