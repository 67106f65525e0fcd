import { z } from 'zod'
import type { DeclaredFacts } from '../../policy/tool-facts.ts'
import type { LimitedParams } from '../../policy/tool-limits.ts'
import type { Category, Json, Label, RiskLevel } from '../../policy/types.ts'
import type { PreviewDraft } from './preview.ts'

/**
 * Says what happens to a call if its process dies before the outcome is recorded. No effect may happen twice:
 * - `free`: the call only reads. It is made again.
 * - `transactional`: the write and its outcome commit together in our own database. The call is made again.
 * - `keyed`: the integration takes an idempotency key. The call is made again with the same key.
 * - `findable`: the thing that the call makes carries a marker. If the process dies after the point of no return,
 *   Countersign looks for the thing. If the thing is still absent after `findableAfterSeconds`, the call is made again.
 *   If the search gives no answer, a person decides.
 * - `unsafe`: after the point of no return, the service cannot learn the outcome. The step becomes `unknown_outcome`.
 */
export const repeats = ['free', 'transactional', 'keyed', 'findable', 'unsafe'] as const
export type Repeat = (typeof repeats)[number]

/**
 * Whether the effect of a call can be taken back:
 * - `yes`: the call changes nothing.
 * - `by hand`: a person can delete the thing that the call has made, or change it back.
 * - `no`: people may already have read the thing that the call has made.
 */
export const reversibilities = ['yes', 'by hand', 'no'] as const
export type Reversible = (typeof reversibilities)[number]

/**
 * Describes the thing that a call changes. The revision of the thing is read when an approval is made, and checked when
 * the call is made. So an approval covers only the state that its approvers saw. If the thing has changed since then,
 * the call is held again.
 */
export interface Precondition {
  /** Words for the thing, as a part of a sentence, e.g. `the value in the memory`. */
  readonly of: string
  /**
   * How the revision is checked:
   * - `transaction`: the revision is checked in the transaction that commits the call's write.
   * - `before`: the revision is read again right before the point of no return. A later change is not seen.
   * - `call`: the call reads the thing once, compares the revision, and acts on exactly this state.
   */
  readonly check: (typeof preconditionChecks)[number]
}
export const preconditionChecks = ['transaction', 'before', 'call'] as const

/**
 * A service that people may connect in place of the installation's service. The service takes an idempotency key, so a
 * call through it is never `unsafe`. If the answer to such a call was lost, the call is sent again through the same
 * connection with the same key.
 */
export interface OwnService {
  /** A name of `integrations`. */
  readonly integration: string
  /**
   * The service certainly knows the key for this many seconds after the first request. After that time a person decides
   * about the call.
   */
  readonly knowsKeySeconds: number
}

/** The largest time limit of one attempt, in seconds. */
export const mostTimeoutSeconds = 86_400

/** Any JSON value in an output. */
export const anyJson = z.json() as z.ZodType<Json>

/** Parameters for a text file that is attached to a comment. */
export const attachment = {
  attachment_name: z.string().min(1).max(255).optional().describe('Name of a file to attach.'),
  attachment_content: z.string().max(1_000_000).optional().describe('Text of the attached file.'),
}

/**
 * Of a tool whose service lists a new thing at once. The 60 s have two parts. A request takes at most 30 s. The other
 * 30 s are for a slow database commit before the request, and for the time until the service's lists show the thing.
 */
export const findable = { repeat: 'findable', findableAfterSeconds: 60 } as const

/** The common part of the declarations of tools that read documents, issues or cards of the organization. */
export const readsInternal = {
  sideEffect: 'read',
  outputLabels: ['internal'],
  categories: [],
  risk: 'medium',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
} as const

/**
 * The declaration of one catalogue tool. Its body is in `run.ts` of the same folder. The list of tools, the limits that
 * tool policies may set, the risk of calls, and the docs are all made from this declaration.
 */
export interface ToolDeclaration<
  Name extends string = string,
  Params extends z.ZodObject = z.ZodObject,
  Output extends z.ZodObject = z.ZodObject,
