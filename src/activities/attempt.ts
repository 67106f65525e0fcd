import { ApplicationFailure } from '@temporalio/common'
import { failureTypes, type StepDone } from '../contract/messages.ts'
import type { EffectState } from '../contract/status.ts'
import { markSent, recordOutcomes, recordWithWrite, reserveCost, noteBody } from '../calls/runs/outcome.ts'
import { type Outdated, storeOfCall } from '../governance/tools/memory.ts'
import { errorBinding, outputBinding } from '../governance/sealing/bindings.ts'
import { sealText } from '../governance/sealing/sealer.ts'
import { answer, retryLater, retryOf } from './answers.ts'
import {
  changedBy,
  Approved,
  coversMore,
  requireAudience,
  askSeeing,
  requireRevision,
  seenNow,
  toolCallOf,
} from './seen-state.ts'
import { type Attempt, followUpOf, type FollowUp } from './decided-ahead.ts'
import { throughOutages, isOutage, raceWithLimit, isCancelled, isShutdown } from './patience.ts'
import {
  type ToolResult,
  OtherAccount,
  OutcomeUnknown,
  StateChanged,
  ToolError,
  type Found,
  type Look,
  type ToolCall,
  type ToolContext,
  type SomeBodies,
} from '../tools/kit/executor.ts'
import { stepError } from '../contract/tool-faults.ts'
import { parseParams } from '../contract/tool-params.ts'
import { decideAgain } from '../calls/runs/effect.ts'
import {
  callOf,
  type Allowed,
  type CallOutcome,
  type Refused,
  type ResolvedCall,
} from '../calls/runs/call.ts'
import { mailHostOf } from '../governance/tools/connections.ts'
import { unionLabels, type JsonObject } from '../policy/types.ts'
import { presentMoment, type Moment } from '../shared/moment.ts'
import { ActingAccount, disconnected, Leaving } from './leaving.ts'
import {
  lookOnce,
  notMade,
  patienceWith,
  readFound,
  readLookError,
  tookTooLong,
  type Looked,
} from './look.ts'
import { createToolServices } from './tool-services.ts'
import { quotaExceeded } from '../governance/limits/run-quota.ts'
import { isTooLarge, mostHeapBytes, mostValues } from '../shared/json-size.ts'
import { catalog } from '../tools/index.ts'
import { ownActivities } from '../steps/index.ts'
import { bodiesOf } from '../tools/bodies.ts'

export async function runAttempt(
  attempt: Attempt,
  body: (call: IssuedCall) => Promise<unknown>,
): Promise<StepDone> {
  const startedAt = Date.now()
  const control = new Control(attempt)
  control.logState('the call starts')
  const ended = await control.run(body)
  // The call was decided again before it acted, and the new decision is already recorded.
  if ('refused' in ended) return answer(ended.refused, attempt.activity)
  if ('changed' in ended) return heldAgain(attempt, control, ended.changed)
  const result = await sealed(attempt, ended.result)
  const follow = 'output' in ended.result ? await followUpOf(attempt, result, ended.result.output) : null
  const outcome = (): CallOutcome => ({
    key: attempt.call.key,
    attempt: control.attempt,
    result,
    durationMs: Date.now() - startedAt,
    bodiless: !control.hasBegun,
  })
  for (;;) {
    const state = await save(control, outcome(), ended.stores, follow)
    if (state === 'changed') {
      const refused = await control.decideAgain()
      if (refused === null) continue
      return refused === 'superseded' ? conclude(attempt, 'intent') : answer(refused, attempt.activity)
    }
    if (state === 'outdated') return heldAgain(attempt, control, changedBy(attempt.call.tool))
    if (state === 'retry') throw retryLater(attempt, ended.retryAfterSeconds)
    if (state === 'completed' && ended.result.state === 'completed') return { outcome: 'completed' }
    return conclude(attempt, state)
  }
}

/** Decides again about a call that has done nothing yet, because its approval is outdated (`changed`). */
async function heldAgain(attempt: Attempt, control: Control, changed: string): Promise<StepDone> {
  control.logState(`${changed} has changed since it was approved`)
  const refused = await throughOutages(() => control.holdAgain(changed))
  if (refused === 'superseded') return conclude(attempt, 'intent')
  // No rule requires an approval any more, so the next attempt makes the call.
  if (refused === null) throw retryLater(attempt)
  return answer(refused, attempt.activity)
}

