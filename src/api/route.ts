import type { Request, Response } from 'express'
import type { z } from 'zod'
import type { Context } from '../governance/context.ts'
import type { Asker } from '../calls/agents/ask.ts'
import type { Entry } from '../governance/limits/shares.ts'
import type { Once } from '../governance/idempotency.ts'
import type { Taken } from '../governance/limits/rates.ts'
import type { Caller, Identity } from '../governance/access/identity.ts'
import type { AuditEventType } from '../contract/audit-events.ts'
import type { Role } from '../policy/types.ts'
import type { Scope } from '../governance/access/scopes.ts'
import type { Example } from './schemas/example.ts'
import type { Inner, Subject } from './subjects.ts'
import type { Auth } from './auth.ts'
import type { SendMail } from '../governance/service-mail.ts'
import type { ResolveTxt } from '../governance/signin/provider.ts'

/** The names in braces: `id` and `version` of `'GET /workflows/{id}/versions/{version}'`. */
type ParamNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParamNames<Rest>
  : never
export type PathParams<Path extends string> = { readonly [Name in ParamNames<Path>]: string }

type SchemaOutput<S> = S extends z.ZodType ? z.output<S> : undefined

/** What a handler gets. Authentication, scope, subject, role and schemas were checked. */
export interface Call<Key extends string = string, Query = unknown, Body = unknown> {
  readonly context: Context
  readonly services: Mounted
  readonly identity: Identity
  /** With the role in the organization that the call is about. */
  readonly caller: Caller
  readonly params: PathParams<Key>
  readonly query: Query
  readonly body: Body
  /** The handler can derive ids from it. */
  readonly idempotencyKey: string | null
  readonly requestId: string
  /** With an `Idempotency-Key`: one transaction makes the change and marks the key as used. */
  readonly once: Once | null
  /** Aborts when the client has disconnected or the server drains. */
  readonly signal: AbortSignal
  /** Gives back the permit (fair-share.ts), before the handler waits for a person or a run. */
  readonly leaveShare: () => void
  /** Checks key or session, scopes, membership and role again, and throws as the first check. */
  readonly callerNow: () => Promise<Caller>
  /** Whether key, scope and role still allow this call, while a long answer is sent. */
  readonly stillAllowed: () => Promise<boolean>
}

/** What a process has besides the database. */
export interface Services {
  readonly temporal: () => Promise<boolean>
  /** Aborts when the server begins to drain. */
  readonly draining: AbortSignal
  readonly mail: SendMail
  /** Default: the name servers of the machine. */
  readonly resolveTxt?: ResolveTxt
  /** Milliseconds between two comments that keep an event stream open; default: 15,000. */
  readonly pingMilliseconds?: number
}

export interface Mounted extends Services {
  readonly auth: Auth
}

export interface Answer {
  readonly status: number
  /** undefined: no body. `JsonParts` are sent as fast as the client reads them. */
  readonly body: unknown
}
export const ok = (body: unknown): Answer => ({ status: 200, body })
export const created = (body: unknown): Answer => ({ status: 201, body })
export const accepted = (body: unknown): Answer => ({ status: 202, body })
export const nothing = (): Answer => ({ status: 204, body: undefined })
export const done = async (work: Promise<unknown>): Promise<Answer> => {
  await work
  return nothing()
}

/** Why a signal has aborted; another reason means that the server drains. */
export const clientGone = new Error('the client has disconnected')

/** An agent asks, whose key and scope were checked. If a later check fails, the answer is a decision, and no error. */
export interface Question {
  readonly context: Context
  readonly asker: Asker
  /** Throws `unauthenticated` or `missing_scope` if the asker's key came from the cache and is no longer valid. */
  readonly confirm: () => Promise<void>
  readonly showRate: (taken: Taken) => void
  /** Aborts when the client has disconnected or the server drains. */
  readonly signal: () => AbortSignal
}

