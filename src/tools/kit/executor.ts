import type { z } from 'zod'
import type { catalog, Connectable, CredentialOf, ToolName } from '../index.ts'
import { faultOf, type Fault } from '../../contract/tool-faults.ts'
import type { LinkedAccount, MemoryWrite, SealedMemory } from '../../contract/tool-services.ts'
import type { Reader } from '../../policy/audience.ts'
import type { Json, JsonObject, Label } from '../../policy/types.ts'
import type { Bounds, Fetch } from '../../shared/outgoing/outgoing.ts'
import type { TokenPrice } from '../../shared/model-prices.ts'
import type { OwnService, Precondition, ToolDeclaration } from './tool.ts'

export interface ToolCall<Params> {
  /** Validated. Templates are resolved, `me` is replaced by an address, and defaults are filled in. */
  readonly params: Params
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  /** Is null for a step without `for_each`. */
  readonly itemIndex: number | null
  readonly requester: { readonly userId: string }
  /** From run, step and item. It is the same for all attempts of this call. */
  readonly idempotencyKey: string
  /** The input labels that the call had when it was decided. */
  readonly labels: readonly Label[]
  /**
   * As the approvers saw it; null without approval, or if it could not be read. A tool acts only on this
   * revision. But with `check: before`, `requireRevision` compares it, and the tool does not.
   */
  readonly revision: string | null
}

/** The part of a call that decides which connection the call uses. */
export type Calling = Pick<ToolCall<unknown>, 'organizationId' | 'requester'>

export type ReadContext = Pick<ToolContext, 'signal' | 'tools'>

export interface ToolContext {
  readonly signal: AbortSignal
  /**
   * Commit point `effect.sent`: bytes may leave from now on. A `findable` or `unsafe` tool awaits this right
   * before its effect. Throws if the call may not act any more; then nothing may be sent. `isKeyed`: the
   * service knows the call by a key, so it can be sent again.
   */
  pointOfNoReturn(isKeyed?: boolean): Promise<void>
  /**
   * Commit point `effect.spend`, awaited before money is spent. `most` is the highest cost of the next
   * request; the outcome replaces it. Throws ToolError `quota_exceeded`; then nothing may be spent.
   */
  reserve(most: number): Promise<void>
  readonly tools: ToolServices
}

export interface ToolServices {
  /**
   * Each call reads the connection anew. Throws OtherAccount if an earlier attempt may have acted with
   * another account, StateChanged if the approvers saw another connection, ToolError `tool_not_available` or
   * `connection_expired`, and a retryable ToolError if the credential is not available now. No byte has left
   * then.
   */
  connection<Name extends Connectable>(
    call: Calling,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name>>
  /** Like `connection`, but null if neither the requester nor the organization has connected it. */
  connectionIfAny<Name extends Connectable>(
    call: Calling,
    tool: ToolName,
    integration: Name,
  ): Promise<ServiceConnection<Name> | null>
  /** Null if the operator has set no price for the model. */
  priceOf(model: { readonly provider: string; readonly model: string }): TokenPrice | null
  /** The account of the person who runs the workflow; null if none is linked. */
  slackAccount(call: Calling): Promise<LinkedAccount | null>
  readonly fileRoot: string
  readonly smtpUrl: string | null
  readonly mailFrom: string
  readonly memory: {
    get(organizationId: string, key: string): Promise<{ value: Json; labels: readonly Label[] } | null>
    /** JSON text. `text` is null without a value, and also if it cannot be opened (`isBroken`). */
    state(
      organizationId: string,
      key: string,
    ): Promise<{ text: string | null; isBroken: boolean; labels: readonly Label[]; revision: string }>
    seal(organizationId: string, key: string, text: string): Promise<SealedMemory>
  }
}

export interface ServiceConnection<Name extends Connectable> {
  readonly credential: CredentialOf<Name>
  /** Also identifies the account: it has the connection's id, and a credential belongs to one account. */
  readonly name: string
  /** Is null if the service names no account. */
  readonly account: string | null
  /** Without a slash at its end. */
  readonly base: string
  /** They carry the credential. */
  readonly headers: Readonly<Record<string, string>>
  /** Goes only to the addresses of this connection. */
  fetchWithin(bounds: Omit<Bounds, 'addresses' | 'reserve'>): Fetch
  /** Right before a request with an effect. Throws if another attempt may have acted: then do not send. */
  requireFresh(): void
  /** For a refused credential. Marks the connection as expired, or drops a token that ended early. */
  expired(): Promise<ToolError>
}

export interface ToolResult<Output = Json> {
  readonly output: Output
  /** In addition to those that the tool declares, e.g. the labels of a value in the memory. */
  readonly labels?: readonly Label[]
  /** For a `transactional` tool, stored in the transaction that commits the outcome. */
  readonly stores?: MemoryWrite
  /** In currency units. It is at most the reserved cost, which it replaces. */
  readonly cost?: number
}

export type Executor<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
) => Promise<ToolResult<Output>>