> extends DeclaredFacts {
  readonly name: Name
  readonly description: string
  readonly outputLabels: readonly Label[]
  /** A strict object: unknown parameters are errors. */
  readonly params: Params
  /**
   * The value that a call returns. A strict object has only the declared fields: a template that names an unknown field
   * is an error when the workflow is saved. A loose object may have any field. Use `anyJson` if any JSON value is
   * possible.
   */
  readonly output: Output
  readonly categories: readonly Category[]
  readonly risk: Extract<RiskLevel, 'low' | 'medium' | 'high'>
  /** The limits that a tool policy may set on the tool. Each limit names the parameters that it reads. */
  readonly constraints: LimitedParams
  readonly repeat: Repeat
  readonly reversible: Reversible
  /**
   * A tool whose `repeat` is `keyed` may not have a precondition, because a repeated call could find the change that
   * the first attempt has made.
   */
  readonly precondition?: Precondition
  /**
   * Returns the preview that an approver sees in place of the parameters. Uses nothing but the parameters. If a tool
   * lacks this function, the preview shows the description and all parameters.
   */
  preview?(params: z.output<Params>): PreviewDraft
  /**
   * For `findable`: if a call is not found this many seconds after the point of no return, the call was certainly not
   * made. The time covers the longest request and the delay of the service's lists. If this number is missing,
   * Countersign looks for the call for 15 minutes. If the call is not found, a person decides.
   */
  readonly findableAfterSeconds?: number
  /**
   * Says what can remain at the service after a crash in the middle of the call. The text is one clause for
   * docs/tools.md.
   */
  readonly crashLeaves?: string
  /**
   * Says what an organization needs before the tool works there:
   * - `none`: it needs nothing.
   * - `installation`: it needs the installation's folder or mail server. The operator names the organizations that may
   *   use it.
   * - A name of `integrations`: it needs a connection to this service. An organization connects all its tools at once.
   */
  readonly connection: string
  /**
   * The service that people may connect in place of the installation's service. Only a tool with `installation` has
   * such a service.
   */
  readonly ownService?: OwnService
  /** Time limit of one attempt, unless the step sets a shorter one. */
  readonly timeoutSeconds: number
}

/**
 * Returns the service that calls of the tool reach through a connection. Returns null if the tool uses no connection.
 * For a tool of the installation, returns the tool's `ownService`, also without a connection.
 */
export function serviceOf({
  connection,
  ownService,
}: Pick<ToolDeclaration, 'connection' | 'ownService'>): string | null {
  if (connection === 'none' || connection === 'installation') return ownService?.integration ?? null
  return connection
}

/** Returns the declaration with its exact type, from which `Bodies` knows the functions that the tool needs. */
export function defineTool<
  const Name extends string,
  Params extends z.ZodObject,
  Output extends z.ZodObject,
  const Exact extends Pick<ToolDeclaration, 'name'>,
>(tool: ToolDeclaration<Name, Params, Output> & Exact): Exact {
  return tool
}

/** Returns the tools of a service by name. */
export const byName = <const Tools extends readonly ToolDeclaration[]>(...tools: Tools) =>
  Object.fromEntries(tools.map((tool) => [tool.name, tool])) as {
    readonly [Tool in Tools[number] as Tool['name']]: Tool
  }

/** The types of parameters that hold a single value. */
const single: ReadonlySet<string> = new Set(['string', 'number', 'boolean', 'enum'])

const isSingle = (schema: z.ZodType): boolean =>
  schema instanceof z.ZodOptional ? isSingle(schema.unwrap() as z.ZodType) : single.has(schema.type)

/** Returns the parameters that can hold several values: a list, a text with several addresses, or any JSON. */
export const severalIn = ({ params }: Pick<ToolDeclaration, 'params'>): readonly string[] =>
  Object.keys(params.shape).filter((name) => !isSingle(params.shape[name] as z.ZodType))

export interface ToolCatalog {
  get(name: string): ToolDeclaration | undefined
}
