import type { Connectable, CredentialOf } from '../../catalog/integrations/index.ts'
import type { ToolName } from '../../catalog/index.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { LinkedAccount } from '../../governance/people/slack-accounts.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import type { Outdated, OwnWrite } from '../../governance/runs/effects/outcome.ts'
import type { Json, JsonObject, Label } from '../../policy/types.ts'
import type { Bounds, Fetch } from '../../shared/outgoing/outgoing.ts'
import type { TokenPrice } from '../../shared/model-prices.ts'

/** One decided call, as the policy interceptor passes it to a tool's body. */
export interface ToolCall<Params> {
  /** Templates resolved, `me` replaced, validated by the tool's schema, defaults filled in. */
  readonly params: Params
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  /** null for a step without `for_each`. */
  readonly itemIndex: number | null
  readonly requester: { readonly userId: string }
  /** The same for all attempts of this call: (run, step, item). */
  readonly idempotencyKey: string
  /** The input labels on which the call was decided. */
  readonly labels: readonly Label[]
  /**
   * The revision of what the call changes, as its approvers saw it. null: nobody had to approve the call, or it could not
   * be read. A tool whose precondition says something else than `before` acts only on this revision.
   */
  readonly revision: string | null
}

/** Services that a tool's body may use. */
export interface ToolContext {
  readonly signal: AbortSignal
  /**
   * Commits that bytes may leave from here on (commit point `effect.sent`). An `unsafe` tool awaits it right before
   * its irreversible act. Throws if the attempt was superseded or the run cancelled; then nothing may be sent.
   * `isKeyed`: the service of the connection knows the call by a key, so that it can be sent again.
   */
  pointOfNoReturn(isKeyed?: boolean): Promise<void>
  /**
   * Counts the highest cost of what follows for the organization's month (commit point `effect.spend`). A tool that costs
   * money awaits it before it spends. The outcome then counts the real cost in its place. Throws ToolError
   * `quota_exceeded` if the month's spend would go over its limit; then nothing may be spent.
   */
  reserve(most: number): Promise<void>
  readonly tools: ToolServices
}

/** The outside world as configured; one per process. */
export interface ToolServices {
  /**
   * The connection of one call to its service, read anew for each call. Throws OtherAccount if an earlier attempt may have
   * acted with another one, and ToolError `tool_not_available` or
   * `connection_expired`, and `secrets_unavailable`, which is retryable: no byte has left.
   */
  connection<Name extends Connectable>(
    call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name>>
  /** The same, or null if neither the requester nor the organization has connected the integration. */
  connectionIfAny<Name extends Connectable>(
    call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name> | null>
  /** What a language model costs; null: the operator has set no price for it. */
  priceOf(provider: string, model: string): TokenPrice | null
  /** The Slack account of the person who runs the workflow; null: none is linked. */
  slackAccount(call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>): Promise<LinkedAccount | null>
  readonly fileRoot: string
  readonly smtpUrl: string | null
  readonly mailFrom: string
  readonly memory: {
    get(organizationId: string, key: string): Promise<{ value: Json; labels: readonly Label[] } | null>
    /** The JSON text of a value; null for an empty key, or for a value that cannot be opened (`isBroken`). */
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
  /** The connection, whose credential belongs to one account, and its service's address. */
  readonly name: string
  /** As the service names it; null if it does not say. */
  readonly account: string | null
  /** The address of the service's API, without a closing slash. */
  readonly base: string
  /** Headers that carry the credential. */
  readonly headers: Readonly<Record<string, string>>
  /** A `fetch` that goes only to the addresses of this connection. */
  fetchWithin(bounds: Omit<Bounds, 'addresses' | 'room'>): Fetch
  /** For an answer that refuses the credential: marks the connection, and returns the error that fails the call. */
  expired(): Promise<ToolError>
}

export interface ToolResult<Output = Json> {
  readonly output: Output
  /** Labels of this value, in addition to those the tool declares (e.g. the labels of a memory value). */
  readonly labels?: readonly Label[]
  /**
   * For `transactional` tools: performs the write in the transaction that commits the outcome. If it would exceed a
   * limit, it writes nothing and returns the limit or an error. `outdated`: the revision is not that of the call.
   */
  readonly commit?: (write: OwnWrite) => Promise<Exceeded | StepError | Outdated | null>
  /** Cost of the call in currency units, at most what was reserved. It takes the place of the reserved cost. */
  readonly cost?: number
}

export type Executor<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
) => Promise<ToolResult<Output>>

/** What a call changes, as it is now. */
export interface State {
  /** Another one after each change. */
  readonly revision: string
  /** What approvers see besides the parameters. */
  readonly fields?: Readonly<Record<string, unknown>>
  /** The present text, and the text after the call. */
  readonly diff?: { readonly before: string | null; readonly after: string }
  /** What cannot be shown, and why. */
  readonly note?: string
}

/** Reads what a call of a tool with a precondition changes; changes nothing. Throws ToolError if it cannot be read. */
export type StateReader<Params> = (
  call: ToolCall<Params>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
) => Promise<State>

/** What the call changes is not what its approvers saw. The tool knows that nothing was done. */
export class StateChanged extends Error {
  override readonly name = 'StateChanged'
}

/**
 * A call of a `findable` tool that is looked for, because an earlier attempt may have made it. A call whose service knows
 * it by a key is sent again instead, which makes it at most once.
 */
export interface Look {
  /** Seconds since that attempt's point of no return, by the database's clock. */
  readonly sentSecondsAgo: number
}

/**
 * - `done`: the call was made; its output.
 * - `absent`: what the call makes is not there now. Whether it can still appear, the tool's `findableAfterSeconds` says.
 * - `unclear`: the service shows too little to tell.
 */
export type Found<Output = Json> =
  | { readonly kind: 'done'; readonly output: Output }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unclear' }

/**
 * Looks for a call of a `findable` tool, or sends one again with its key. It may complete a call that it finds half made, with requests that can be repeated;
 * otherwise it changes nothing. Throws ToolError if it could not look.
 */
export type Finder<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
  look: Look,
) => Promise<Found<Output>>

/**
 * A tool's refusal or failure. The message says what to change and never contains a secret or a parameter's value.
 * `detail` may contain parameters' values: it is sealed, and shown only to people who may see the parameters.
 */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  /** Whether the same call could succeed later. Only then is it retried. */
  readonly retryable: boolean
  /** Seconds that the service asks to wait before a retry; null: it does not say. */
  readonly retryAfterSeconds: number | null
  /** What the failed call cost, in currency units. It takes the place of the reserved cost. */
  readonly cost: number
  /** Private, so that no logger finds it. */
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
    this.retryable = options.retryable
    this.retryAfterSeconds = options.retryAfterSeconds ?? null
    this.cost = options.cost ?? 0
    this.#detail = options.detail
  }

  /** The same error of a call that cost this much. */
  withCost(cost: number): ToolError {
    const { retryable, retryAfterSeconds, cause } = this
    const detail = this.#detail === undefined ? {} : { detail: this.#detail }
    return new ToolError(this.code, this.message, { retryable, retryAfterSeconds, cost, cause, ...detail })
  }

  get detail(): JsonObject | undefined {
    return this.#detail
  }
}

/** An earlier attempt may have acted with another account, which this attempt does not have: a person is asked. */
export class OtherAccount extends Error {
  override readonly name = 'OtherAccount'
}

/** Bytes have left and no answer tells the outcome: the call is looked for or sent again if it can be, else a person decides. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