export interface State {
  /** Differs after each change of the thing. */
  readonly revision: string
  /** Approvers see them besides the parameters. */
  readonly fields?: Readonly<Record<string, unknown>>
  /** The present text, and the text after the call. */
  readonly diff?: { readonly before: string | null; readonly after: string }
  /** Tells approvers which part cannot be shown, and why. */
  readonly note?: string
}

/** Changes nothing. Throws ToolError if the thing cannot be read. */
export type StateReader<Params> = (call: ToolCall<Params>, context: ReadContext) => Promise<State>

/** Without the account of the call. Changes nothing. Throws ToolError if the service does not tell. */
export type AudienceReader<Params> = (
  call: ToolCall<Params>,
  context: ReadContext,
) => Promise<readonly Reader[]>

/** What the call would change or use is not as its approvers saw it. Nothing was done. */
export class StateChanged extends Error {
  override readonly name = 'StateChanged'
  /** A part of a sentence. Is null if it is the thing that the tool's precondition names. */
  readonly what: string | null
  constructor(what: string | null = null) {
    super(`${what ?? 'what the call changes'} has changed`)
    this.what = what
  }
}

/** A `findable` call is looked for. A keyed call is sent again, and the service makes it at most once. */
export interface Look {
  /** Since the earlier attempt's point of no return, by the database's clock. */
  readonly sentSecondsAgo: number
}

/** `absent`: may still appear until `findableAfterSeconds`. `unclear`: the service shows too little. */
export type Found<Output = Json> =
  | { readonly kind: 'done'; readonly output: Output }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unclear' }

/**
 * Looks for a `findable` call, or sends a keyed call again. Looking changes nothing, but a call of which only
 * a part was made may be completed with repeatable requests. Throws ToolError if it could not look.
 */
export type Finder<Params, Output = Json> = (
  call: ToolCall<Params>,
  context: ToolContext,
  look: Look,
) => Promise<Found<Output>>

export type ToolParams<Name extends ToolName> = ParamsOf<(typeof catalog)[Name]>
export type ToolBody<Name extends ToolName> = Executor<ToolParams<Name>, OutputOf<(typeof catalog)[Name]>>
export type FinderOf<Name extends ToolName> = Finder<ToolParams<Name>, OutputOf<(typeof catalog)[Name]>>
export type StateReaderOf<Name extends ToolName> = StateReader<ToolParams<Name>>
export type AudienceReaderOf<Name extends ToolName> = AudienceReader<ToolParams<Name>>

type ParamsOf<Tool extends ToolDeclaration> = z.output<Tool['params']>
type OutputOf<Tool extends ToolDeclaration> = z.output<Tool['output']>

/** Each `run.ts` exports them as `run`. */
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
interface LimitsReaders {
  constraints: { allowed_domains: { readonly [param: string]: 'audience' } }
}

export interface SomeBodies {
  body: Executor<never>
  find?: Finder<never>
  state?: StateReader<never>
  audience?: AudienceReader<never>
}

/** The message has no secret and no parameter's value. `detail` may have values, so it is stored sealed. */
export class ToolError extends Error {
  override readonly name = 'ToolError'
  readonly code: string
  /** From the error's code. Is null if the code is unknown. */
  readonly fault: Fault | null
  /** The call is retried only if this is true. The default is false. */
  readonly retryable: boolean
  /** Is null if the service names no time. */
  readonly retryAfterSeconds: number | null
  /** In currency units. It replaces the reserved cost. */
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

  withCost(cost: number): ToolError {
    const { retryable, retryAfterSeconds, cause } = this
    const detail = this.#detail === undefined ? {} : { detail: this.#detail }
    return new ToolError(this.code, this.message, { retryable, retryAfterSeconds, cost, cause, ...detail })
  }

  get detail(): JsonObject | undefined {
    return this.#detail
  }
}

/** The message says what to write. */
export const invalidParams = (message: string): ToolError => new ToolError('invalid_params', message)

/** An earlier attempt may have acted with an account that this one does not have. A person must decide. */
export class OtherAccount extends Error {
  override readonly name = 'OtherAccount'
}

/** Bytes have left, and no answer came. The call is found or sent again if possible, or a person decides. */
export class OutcomeUnknown extends Error {
  override readonly name = 'OutcomeUnknown'
}
