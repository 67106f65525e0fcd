import { z } from 'zod'
import type { DeclaredFacts } from '../../policy/tool-facts.ts'
import type { LimitedParams } from '../../policy/tool-limits.ts'
import type { Category, Json, JsonObject, Label, RiskLevel } from '../../policy/types.ts'
import type { PreviewDraft } from './preview.ts'

/**
 * What happens if the process dies before the outcome is recorded. No effect may happen twice:
 * - `free`: the call only reads. It is made again.
 * - `transactional`: the write and its outcome commit together in our own database. The call is made again.
 * - `keyed`: the call is made again with the same idempotency key.
 * - `findable`: after the point of no return, Countersign looks for the call's marker. If the thing is absent
 *   after
 *   `findableAfterSeconds`, the call is made again. If the search gives no answer, a person decides.
 * - `unsafe`: after the point of no return, the step becomes `unknown_outcome`.
 */
export const repeats = ['free', 'transactional', 'keyed', 'findable', 'unsafe'] as const
export type Repeat = (typeof repeats)[number]

/** `yes`: it changes nothing. `by hand`: a person can undo it. `no`: people may already have read it. */
export const reversibilities = ['yes', 'by hand', 'no'] as const
export type Reversible = (typeof reversibilities)[number]

/** Read for an approval and checked in the call: an approval covers only the state that its approvers saw. */
export interface Precondition {
  /** A part of a sentence, e.g. `the value in the memory`. */
  readonly of: string
  /**
   * - `transaction`: checked in the transaction that commits the call's write.
   * - `before`: read again right before the point of no return. A later change is not seen.
   * - `call`: the call reads the thing once, compares the revision, and acts on exactly this state.
   */
  readonly check: (typeof preconditionChecks)[number]
}
export const preconditionChecks = ['transaction', 'before', 'call'] as const

/**
 * People may connect it in place of the installation's service. It takes an idempotency key, so a call is
 * never `unsafe`: if its answer was lost, it is sent again through the same connection with the same key.
 */
export interface OwnService {
  /** A name of `integrations`. */
  readonly integration: string
  /** After the first request, the service knows the key for so long. Then a person decides. */
  readonly knowsKeySeconds: number
}

/** What people can look for too. `of` makes it of the 32 characters that name the call (marker.ts). */
export interface Mark {
  /** Follows "by", such as "the last line of its text". */
  readonly where: string
  of(digest: string): string
}

/** The text that most calls leave. */
export const textMark = (where: string): Mark => ({ where, of: (digest) => `countersign:call:${digest}` })

/** For one attempt, in seconds. */
export const mostTimeoutSeconds = 86_400

export const anyJson = z.json() as z.ZodType<Json>

export const attachment = {
  attachment_name: z.string().min(1).max(255).optional().describe('Name of a file to attach.'),
  attachment_content: z.string().max(1_000_000).optional().describe('Text of the attached file.'),
}

/** If a service lists a new thing at once: 30 s for the request, 30 s for a slow commit and the lists. */
export const findable = { repeat: 'findable', findableAfterSeconds: 60 } as const

export const readsInternal = {
  sideEffect: 'read',
  outputLabels: ['internal'],
  categories: [],
  risk: 'medium',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
} as const

/** The body is in `run.ts` of the same folder. Limits, risk and docs are made from this declaration. */
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
  /** A strict object refuses templates with unknown fields at saving. A loose one may have any field. */
  readonly output: Output
  /** JSON Schemas of the fields of the output that depend on the parameters, as they stand in a definition. Null: there is no such field. */
  formOf?(params: JsonObject): Readonly<Record<string, JsonObject | null>>
  readonly categories: readonly Category[]
  readonly risk: Extract<RiskLevel, 'low' | 'medium' | 'high'>
  /** Each limit names the parameters that it reads. */
  readonly constraints: LimitedParams
  readonly repeat: Repeat
  readonly reversible: Reversible
  /** Never with `keyed`: a repeated call could find the change that the first attempt has made. */
  readonly precondition?: Precondition
  /** Uses nothing but the parameters. Without it, the preview shows the description and all parameters. */
  preview?(params: z.output<Params>): PreviewDraft
  /**
   * If a call is absent this long after the point of no return, it was certainly not made: the time covers
   * the longest request and the delay of the lists. If missing, a person decides after 15 minutes.
   */
  readonly findableAfterSeconds?: number
  /** Only for `findable`: what the call leaves at the service, by which it is found again. */
  readonly mark?: Mark
  /** The page of the service on which a person sees what the call made; null if the parameters do not say. */
  pageOf?(params: z.output<Params>, base: string): string | null
  /** What a crash in the call can leave at the service: one clause for docs/tools.md. */
  readonly crashLeaves?: string
  /**
   * `none`, `installation` (its folder or mail server, for organizations that the operator names), or a name
   * of `integrations`. An organization connects all tools of an integration at once.
   */
  readonly connection: string
  /** Only a tool with `installation` has such a service. */
  readonly ownService?: OwnService
  /** For one attempt, unless the step sets a shorter limit. */
  readonly timeoutSeconds: number
}

/** Null if the tool uses no connection. Returns `ownService` also without a connection. */
export function serviceOf({
  connection,
  ownService,
}: Pick<ToolDeclaration, 'connection' | 'ownService'>): string | null {
  if (connection === 'none' || connection === 'installation') return ownService?.integration ?? null
  return connection
}

/** Keeps the exact type, from which `Bodies` knows the functions that the tool needs. */
export function defineTool<
  const Name extends string,
  Params extends z.ZodObject,
  Output extends z.ZodObject,
  const Exact extends Pick<ToolDeclaration, 'name'>,
>(tool: ToolDeclaration<Name, Params, Output> & Exact): Exact {
  return tool
}

export const byName = <const Tools extends readonly ToolDeclaration[]>(...tools: Tools) =>
  Object.fromEntries(tools.map((tool) => [tool.name, tool])) as {
    readonly [Tool in Tools[number] as Tool['name']]: Tool
  }

/** The types of parameters that hold a single value. */
const single: ReadonlySet<string> = new Set(['string', 'number', 'boolean', 'enum'])

const isSingle = (schema: z.ZodType): boolean =>
  schema instanceof z.ZodOptional ? isSingle(schema.unwrap() as z.ZodType) : single.has(schema.type)

/** A list, a text with several addresses, or any JSON. */
export const severalIn = ({ params }: Pick<ToolDeclaration, 'params'>): readonly string[] =>
  Object.keys(params.shape).filter((name) => !isSingle(params.shape[name] as z.ZodType))

export interface ToolCatalog {
  get(name: string): ToolDeclaration | undefined
}
