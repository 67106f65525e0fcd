import type { Request, Response } from 'express'
import type { z } from 'zod'
import type { Context } from '../context.ts'
import type { Asker } from '../governance/agents/ask.ts'
import type { Once } from '../governance/idempotency.ts'
import type { Caller, Identity } from '../governance/identity.ts'
import type { RouteKey } from './access.ts'
import type { Auth } from './auth.ts'
import type { ServiceMail } from './service-mail.ts'

/** Names in braces of `'GET /workflows/{id}/versions/{version}'`. */
type ParamNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParamNames<Rest>
  : never
export type PathParams<Path extends string> = { readonly [Name in ParamNames<Path>]: string }

type SchemaOutput<S> = S extends z.ZodType ? z.output<S> : undefined

/** What a handler gets once authentication, scope, subject, role and form are settled. */
export interface Call<Key extends string = string, Query = unknown, Body = unknown> {
  readonly context: Context
  readonly services: Mounted
  readonly identity: Identity
  /** The caller in the organization the call is about. */
  readonly caller: Caller
  readonly params: PathParams<Key>
  readonly query: Query
  readonly body: Body
  /** The `Idempotency-Key` header, if any: what the handler starts may take its identity from it. */
  readonly idempotencyKey: string | null
  /** With a key: the act marks itself done in its own transaction, and is not done again when it already is. */
  readonly once: Once | null
  /** Aborted when the client has gone or the server drains. */
  readonly signal: AbortSignal
  /** Whether key, scope and role would still let this call in: for answers that take long. */
  readonly stillAllowed: () => Promise<boolean>
}

/** What the process has beside the database. */
export interface Services {
  /** Whether Temporal answers. */
  readonly temporal: () => Promise<boolean>
  /** Aborted when the server begins to drain. */
  readonly draining: AbortSignal
  /** Sends a mail of the service's own, once the mail server has taken it. */
  readonly mail: (mail: ServiceMail) => Promise<void>
  /** Between two comments of an event stream; 15 s. */
  readonly pingMilliseconds?: number
}

/** What a mounted route has: of these, the application makes what the process need not bring. */
export interface Mounted extends Services {
  readonly auth: Auth
}

export interface Answer {
  readonly status: number
  /** undefined sends no body; JsonParts are sent as fast as the client reads them. */
  readonly body: unknown
}
export const ok = (body: unknown): Answer => ({ status: 200, body })
export const created = (body: unknown): Answer => ({ status: 201, body })
export const accepted = (body: unknown): Answer => ({ status: 202, body })
export const noContent: Answer = { status: 204, body: undefined }

/** An agent's question: what is known of it once key and scope are settled; whatever else is wrong is a decision. */
export interface Question {
  readonly context: Context
  readonly asker: Asker
  /** Throws `unauthenticated` or `missing_scope` if the asker's key was only remembered and does not hold any more. */
  readonly confirm: () => Promise<void>
  /** Made when it is asked for: aborted when the client has gone or the server drains. */
  readonly signal: () => AbortSignal
}

interface Described {
  readonly summary: string
  readonly tag: string
  readonly description?: string
  /** Success bodies by status; null for none. */
  readonly responses: Readonly<Record<number, z.ZodType | null>>
  readonly contentType?: string
}

/** A route whose answer is one JSON body. */
export interface JsonRoute<Key extends RouteKey = RouteKey, Q = unknown, B = unknown> extends Described {
  readonly key: Key
  readonly query?: Q
  readonly body?: B
  /** Bytes; without it the usual limit. */
  readonly bodyLimit?: number
  /** Most values of a body; without it 100,000. */
  readonly bodyValues?: number
  handle(call: Call<Key, SchemaOutput<Q>, SchemaOutput<B>>): Promise<Answer>
}

/** A route that writes its answer itself, once everything has been checked. */
export interface StreamRoute<Key extends RouteKey = RouteKey, Q = unknown> extends Described {
  readonly key: Key
  readonly query?: Q
  stream(call: Call<Key, SchemaOutput<Q>, undefined>, request: Request, response: Response): Promise<void>
}

/** A route that answers an agent's question by a decision. `body` describes what it reads itself. */
export interface AskRoute<Key extends RouteKey = RouteKey> extends Described {
  readonly key: Key
  readonly query?: z.ZodObject
  readonly body: z.ZodType
  ask(question: Question, request: Request): Promise<Answer>
}

/** A route that needs no key. */
export interface PublicRoute<Key extends RouteKey = RouteKey> extends Described {
  readonly key: Key
  open(context: Context, services: Services, request: Request, response: Response): Promise<Answer | null>
}

/** Any route, with its types forgotten: what the application mounts and the description lists. */
export type Route = Described & {
  readonly key: RouteKey
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly bodyLimit?: number
  /** Most values of a body; without it 100,000. */
  readonly bodyValues?: number
  ask?(question: Question, request: Request): Promise<Answer>
  handle?(call: Call): Promise<Answer>
  stream?(call: Call, request: Request, response: Response): Promise<void>
  open?(context: Context, services: Services, request: Request, response: Response): Promise<Answer | null>
}

export function route<const Key extends RouteKey, Q = undefined, B = undefined>(
  definition: JsonRoute<Key, Q, B>,
): Route {
  return definition as unknown as Route
}

export function streamRoute<const Key extends RouteKey, Q = undefined>(
  definition: StreamRoute<Key, Q>,
): Route {
  return definition as unknown as Route
}

export function askRoute<const Key extends RouteKey>(definition: AskRoute<Key>): Route {
  return definition
}

export function publicRoute<const Key extends RouteKey>(definition: PublicRoute<Key>): Route {
  return definition
}
