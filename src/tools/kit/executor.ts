import type { z } from 'zod'
import type { catalog, ToolName } from '../index.ts'
import type { Connectable, CredentialOf } from '../integrations.ts'
import { faultOf, type Fault } from '../../contract/tool-faults.ts'
import type { LinkedAccount, MemoryWrite, SealedMemory } from '../../contract/tool-services.ts'
import type { Reader } from '../../policy/audience.ts'
import type { Json, JsonObject, Label } from '../../policy/types.ts'
import type { Bounds, Fetch } from '../../shared/outgoing/outgoing.ts'
import type { TokenPrice } from '../../shared/model-prices.ts'
import type { OwnService, Precondition, ToolDeclaration } from './tool.ts'

/** One decided call, as the policy interceptor passes it to a tool's body. */
export interface ToolCall<Params> {
  /**
   * The parameters after the tool's schema has validated them. Templates are resolved, `me` is replaced by an address,
   * and defaults are filled in.
   */
  readonly params: Params
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  /** Is null for a step without `for_each`. */
  readonly itemIndex: number | null
  readonly requester: { readonly userId: string }
  /** A key made from run, step and item. It is the same for all attempts of this call. */
  readonly idempotencyKey: string
  /** The input labels that the call had when it was decided. */
  readonly labels: readonly Label[]
  /**
   * The revision of the thing that the call changes, as the approvers saw it. Is null if the call needed no approval,
   * or if the thing could not be read. A tool acts only on this revision. But if `check` of the tool's precondition is
   * `before`, `requireRevision` compares the revision, and the tool does not.
   */
  readonly revision: string | null
}

/** The part of a call that decides which connection the call uses. */
export type Calling = Pick<ToolCall<unknown>, 'organizationId' | 'requester'>

/** The part of a context that is enough to read. */
export type ReadContext = Pick<ToolContext, 'signal' | 'tools'>

/** Services that a tool's body may use. */
export interface ToolContext {
  readonly signal: AbortSignal
  /**
   * Commits that bytes may leave from now on (commit point `effect.sent`). A `findable` or `unsafe` tool awaits this
   * function right before its effect. Throws if the call may not act any more, for example because the run was
   * cancelled. Then nothing may be sent. `isKeyed` is true if the connection's service knows the call by a key. Such a
   * call can be sent again.
   */
  pointOfNoReturn(isKeyed?: boolean): Promise<void>
  /**
   * Adds `most` to the organization's spend of the month (commit point `effect.spend`). `most` is the highest possible
   * cost of the next request. A tool that costs money awaits this function before it spends. The outcome later replaces
   * `most` by the real cost. Throws ToolError `quota_exceeded` if the month's spend would exceed its limit. Then
   * nothing may be spent.
   */
  reserve(most: number): Promise<void>
  readonly tools: ToolServices
}