/** Reads the call's row, because another attempt may have continued the call meanwhile. */
function conclude({ activity }: Attempt, state: EffectState): StepDone {
  if (state === 'held' || state === 'intent' || state === 'sent' || state === 'retry')
    throw ApplicationFailure.create({ message: 'the attempt was superseded', type: failureTypes.unavailable })
  if (state === 'unknown_outcome') return answer({ go: false, state }, activity)
  return answer({ go: false, state, reason: state }, activity)
}

/** Tries again while the database cannot be reached, because otherwise the outcome would become unknown. */
function save(
  control: Control,
  op: CallOutcome,
  stores: ToolResult['stores'],
  follow: FollowUp | null,
): Promise<EffectState | 'changed' | Outdated> {
  return throughOutages(async () => {
    const [state] = await Promise.all([control.save(op, stores), follow?.()])
    return state
  })
}

/** Runs before the outcome is saved, so that no lock is held while values are sealed. */
async function sealed(
  { context, call: { key } }: Attempt,
  result: Ended['result'],
): Promise<CallOutcome['result']> {
  if ('error' in result) {
    const { detail, ...failed } = result
    if (detail === undefined) return failed
    const seal = () => sealText(context.sealer, errorBinding(key), JSON.stringify(detail))
    return { ...failed, errorDetail: await throughOutages(seal) }
  }
  if (result.state !== 'completed') return result
  const { output } = result
  return {
    ...result,
    output: await throughOutages(() => sealText(context.sealer, outputBinding(key), output)),
  }
}

