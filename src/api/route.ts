import type { Request, Response } from 'express'
import type { z } from 'zod'
import type { Context } from '../governance/context.ts'
import type { Asker } from '../calls/agents/ask.ts'
import type { Entry } from '../governance/limits/request-shares.ts'
import type { Once } from '../governance/idempotency.ts'
import type { Taken } from '../governance/limits/rates.ts'
import type { Caller, Identity } from '../governance/access/identity.ts'
import type { RouteKey } from './access.ts'
import type { Auth } from './auth.ts'
import type { SendMail } from '../governance/service-mail.ts'

/** The names in braces in a route's key. Example: `'GET /workflows/{id}/versions/{version}'` has `id` and `version`. */
type ParamNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParamNames<Rest>
  : never
export type PathParams<Path extends string> = { readonly [Name in ParamNames<Path>]: string }

type SchemaOutput<S> = S extends z.ZodType ? z.output<S> : undefined

/** The input of a handler. Authentication, scope, subject, role and schemas were already checked. */
export interface Call<Key extends string = string, Query = unknown, Body = unknown> {
  readonly context: Context
  readonly services: Mounted
  readonly identity: Identity
  /** The caller, with the role in the organization that the call is about. */
  readonly caller: Caller
  readonly params: PathParams<Key>
  readonly query: Query
  readonly body: Body
  /** The `Idempotency-Key` header, or null. The handler can derive ids from it. */
  readonly idempotencyKey: string | null
  readonly requestId: string
  /**
   * Is not null if the request has an `Idempotency-Key`. The handler makes its change and marks the key as used in one
   * transaction. So the change is made only once.
   */
  readonly once: Once | null
  /** Is aborted when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
  /**
   * Gives back the place that the request takes in its organization's share (request-shares.ts). A handler calls this
   * before it waits for a person or a run.
   */
  readonly leaveShare: () => void
  /**
   * Checks the key or session, the scopes, the membership and the role again. Returns the caller with the present role.
   * Throws the errors of the first check.
   */
  readonly callerNow: () => Promise<Caller>
  /**
   * Checks again whether the key, scope and role allow this call. Is called several times while a long answer is sent.
   */
  readonly stillAllowed: () => Promise<boolean>
}

/** The services that a process has in addition to the database. */
export interface Services {
  /** Returns whether Temporal answers. */
  readonly temporal: () => Promise<boolean>
  /** Is aborted when the server begins to drain. */
  readonly draining: AbortSignal
  readonly mail: SendMail
  /** Milliseconds between two comments in an event stream. The comments keep the stream open. The default is 15,000. */
  readonly pingMilliseconds?: number
}

/** The services that a mounted route can use, including those that the application creates. */
export interface Mounted extends Services {
  readonly auth: Auth
}

export interface Answer {
  readonly status: number
  /** Is undefined if the answer has no body. `JsonParts` are sent as fast as the client reads them. */
  readonly body: unknown
}
export const ok = (body: unknown): Answer => ({ status: 200, body })
export const created = (body: unknown): Answer => ({ status: 201, body })
export const accepted = (body: unknown): Answer => ({ status: 202, body })
export const noContent: Answer = { status: 204, body: undefined }

/**
 * A signal has this reason if it aborts because the client has disconnected. If the server drains, the signal has
 * another reason.
 */
export const clientGone = new Error('the client has disconnected')

/**
 * A question of an agent. The key and scope of the agent were already checked. If a later check fails, the answer is a
 * decision and not an error.
 */
export interface Question {
  readonly context: Context
  readonly asker: Asker
  /** Throws `unauthenticated` or `missing_scope` if the asker's key came from the cache and is no longer valid. */
  readonly confirm: () => Promise<void>
  /** Sets the `X-RateLimit-*` headers of the answer. */
  readonly showRate: (taken: Taken) => void
  /** Creates a signal. The signal is aborted when the client has disconnected or the server drains. */
  readonly signal: () => AbortSignal
}

/** A body that is not JSON and has arrived completely. */
export interface Received {
  readonly body: unknown
  /** The hash of this object is stored with the `Idempotency-Key`, in place of the hash of the body. */
  readonly hashed: object
  /** Frees the memory that was reserved for the body. Is called after the handler has ended. */
  release(): void
}

interface Described {
  readonly summary: string
  readonly tag: string
  readonly description?: string
  /** For each status of a successful answer, the schema of the body. The schema is null if the answer has no body. */
  readonly responses: Readonly<Record<number, z.ZodType | null>>
  readonly contentType?: string
  /** Headers that only the successful answers of this route have. */
  readonly headers?: readonly 'X-Verifier-Key'[]
}

/** A route whose handler returns the answer. */
export interface JsonRoute<Key extends RouteKey = RouteKey, Q = unknown, B = unknown> extends Described {
  readonly key: Key
  readonly query?: Q
  readonly body?: B
  /** Maximum bytes of the body. The default is `defaultBodyLimit`. */
  readonly bodyLimit?: number
  /** Maximum number of values in a body. The default is 100,000. */
  readonly bodyValues?: number
  /**
   * Must be true if the handler waits for work outside this thread. The request then holds no place in its
   * organization's share (request-shares.ts) while the handler runs.
   */
  readonly waits?: true
  /**
   * Reads a `multipart/form-data` body after all other checks. In a route with `receive`, the schema `body` is only
   * documentation. The request holds a place in its organization's share while the form is parsed, but not while the
   * form arrives.
   */
  receive?(call: Call, request: Request, entry: Entry): Promise<Received>
  handle(call: Call<Key, SchemaOutput<Q>, SchemaOutput<B>>): Promise<Answer>
}

/** A route that writes its answer itself. All checks have passed before the route writes. */
export interface StreamRoute<Key extends RouteKey = RouteKey, Q = unknown> extends Described {
  readonly key: Key
  readonly query?: Q
  /**
   * Sets the headers of the answer to a HEAD request, for which `stream` is not called. Throws the errors that `stream`
   * throws before it writes.
   */
  head?(call: Call<Key, SchemaOutput<Q>, undefined>, response: Response): Promise<void>
  stream(call: Call<Key, SchemaOutput<Q>, undefined>, request: Request, response: Response): Promise<void>
}

/**
 * A route that answers an agent's question with a decision. The schema `body` is only documentation, because `ask`
 * reads the body itself.
 */
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

/** A route without its type parameters, for mounting and for the OpenAPI document. */
export type Route = Described & {
  readonly key: RouteKey
  readonly query?: z.ZodObject
  readonly body?: z.ZodType
  readonly bodyLimit?: number
  /** Maximum number of values in a body. The default is 100,000. */
  readonly bodyValues?: number
  /**
   * Must be true if the handler waits for work outside this thread. The request then holds no place in its
   * organization's share (request-shares.ts) while the handler runs.
   */
  readonly waits?: true
  ask?(question: Question, request: Request): Promise<Answer>
  receive?(call: Call, request: Request, entry: Entry): Promise<Received>
  handle?(call: Call): Promise<Answer>
  head?(call: Call, response: Response): Promise<void>
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