export interface Received {
  readonly body: unknown
  /** Its hash is stored with the `Idempotency-Key`, in place of that of the body. */
  readonly hashed: object
  /** Frees the memory that was reserved for the body, after the handler has ended. */
  release(): void
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type RouteKey = `${Method} /${string}`

/** What a caller needs. */
export interface Needs {
  /** null: every key except an agent's may call it. */
  readonly scope: Scope | null
  /** A key needs these too, because the answer also shows what they protect. */
  readonly further?: readonly Scope[]
  readonly role: Role
  readonly subject: Subject
  /** The session must have been opened with a second factor, even if the organization requires none. */
  readonly factor?: boolean
  /**
   * With the subject `own`, a request that names no organization is about every one in which the caller has the role. A
   * key also needs the role in its own organization (docs/decisions/0246).
   */
  readonly every?: true
}

/** The body by status of a successful answer; null for none. */
export type Responses = Readonly<Record<number, z.ZodType | null>>

interface Described<R extends Responses = Responses> {
  readonly summary: string
  readonly description?: string
  readonly example?: Example | undefined
  readonly responses: R
  readonly contentType?: string
  readonly headers?: readonly 'X-Verifier-Key'[]
}

interface Guarded<R extends Responses> extends Described<R> {
  readonly needs: Needs
  /** The objects inside the subject that the path names, the outer one first. */
  readonly inner?: readonly Inner[]
  /** The entries that a success appends to the audit log, the usual one first. */
  readonly audit?: readonly AuditEventType[]
  /** A POST that ignores `Idempotency-Key`: it changes nothing, or its body has an id of its own. */
  readonly asks?: true
}

type Query = z.ZodObject | undefined
type Body = z.ZodType | undefined

interface JsonRoute<
  Key extends RouteKey,
  Q extends Query,
  B extends Body,
  R extends Responses,
> extends Guarded<R> {
  readonly key: Key
  readonly query?: Q
  readonly body?: B
  /** Bytes; default: `defaultBodyLimit`. */
  readonly bodyLimit?: number
  /** Values in a body; default: 100,000. */
  readonly bodyValues?: number
  /** A body of YAML is read as `definition`. */
  readonly takesYaml?: true
  /**
   * The handler waits for work outside this thread, and holds no permit of its organization (fair-share.ts).
   */
  readonly waits?: true
  /**
   * Reads a `multipart/form-data` body after all other checks; `body` is only documentation. Holds a permit of the
   * organization's share while the form is parsed, but not while it arrives.
   */
  receive?(call: Call, request: Request, entry: Entry): Promise<Received>
  handle(call: Call<Key, SchemaOutput<Q>, SchemaOutput<B>>): Promise<Answer>
}

interface StreamRoute<Key extends RouteKey, Q extends Query, R extends Responses> extends Guarded<R> {
  readonly key: Key
  readonly query?: Q
  /** For a HEAD request, in place of `stream`. Throws what `stream` throws before it writes. */
  head?(call: Call<Key, SchemaOutput<Q>, undefined>, response: Response): Promise<void>
  stream(call: Call<Key, SchemaOutput<Q>, undefined>, request: Request, response: Response): Promise<void>
}

/** Answers an agent's question with a decision. `body` is only documentation, because `ask` reads the body itself. */
interface AskRoute<
  Key extends RouteKey,
  Q extends Query,
  B extends Body,
  R extends Responses,
> extends Guarded<R> {
  readonly key: Key
  readonly query?: Q
  readonly body: B
  ask(question: Question, request: Request): Promise<Answer>
}

interface PublicRoute<Key extends RouteKey, R extends Responses> extends Described<R> {
  readonly key: Key
  readonly query?: z.ZodObject
  open(context: Context, services: Mounted, request: Request, response: Response): Promise<Answer | null>
}

export interface Route extends Described {
  readonly tag: string
  readonly key: RouteKey
  /** null: everybody may call it, without a key. */
  readonly needs: Needs | null
  readonly inner?: readonly Inner[]
  readonly audit?: readonly AuditEventType[]
  readonly asks?: true
  readonly query?: Query
  readonly body?: Body
  readonly bodyLimit?: number
  readonly bodyValues?: number
  readonly takesYaml?: true
  readonly waits?: true
  ask?(question: Question, request: Request): Promise<Answer>
  receive?(call: Call, request: Request, entry: Entry): Promise<Received>
  handle?(call: Call): Promise<Answer>
  head?(call: Call, response: Response): Promise<void>
  stream?(call: Call, request: Request, response: Response): Promise<void>
  open?(context: Context, services: Mounted, request: Request, response: Response): Promise<Answer | null>
}

/** A route that is not public. */
export type GuardedRoute = Route & { readonly needs: Needs }
export const isGuarded = <R extends Route>(route: R): route is R & GuardedRoute => route.needs !== null

export function splitKey(key: string): { method: Method; path: string } {
  const [method, path] = key.split(' ') as [Method, string]
  return { method, path }
}

/** Without an `Idempotency-Key`, a repeated call of such a route would make its change twice. */
export const acts = ({ key, asks }: Pick<Route, 'key' | 'asks'>): boolean =>
  key.startsWith('POST ') && asks !== true

/** A route that keeps the types of its schemas, for those who call it (routes/index.ts). */
export interface Typed<
  Key extends RouteKey,
  Q extends Query,
  B extends Body,
  R extends Responses,
> extends Route {
  readonly key: Key
  readonly query: Q
  readonly body: B
  readonly responses: R
}

interface PublicTyped<Key extends RouteKey, R extends Responses> extends Typed<Key, undefined, undefined, R> {
  readonly needs: null
}

/** The builders of routes with this tag. */
export const tagged = (tag: string) => ({
  route: <
    const Key extends RouteKey,
    R extends Responses,
    Q extends Query = undefined,
    B extends Body = undefined,
  >(
    definition: JsonRoute<Key, Q, B, R>,
  ) => ({ ...definition, tag }) as unknown as Typed<Key, Q, B, R>,
  streamRoute: <const Key extends RouteKey, R extends Responses, Q extends Query = undefined>(
    definition: StreamRoute<Key, Q, R>,
  ) => ({ ...definition, tag }) as unknown as Typed<Key, Q, undefined, R>,
  askRoute: <const Key extends RouteKey, R extends Responses, B extends Body, Q extends Query = undefined>(
    definition: AskRoute<Key, Q, B, R>,
  ) => ({ ...definition, tag }) as unknown as Typed<Key, Q, B, R>,
  publicRoute: <const Key extends RouteKey, R extends Responses>(definition: PublicRoute<Key, R>) =>
    ({ ...definition, tag, needs: null }) as unknown as PublicTyped<Key, R>,
})