class Control {
  readonly #attempt: Attempt
  #decision: Allowed
  #isSent = false
  #sentAt = 0
  readonly #leaving = new Leaving()
  /** Whether the service knows the call by a key, so that the call can be sent again. */
  #isKeyed = false
  #isSuperseded = false
  #refused: Refused | null = null
  #approved = new Approved()
  readonly #account: ActingAccount
  /** Reserved in the organization's spend of the month, in currency units. */
  #reserved = 0
  /** False if the attempt only looked for the effect of an earlier one. */
  hasBegun = false

  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#decision = attempt.decision
    this.#account = new ActingAccount(attempt.decision.sentWith)
  }

  /** Each new decision increases this number. */
  get attempt(): number {
    return this.#decision.attempt
  }

  async run(body: (call: IssuedCall) => Promise<unknown>): Promise<Ended | Stopped> {
    const { activity, call, context } = this.#attempt
    const { tool } = call
    const parsed =
      call.parsed === undefined ? parseParams(tool, call.params) : { ok: true as const, params: call.parsed }
    if (!parsed.ok) return failed('invalid_params', parsed.issues.map((issue) => issue.message).join('; '))
    const { sentSecondsAgo, sentWith, approvalId } = this.#decision
    const look = sentSecondsAgo === null ? null : { sentSecondsAgo }
    this.#isKeyed = look !== null && sentWith !== null && tool.repeat !== 'findable'
    this.#approved = await Approved.read(context, tool, look === null ? approvalId : null)
    const seconds = call.step.timeout_seconds ?? tool.timeoutSeconds
    const limit = AbortSignal.timeout(seconds * 1_000)
    const signal = AbortSignal.any([limit, activity.cancellationSignal])
    const make = (until: AbortSignal, found: Look | null) => body(this.#issued(parsed.params, until, found))
    if (look !== null) return this.#look(() => make(signal, look), limit, look.sentSecondsAgo)
    const ended = await this.#counted(async () => {
      try {
        const made = await raceWithLimit(make(signal, null), limit, () => this.#isSent)
        return this.#completed(made as ToolResult)
      } catch (error) {
        return this.#ended(error, limit, seconds)
      }
    })
    return ended === 'lost' ? this.#lost(make) : ended
  }

  #issued(params: JsonObject, signal: AbortSignal, look: Look | null): IssuedCall {
    const { context } = this.#attempt
    const actAs = (account: string | null): void => {
      this.#approved.requireConnection(account)
      if (look === null) this.#requireDestination(account)
      if (account !== null) this.#account.take(account, look !== null)
    }
    const services = {
      signal,
      pointOfNoReturn: (isKeyed?: boolean) => this.#pointOfNoReturn(isKeyed === true),
      reserve: (most: number) => this.#reserve(most),
      tools: createToolServices(context, actAs, () => this.#leaving.requireFresh()),
    }
    return issueCall(toolCallOf(this.#attempt.call, params, this.#approved.revision), services, look)
  }

  /** Throws StateChanged for another host than the decided one. `account` is null for the mail server. */
  #requireDestination(account: string | null): void {
    const { context } = this.#attempt
    const { smtpUrl } = context.config.tools
    const address = account?.split(' ')[1]
    const own = smtpUrl === null ? null : mailHostOf(smtpUrl)
    const host = address === undefined ? own : new URL(address).host
    if (host !== (this.#decision.to?.destination ?? null))
      throw new StateChanged('the host to which the call goes')
  }

  /**
   * `find` looks for the call, or sends it again. `ago` is in seconds since the earlier point of no return.
   */
  async #look(find: () => Promise<unknown>, limit: AbortSignal, ago: number): Promise<Ended | Stopped> {
    const { activity, call } = this.#attempt
    const { tool } = call
    const patience = patienceWith(tool, this.#isKeyed)
    // The service may have forgotten the key. Then a second request would make the call a second time.
    if (this.#isKeyed && ago > patience.most) return unknownOutcome
    let looked: Looked
    try {
      looked = readFound((await raceWithLimit(find(), limit, () => false)) as Found, patience, ago)
    } catch (error) {
      if (this.#refused !== null) return { refused: this.#refused }
      if (isShutdown(activity)) throw error
      if (isOutage(error)) throw error
      looked = readLookError(limit.aborted ? tookTooLong(tool) : error, patience, ago)
    }
    this.logState(`the call was looked for: ${looked.kind}`)
    // A call that was found has happened. With `#isSent`, `#completed` accepts an output of any size.
    this.#isSent = true
    if (looked.kind === 'done') return this.#completed({ output: looked.output })
    if (looked.kind === 'absent') return this.#toolError(notMade())
    if (looked.kind === 'unknown' || isCancelled(activity)) return unknownOutcome
    throw retryLater(this.#attempt, looked.seconds)
  }

  /**
   * The request was sent and got no answer. The next attempt looks for a `findable` call, or repeats a call
   * with a key. The outcome of all other calls is unknown.
   */
  async #lost(find: (signal: AbortSignal, look: Look) => Promise<unknown>): Promise<Ended> {
    const { activity, call } = this.#attempt
    const { tool } = call
    if (tool.repeat !== 'findable' && !this.#isKeyed) return unknownOutcome
    if (!isCancelled(activity) || isShutdown(activity)) throw retryLater(this.#attempt)
    // The run is cancelled, and a second request could carry out the call now.
    if (this.#isKeyed) return unknownOutcome
    const found = await lookOnce(find, this.#sentAt)
    this.logState('the cancelled call was looked for')
    return found === null ? unknownOutcome : this.#completed(found)
  }

  async #pointOfNoReturn(isKeyed: boolean): Promise<void> {
    const { activity, context, call } = this.#attempt
    const signal = activity.cancellationSignal
    await requireRevision(context, call, signal, this.#approved.revision)
    let asked: Moment
    for (;;) {
      await requireAudience(context, call, signal, this.#decision.audience)
      asked = presentMoment()
      const answered = await markSent(
        context,
        call.key,
        this.attempt,
        this.#decision.basis,
        this.#account.name,
      )
      if (answered === 'yes') break
      if (answered === 'disconnected') throw disconnected()
      const refused = answered === 'superseded' ? answered : await this.decideAgain()
      if (refused === null) continue
      if (refused === 'superseded') this.#isSuperseded = true
      else this.#refused = refused
      const message = 'the call was taken over, cancelled or refused before it was sent'
      throw new ToolError('superseded', message, { retryable: true })
    }
    this.#isSent = true
    this.#isKeyed = isKeyed
    this.#sentAt = performance.now()
    this.#leaving.begin(asked, call.tool.repeat === 'findable' || isKeyed)
    this.logState('the call is sent')
  }

  logState(message: string): void {
    const { context } = this.#attempt
    context.log.debug({ ...logFields(this.#attempt.call), attempt: this.attempt }, message)
  }

  /**
   * Returns `superseded` if this attempt may not act. A loop ends, because each decision uses up an attempt.
   */
  async decideAgain(): Promise<Refused | 'superseded' | null> {
    return this.#decided(this.#attempt.call)
  }

  /** Something that the approvers saw has changed. Returns null if no rule requires an approval any more. */
  async holdAgain(changed: string): Promise<Refused | 'superseded' | null> {
    const { activity, call, context } = this.#attempt
    const seen = await seenNow(context, call, activity.cancellationSignal)
    return this.#decided({ ...call, seen, changed })
  }

  async #decided(call: ResolvedCall): Promise<Refused | 'superseded' | null> {
    const { activity, context } = this.#attempt
    const decision = await askSeeing(context, call, activity.cancellationSignal, (asked) =>
      context.combiner.join(call.run.organizationId, decideAgain, {
        key: call.key,
        call: asked,
        attempt: this.attempt,
      }),
    )
    if (decision === null) return 'superseded'
    if (!decision.go) return decision
    // The people who gave this other approval may have seen a state that this attempt has not read.
    const isOther = decision.approvalId !== null && decision.approvalId !== this.#decision.approvalId
    if (isOther && coversMore(call.tool)) return 'superseded'
    // The attempt may already hold the connection to the former host. So a new attempt must make the call.
    if (decision.to?.destination !== this.#decision.to?.destination) return 'superseded'
    this.#decision = decision
    return null
  }

  /** Also saves the write of a transactional tool. Saves nothing if it returns `changed`. */
  save(outcome: CallOutcome, stores: ToolResult['stores']): Promise<EffectState | 'changed' | Outdated> {
    const { context, call } = this.#attempt
    if (stores === undefined) return context.combiner.join(call.run.organizationId, recordOutcomes, outcome)
    return recordWithWrite(context, call.run.organizationId, outcome, this.#decision.basis, (tx) =>
      storeOfCall(tx, stores),
    )
  }

  /** The number of the attempt is a fence: only the newest attempt may spend. */
  async #reserve(most: number): Promise<void> {
    if (most === 0) return
    const { context, call } = this.#attempt
    const ask = { key: call.key, attempt: this.attempt, tool: call.tool.name, most }
    const answer = await reserveCost(context, call.run.organizationId, ask)
    if (answer === 'reserved') {
      this.#reserved += most
      return
    }
    if (answer === 'superseded') {
      this.#isSuperseded = true
      const message = 'the call was taken over or cancelled before it spent anything'
      throw new ToolError('superseded', message, { retryable: true })
    }
    const { code, message } = quotaExceeded(answer)
    throw new ToolError(code, message)
  }

  /** Makes the month count the real `cost`. Negative if the call cost less than was reserved. */
  #correction(cost = 0): number {
    return cost - this.#reserved
  }

  /**
   * Runs the body and counts it, if no other statement of the attempt counts it soon. Reads that are not
   * quick are counted at once, and so is a body that throws, because it saves no outcome. Does not wait for
   * the database, and ignores its errors.
   */
  async #counted<Result>(body: () => Promise<Result>): Promise<Result> {
    const { activity, call, context, decision } = this.#attempt
    this.hasBegun = true
    const count = () => void noteBody(context, call.key, decision.attempt).catch(() => {})
    const isSlow = call.tool.repeat === 'free' && !activity.info.isLocal
    const timer = setTimeout(count, isSlow ? 0 : longBody)
    try {
      return await body()
    } catch (error) {
      count()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  #completed(result: ToolResult): Ended {
    const { call } = this.#attempt
    const output = JSON.stringify(result.output ?? null)
    const refusal = this.#isSent ? null : refusalOfSize(output)
    if (refusal !== null) return refusal
    const labels = unionLabels(call.tool.outputLabels, result.labels ?? [])
    const cost = this.#correction(result.cost)
    const completed = {
      state: 'completed',
      output,
      labels,
      call: callOf(call, this.#decision.to),
      cost,
    } as const
    return { result: completed, stores: result.stores }
  }

  /** Returns `lost` if bytes have left and the outcome is unknown, e.g. after a timeout or a cancellation. */
  #ended(error: unknown, limit: AbortSignal, seconds: number): Ended | Stopped | 'lost' {
    const { activity, context, call } = this.#attempt
    const { tool } = call
    if (this.#refused !== null) return { refused: this.#refused }
    if (error instanceof StateChanged) return { changed: error.what ?? changedBy(tool) }
    if (error instanceof OutcomeUnknown) return 'lost'
    // This attempt has sent nothing, but an earlier attempt may have acted with another account.
    if (error instanceof OtherAccount && !this.#isSent) return unknownOutcome
    // A tool throws ToolError only if it knows that nothing was done, even after its point of no return.
    if (error instanceof ToolError && this.#isSent) return this.#toolError(error)
    if (this.#isSent) return 'lost'
    if (this.#isSuperseded || isCancelled(activity)) {
      if (isShutdown(activity)) throw error
      return { result: { state: tool.repeat === 'keyed' ? 'unknown_outcome' : 'cancelled' } }
    }
    if (error instanceof ToolError) return this.#toolError(error)
    // A `keyed` tool has no point of no return. The next attempt makes the call again with the same key.
    if (limit.aborted && tool.repeat === 'keyed') throw retryLater(this.#attempt)
    if (limit.aborted)
      return this.#toolError(
        new ToolError('timeout', `\`${tool.name}\` took longer than ${seconds} s`, {
          retryable: true,
          cost: this.#reserved,
        }),
      )
    if (isOutage(error)) throw error
    context.log.error({ err: error, ...logFields(this.#attempt.call) }, 'a tool crashed')
    if (tool.repeat === 'keyed') return unknownOutcome
    return failed('tool_crashed', `\`${tool.name}\` failed unexpectedly`)
  }

  #toolError(error: ToolError): Ended {
    const { attempts } = retryOf(this.#attempt)
    const again = error.retryable && this.#attempt.decision.failures + 1 < attempts
    return {
      result: {
        state: again ? 'retry' : 'failed',
        error: stepError(error, error.retryable),
        detail: error.detail,
        cost: this.#correction(error.cost),
      },
      retryAfterSeconds: error.retryAfterSeconds,
    }
  }
}

const logFields = ({ run, key, tool }: ResolvedCall) => ({
  organization_id: run.organizationId,
  request_id: run.requestId ?? undefined,
  run_id: run.id,
  step_id: key.stepId,
  ...(key.itemIndex < 0 ? {} : { item_index: key.itemIndex }),
  tool: tool.name,
})

/**
 * In milliseconds. A longer body is counted before it ends. A shorter one costs one statement less, but if
 * its worker dies, nobody learns of it.
 */
const longBody = 250

type Completed = Extract<CallOutcome['result'], { state: 'completed' }>
type Failed = Extract<CallOutcome['result'], { state: 'failed' | 'retry' }>

/** The attempt has not acted. `changed` names what has changed since the approvers of the call saw it. */
type Stopped = { readonly refused: Refused } | { readonly changed: string }

interface Ended {
  /** Not sealed yet, so `output` is JSON text. */
  readonly result:
    | Extract<CallOutcome['result'], { state: 'cancelled' | 'unknown_outcome' }>
    | (Omit<Failed, 'errorDetail'> & { readonly detail?: JsonObject | undefined })
    | (Omit<Completed, 'output'> & { readonly output: string })
  readonly stores?: ToolResult['stores']
  /** This is what the service asks for. It is used only if the failed call is tried again. */
  readonly retryAfterSeconds?: number | null
}

const failed = (code: string, message: string): Ended => ({
  result: { state: 'failed', error: stepError({ code, message }) },
})

const unknownOutcome: Ended = { result: { state: 'unknown_outcome' } }

/** This is in characters of JSON text. The text goes to PostgreSQL, and never to Temporal. */
export const maxOutputLength = 32 * 1024 * 1024
const tooLarge = `the output has more than ${mostValues} values, or takes more than ${mostHeapBytes / 1024 / 1024} MiB in memory`

export function refusalOfSize(output: string): Ended | null {
  if (output.length > maxOutputLength)
    return failed('output_too_large', `the output is larger than ${maxOutputLength / 1024 / 1024} MiB`)
  return isTooLarge(output) ? failed('output_too_large', tooLarge) : null
}

const issued = new WeakSet<object>()

/** Proves that the policy interceptor has decided this call. */
export interface IssuedCall {
  readonly call: ToolCall<unknown>
  readonly context: ToolContext
  /**
   * Null if the body must make the call. Otherwise the tool's finder looks for it, or repeats it with its
   * key.
   */
  readonly look: Look | null
}

export function issueCall(call: ToolCall<unknown>, context: ToolContext, look: Look | null): IssuedCall {
  const decided = Object.freeze({ call, context, look })
  issued.add(decided)
  return decided
}

/** Tools run only with a value of `issueCall`, so a worker without the policy interceptor can run no tool. */
export function isIssuedCall(value: unknown): value is IssuedCall {
  return typeof value === 'object' && value !== null && issued.has(value)
}

type Body = (decided: unknown) => Promise<ToolResult | Found>

const notDecided = (): ApplicationFailure =>
  ApplicationFailure.nonRetryable('the call was not decided by a rule', failureTypes.refused)

/** Steps that call no tool have an activity without a body: the policy interceptor runs them itself. */
export function createToolActivities(): Record<string, Body> {
  const ofKinds = ownActivities.map((name): [string, Body] => [name, () => Promise.reject(notDecided())])
  return Object.fromEntries([
    ...ofKinds,
    ...Object.keys(catalog).map((name): [string, Body] => [
      name,
      async (decided) => {
        if (!isIssuedCall(decided)) throw notDecided()
        const { context, look } = decided
        const call = decided.call as ToolCall<never>
        const { body, find } = (await bodiesOf(name)) as SomeBodies
        if (look === null) return body(call, context)
        if (find !== undefined) return find(call, context, look)
        throw ApplicationFailure.nonRetryable(`\`${name}\` cannot look for a call`, failureTypes.refused)
      },
    ]),
  ])
}