/** The configured services and settings that tools use. */
export interface ToolServices {
  /**
   * Returns the connection of one call to its service. Each call reads the connection anew. Throws:
   * - OtherAccount if an earlier attempt may have acted with another account.
   * - StateChanged if the approvers of the call saw another connection.
   * - ToolError `tool_not_available` if there is no connection, and `connection_expired` if the connection has expired.
   * - A retryable ToolError, such as `secrets_unavailable`, if the credential is not available now. No byte has left
   *   then.
   */
  connection<Name extends Connectable>(
    call: Calling,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name>>
  /**
   * Does the same as `connection`, but returns null if neither the requester nor the organization has connected the
   * integration.
   */
  connectionIfAny<Name extends Connectable>(
    call: Calling,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name> | null>
  /** Returns the price of a language model. Returns null if the operator has set no price for the model. */
  priceOf(model: { readonly provider: string; readonly model: string }): TokenPrice | null
  /** Returns the Slack account of the person who runs the workflow. Returns null if no account is linked. */
  slackAccount(call: Calling): Promise<LinkedAccount | null>
  readonly fileRoot: string
  readonly smtpUrl: string | null
  readonly mailFrom: string
  readonly memory: {
    get(organizationId: string, key: string): Promise<{ value: Json; labels: readonly Label[] } | null>
    /**
     * Returns a stored value as JSON text, with the labels and the revision of its key. `text` is null if the key has
     * no stored value. `text` is also null if the value cannot be opened, and then `isBroken` is true.
     */
    state(
      organizationId: string,
      key: string,
    ): Promise<{ text: string | null; isBroken: boolean; labels: readonly Label[]; revision: string }>
    /** Seals the JSON text of a value for its row. Returns the columns that store it. */
    seal(organizationId: string, key: string, text: string): Promise<SealedMemory>
  }
}

/** A connection as one call uses it. */
export interface ServiceConnection<Name extends Connectable> {
  readonly credential: CredentialOf<Name>
  /**
   * Contains the id of the connection and the address of the connection's service. So `name` also identifies the
   * account, because the credential of a connection belongs to one account.
   */
  readonly name: string
  /** The name that the service gives the account. Is null if the service names no account. */
  readonly account: string | null
  /** The address of the service's API, without a slash at its end. */
  readonly base: string
  /** Headers that carry the credential. */
  readonly headers: Readonly<Record<string, string>>
  /** A `fetch` that goes only to the addresses of this connection. */
  fetchWithin(bounds: Omit<Bounds, 'addresses' | 'reserve'>): Fetch
  /**
   * Call this immediately before you send a request that has an effect. Throws if another attempt may have made the
   * call meanwhile. In this case, do not send the request.
   */
  requireFresh(): void
  /**
   * Call this if an answer refuses the credential. Marks the connection as expired. If the service has only ended an
   * access token early, drops this token instead. Returns the error of the call.
   */
  expired(): Promise<ToolError>
}

export interface ToolResult<Output = Json> {
  readonly output: Output
  /**
   * The labels of the output, in addition to the labels that the tool declares. Example: the labels of a value in the
   * memory.
   */
  readonly labels?: readonly Label[]
  /** The value that a `transactional` tool stores in the memory, in the transaction that commits the outcome. */
  readonly stores?: MemoryWrite
  /** The cost of the call in currency units. It is at most the reserved cost, and replaces the reserved cost. */
  readonly cost?: number
}

export type Executor<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
) => Promise<ToolResult<Output>>

/** The present state of the thing that a call changes. */
export interface State {
  /** A text that differs after each change of the thing. */
  readonly revision: string
  /** The values that approvers see besides the parameters. */
  readonly fields?: Readonly<Record<string, unknown>>
  /** The present text, and the text after the call. */
  readonly diff?: { readonly before: string | null; readonly after: string }
  /** Tells approvers which part cannot be shown, and why. */
  readonly note?: string
}

/**
 * Reads the thing that a call of a tool with a precondition would change. Changes nothing. Throws ToolError if the
 * thing cannot be read.
 */
export type StateReader<Params> = (call: ToolCall<Params>, context: ReadContext) => Promise<State>

/**
 * Returns who can read the document or folder that a call writes to. Leaves out the account that makes the call.
 * Changes nothing. Throws ToolError if the service does not tell who can read the document or folder.
 */
export type AudienceReader<Params> = (
  call: ToolCall<Params>,
  context: ReadContext,
) => Promise<readonly Reader[]>

/**
 * A tool throws this error if something has changed since the approvers of the call saw it. The call would change or
 * use this thing. The tool knows that nothing was done.
 */
export class StateChanged extends Error {
  override readonly name = 'StateChanged'
  /**
   * Words for the changed thing, as a part of a sentence. Is null if the changed thing is the one that the tool's
   * precondition names.
   */
  readonly what: string | null
  constructor(what: string | null = null) {
    super(`${what ?? 'what the call changes'} has changed`)
    this.what = what
  }
}

/**
 * Tells a finder when an earlier attempt may have made the call. For a `findable` tool, the finder looks for the call.
 * If the service knows the call by a key, the finder sends the call again. Such a service makes the call at most once.
 */
export interface Look {
  /** Seconds since the earlier attempt's point of no return, by the database's clock. */
  readonly sentSecondsAgo: number
}

/**
 * The result of a finder:
 * - `done`: the call was made. `output` is the output of the call.
 * - `absent`: the thing that the call makes is not there now. The tool's `findableAfterSeconds` says until when the
 *   thing can still appear.
 * - `unclear`: the service shows too little to tell whether the call was made.
 */
export type Found<Output = Json> =
  | { readonly kind: 'done'; readonly output: Output }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unclear' }

/**
 * A finder looks for a call of a `findable` tool, or sends a call again with its key. While a finder looks for a call,
 * the finder changes nothing. There is one exception. If only a part of the call was made, the finder may complete the
 * call with requests that can be repeated. Throws ToolError if the finder could not look.
 */
export type Finder<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
  look: Look,
) => Promise<Found<Output>>

