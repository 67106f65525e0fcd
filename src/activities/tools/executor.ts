import type { Connectable, CredentialOf } from '../../catalog/integrations/index.ts'
import type { ToolName } from '../../catalog/index.ts'
import { faultOf, type Fault } from '../../contract/tool-faults.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { LinkedAccount } from '../../governance/people/slack-accounts.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import type { Outdated, OwnWrite } from '../../governance/runs/effects/outcome.ts'
import type { Reader } from '../../policy/audience.ts'
import type { Json, JsonObject, Label } from '../../policy/types.ts'
import type { Bounds, Fetch } from '../../shared/outgoing/outgoing.ts'
import type { PricedModel, TokenPrice } from '../../shared/model-prices.ts'

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
  /** null for a step without `for_each`. */
  readonly itemIndex: number | null
  readonly requester: { readonly userId: string }
  /** A key made from run, step and item. It is the same for all attempts of this call. */
  readonly idempotencyKey: string
  /** The input labels that the call had when it was decided. */
  readonly labels: readonly Label[]
  /**
   * The revision that the approvers saw of the thing that the call changes. null: the call needed no approval, or
   * the thing could not be read. A tool acts only on this revision, unless its precondition's `check` is `before`.
   */
  readonly revision: string | null
}

/** Services that a tool's body may use. */
export interface ToolContext {
  readonly signal: AbortSignal
  /**
   * Commits that bytes may leave from now on (commit point `effect.sent`). A `findable` or `unsafe` tool awaits this
   * right before its effect. Throws if the attempt was superseded or the run was cancelled; then nothing may be sent.
   * `isKeyed`: the service of the connection knows the call by a key, so the call can be sent again.
   */
  pointOfNoReturn(isKeyed?: boolean): Promise<void>
  /**
   * Adds `most`, the highest possible cost of the next request, to the organization's spend of the month (commit point
   * `effect.spend`). A tool that costs money awaits this before it spends. The outcome later replaces `most` by the
   * real cost. Throws ToolError `quota_exceeded` if the month's spend would exceed its limit; then nothing may be
   * spent.
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
   * - A retryable ToolError, such as `secrets_unavailable`, if the credential cannot be had now. No byte has left then.
   */
  connection<Name extends Connectable>(
    call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name>>
  /**
   * Does the same as `connection`, but returns null if neither the requester nor the organization has connected the
   * integration.
   */
  connectionIfAny<Name extends Connectable>(
    call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name> | null>
  /** The price of a language model; null: the operator has set no price for it. */
  priceOf(model: PricedModel): TokenPrice | null
  /** The Slack account of the person who runs the workflow; null: none is linked. */
  slackAccount(call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>): Promise<LinkedAccount | null>
  readonly fileRoot: string
  readonly smtpUrl: string | null
  readonly mailFrom: string
  readonly memory: {
    get(organizationId: string, key: string): Promise<{ value: Json; labels: readonly Label[] } | null>
    /**
     * Returns the JSON text of a stored value. `text` is null if the key has no stored value, or if the value cannot be
     * opened (`isBroken`).
     */
    state(
      organizationId: string,
      key: string,
    ): Promise<{ text: string | null; isBroken: boolean; labels: readonly Label[]; revision: string }>
    /** Seals the JSON text of a value for its row. */
    seal(organizationId: string, key: string, text: string): Promise<Buffer>
  }
}

/** A connection as one call uses it. */
export interface ServiceConnection<Name extends Connectable> {
  readonly credential: CredentialOf<Name>
  /**
   * The id of the connection and the address of its service. This name also stands for the account, because the
   * credential of a connection belongs to one account.
   */
  readonly name: string
  /** The name that the service gives the account; null if it gives none. */
  readonly account: string | null
  /** The address of the service's API, without a slash at its end. */
  readonly base: string
  /** Headers that carry the credential. */
  readonly headers: Readonly<Record<string, string>>
  /** A `fetch` that goes only to the addresses of this connection. */
  fetchWithin(bounds: Omit<Bounds, 'addresses' | 'reserve'>): Fetch
  /**
   * A request with an effect calls this right before its bytes leave. Throws if another attempt may have made the call
   * meanwhile; then nothing may be sent.
   */
  requireFresh(): void
  /**
   * Call this if an answer refuses the credential. Marks the connection as expired, or drops an access token that ended
   * early. Returns the error of the call.
   */
  expired(): Promise<ToolError>
}

export interface ToolResult<Output = Json> {
  readonly output: Output
  /** Labels of this value, in addition to the labels that the tool declares (e.g. the labels of a memory value). */
  readonly labels?: readonly Label[]
  /**
   * Performs the write of a `transactional` tool in the transaction that commits the outcome. Returns null after the
   * write. If the write would exceed a limit, writes nothing and returns the limit or an error. Returns `outdated` if
   * the present revision is not the one that the approvers of the call saw.
   */
  readonly commit?: (write: OwnWrite) => Promise<Exceeded | StepError | Outdated | null>
  /** Cost of the call in currency units, at most the reserved cost. It replaces the reserved cost. */
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
  /** Values that approvers see besides the parameters. */
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
export type StateReader<Params> = (
  call: ToolCall<Params>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
) => Promise<State>

/**
 * Returns who can read the place that a call writes to, besides the account that makes the call. Changes nothing.
 * Throws ToolError if the service does not tell who can read the place.
 */
export type AudienceReader<Params> = (
  call: ToolCall<Params>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
) => Promise<readonly Reader[]>

/**
 * A thing that the call changes or uses is no longer as the approvers of the call saw it. The tool knows that nothing
 * was done.
 */
export class StateChanged extends Error {
  override readonly name = 'StateChanged'
  /** Names the changed thing in a sentence; null: the thing that the tool's precondition names. */
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
 * - `done`: the call was made. `output` is its output.
 * - `absent`: the thing that the call makes is not there now. The tool's `findableAfterSeconds` says until when the
 *   thing can still appear.
 * - `unclear`: the service shows too little to decide between the two.
 */
export type Found<Output = Json> =
  | { readonly kind: 'done'; readonly output: Output }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unclear' }

/**
 * Looks for a call of a `findable` tool, or sends a call again with its key. A look changes nothing, with one
 * exception: if only a part of the call was made, it may complete the call with requests that can be repeated. Throws
 * ToolError if it could not look.
 */
export type Finder<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
  look: Look,
) => Promise<Found<Output>>

/**
 * A tool's refusal or failure. The message says what to change and never contains a secret or a parameter's value.
 * `detail` may contain parameters' values. So it is stored sealed, and shown only to people who may see the parameters.
 */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  /** Names who caused the error. The error's code decides this. It is null if the code is unknown. */
  readonly fault: Fault | null
  /** Whether the same call could succeed later. The call is retried only if this is true. */
  readonly retryable: boolean
  /** Seconds that the service asks to wait before a retry; null: it does not say. */
  readonly retryAfterSeconds: number | null
  /** The cost of the failed call, in currency units. It replaces the reserved cost. */
  readonly cost: number
  /** Private, so that no logger writes it. */
  readonly #detail: JsonObject | undefined
  constructor(
    code: string,
    message: string,
    options: {
      retryable: boolean
      retryAfterSeconds?: number | null
      cost?: number
      cause?: unknown
      detail?: JsonObject
    },
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.fault = faultOf(code)
    this.retryable = options.retryable
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

/** The error of a call with a parameter that its tool cannot use. The message says what to write. */
export const invalidParams = (message: string): ToolError =>
  new ToolError('invalid_params', message, { retryable: false })

/**
 * An earlier attempt may have acted with an account that this attempt does not have. So a person must decide the
 * outcome.
 */
export class OtherAccount extends Error {
  override readonly name = 'OtherAccount'
}

/**
 * Bytes have left, and no answer tells the outcome. The call is looked for or sent again if possible; otherwise a
 * person decides.
 */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