/** A tool's parameters after its schema has parsed them. */
export type ToolParams<Name extends ToolName> = ParamsOf<(typeof catalog)[Name]>
/** The body of a tool. It gets the parsed parameters, and returns the output that the tool's declaration describes. */
export type ToolBody<Name extends ToolName> = Executor<ToolParams<Name>, OutputOf<(typeof catalog)[Name]>>
export type FinderOf<Name extends ToolName> = Finder<ToolParams<Name>, OutputOf<(typeof catalog)[Name]>>
export type StateReaderOf<Name extends ToolName> = StateReader<ToolParams<Name>>
export type AudienceReaderOf<Name extends ToolName> = AudienceReader<ToolParams<Name>>

type ParamsOf<Tool extends ToolDeclaration> = z.output<Tool['params']>
type OutputOf<Tool extends ToolDeclaration> = z.output<Tool['output']>

/** The functions of each tool of a service. Each `run.ts` exports them as `run`. */
export type Bodies<Tools extends Readonly<Record<string, ToolDeclaration>>> = {
  [Name in keyof Tools]: { body: Executor<ParamsOf<Tools[Name]>, OutputOf<Tools[Name]>> } & If<
    Tools[Name],
    // A service that knows its calls by a key needs a finder too.
    { repeat: 'findable' } | { ownService: OwnService },
    { find: Finder<ParamsOf<Tools[Name]>, OutputOf<Tools[Name]>> }
  > &
    If<Tools[Name], { precondition: Precondition }, { state: StateReader<ParamsOf<Tools[Name]>> }> &
    If<Tools[Name], LimitsReaders, { audience: AudienceReader<ParamsOf<Tools[Name]>> }>
}
type If<Tool, Declared, Functions> = Tool extends Declared ? Functions : unknown
/** A tool whose policies can limit who can read the place that a call writes to. */
interface LimitsReaders {
  constraints: { allowed_domains: { readonly [param: string]: 'audience' } }
}

/** The functions of some tool. */
export interface SomeBodies {
  body: Executor<never>
  find?: Finder<never>
  state?: StateReader<never>
  audience?: AudienceReader<never>
}

/**
 * A tool's refusal or failure. The message says what to change and never contains a secret or a parameter's value.
 * `detail` may contain parameters' values. So it is stored sealed, and shown only to people who may see the parameters.
 */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  /** Says who caused the error, according to the error's code. Is null if the code is unknown. */
  readonly fault: Fault | null
  /** Whether the same call could succeed later. The call is retried only if this is true. The default is false. */
  readonly retryable: boolean
  /** Seconds that the service asks to wait before a retry. Is null if the service names no time. */
  readonly retryAfterSeconds: number | null
  /** The cost of the failed call, in currency units. It replaces the reserved cost. */
  readonly cost: number
  /** This field is private, so that no logger writes it. */
  readonly #detail: JsonObject | undefined
  constructor(
    code: string,
    message: string,
    options: {
      retryable?: boolean
      retryAfterSeconds?: number | null
      cost?: number
      cause?: unknown
      detail?: JsonObject
    } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.fault = faultOf(code)
    this.retryable = options.retryable ?? false
    this.retryAfterSeconds = options.retryAfterSeconds ?? null
    this.cost = options.cost ?? 0
    this.#detail = options.detail
  }

  /** Returns the same error for a call that has cost this much. */
  withCost(cost: number): ToolError {
    const { retryable, retryAfterSeconds, cause } = this
    const detail = this.#detail === undefined ? {} : { detail: this.#detail }
    return new ToolError(this.code, this.message, { retryable, retryAfterSeconds, cost, cause, ...detail })
  }

  get detail(): JsonObject | undefined {
    return this.#detail
  }
}

/** Returns the error for a parameter that the tool cannot use. The message says what to write. */
export const invalidParams = (message: string): ToolError => new ToolError('invalid_params', message)

/**
 * Thrown if an earlier attempt may have acted with an account that this attempt does not have. So a person must decide
 * the outcome.
 */
export class OtherAccount extends Error {
  override readonly name = 'OtherAccount'
}

/**
 * Thrown if bytes have left, and no answer tells the outcome. The call is looked for or sent again if possible.
 * Otherwise a person decides.
 */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
