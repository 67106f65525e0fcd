import { stepError } from '../contract/tool-faults.ts'
import { parseParams } from '../contract/tool-params.ts'
import type { EffectState } from '../contract/status.ts'
import { storeOfCall, type Outdated } from '../governance/tools/memory.ts'
import { decideAgain } from '../calls/runs/decide-again.ts'
import type { StepOp } from '../calls/runs/step-op.ts'
import { callOf } from '../calls/runs/decide-call.ts'
import { markSent, recordOutcomes, recordWithWrite, type OutcomeOp } from '../calls/runs/outcome.ts'
import { mailHostOf } from '../governance/tools/connections.ts'
import { unionLabels, type JsonObject } from '../policy/types.ts'
import { presentMoment, type Moment } from '../shared/moment.ts'
import { logFields } from './log-fields.ts'
import { isOutage, raceWithLimit } from './patience.ts'
import { isCancelled, isShutdown } from './cancellation.ts'
import { ActingAccount, disconnected } from './acting-account.ts'
import { BodyCount } from './body-count.ts'
import { Approved, changedBy, coversMore } from './approved.ts'
import type { Allowed, Attempt, Refused, Stopped } from './call-attempt.ts'
import { failed, refusalOfSize, unknownOutcome, type Ended } from './ended.ts'
import { retryLater, retryOf } from './retry.ts'
import { Leaving } from './leaving.ts'
import { issueDecidedCall, type DecidedCall } from './decided-call.ts'
import { requireAudience } from './audience.ts'
import { askSeeing, requireRevision, seenNow, toolCallOf } from './seen-state.ts'
import {
  lookOnce,
  notMade,
  patienceWith,
  readFound,
  readLookError,
  tookTooLong,
  type Looked,
} from './look.ts'
import { Spend } from './spend.ts'
import {
  OtherAccount,
  OutcomeUnknown,
  StateChanged,
  ToolError,
  type Found,
  type Look,
  type ToolResult,
} from '../tools/kit/executor.ts'
import { createToolServices } from './tool-services.ts'

/** Controls the body of one attempt: its time limit, its cancellation and its point of no return. */
export class Control {
  readonly #attempt: Attempt
  readonly #spend: Spend
  #verdict: Allowed
  #isSent = false
  #sentAt = 0
  readonly #leaving = new Leaving()
  /** Whether the service knows the call by a key, so that the call can be sent again. */
  #isKeyed = false
  #isSuperseded = false
  #refused: Refused | null = null
  #approved = new Approved()
  readonly #account: ActingAccount
  readonly body: BodyCount

  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#spend = new Spend(attempt)
    this.body = new BodyCount(attempt)
    this.#verdict = attempt.verdict
    this.#account = new ActingAccount(attempt.verdict.sentWith)
  }

  /** The number of the present attempt. Each new decision increases this number. */
  get attempt(): number {
    return this.#verdict.attempt
  }

  async run(body: (call: DecidedCall) => Promise<unknown>): Promise<Ended | Stopped> {
    const { activity, spec, tool, op, context } = this.#attempt
    const parsed =
      op.parsed === undefined ? parseParams(tool, op.params) : { ok: true as const, params: op.parsed }
    if (!parsed.ok) return failed('invalid_params', parsed.issues.map((issue) => issue.message).join('; '))
    const { sentSecondsAgo, sentWith, approvalId } = this.#verdict
    const look = sentSecondsAgo === null ? null : { sentSecondsAgo }
    this.#isKeyed = look !== null && sentWith !== null && tool.repeat !== 'findable'
    this.#approved = await Approved.read(context, tool, look === null ? approvalId : null)
    const seconds = spec.step.timeout_seconds ?? tool.timeoutSeconds
    const limit = AbortSignal.timeout(seconds * 1_000)
    const signal = AbortSignal.any([limit, activity.cancellationSignal])
    const make = (until: AbortSignal, found: Look | null) => body(this.#issued(parsed.params, until, found))
    if (look !== null) return this.#look(() => make(signal, look), limit, look.sentSecondsAgo)
    const ended = await this.body.during(async () => {
      try {
        const made = await raceWithLimit(make(signal, null), limit, () => this.#isSent)
        return this.#completed(made as ToolResult)
      } catch (error) {
        return this.#ended(error, limit, seconds)
      }
    })
    return ended === 'lost' ? this.#lost(make) : ended
  }

  #issued(params: JsonObject, signal: AbortSignal, look: Look | null): DecidedCall {
    const { context } = this.#attempt
    const actAs = (account: string | null): void => {
      this.#approved.requireConnection(account)
      if (look === null) this.#requireDestination(account)
      if (account !== null) this.#account.take(account, look !== null)
    }
    const services = {
      signal,
      pointOfNoReturn: (isKeyed?: boolean) => this.#pointOfNoReturn(isKeyed === true),
      reserve: (most: number) => this.#spend.reserve(this.attempt, most),
      tools: createToolServices(context, actAs, () => this.#leaving.requireFresh()),
    }
    return issueDecidedCall(toolCallOf(this.#attempt, params, this.#approved.revision), services, look)
  }

  /**
   * Throws StateChanged if the call would now go to another host than the one that was decided. `account` is the name of
   * the connection; null for the mail server of the installation.
   */
  #requireDestination(account: string | null): void {
    const { context } = this.#attempt
    const { smtpUrl } = context.config.tools
    const address = account?.split(' ')[1]
    const own = smtpUrl === null ? null : mailHostOf(smtpUrl)
    const host = address === undefined ? own : new URL(address).host
    if (host !== (this.#verdict.to?.destination ?? null))
      throw new StateChanged('the host to which the call goes')
  }

  /**
   * Runs an attempt for a call that an earlier attempt may have made. `find` looks for the call, or sends the call
   * again with its key. `ago` is the number of seconds since the earlier attempt's point of no return.
   */
  async #look(find: () => Promise<unknown>, limit: AbortSignal, ago: number): Promise<Ended | Stopped> {
    const { activity, tool } = this.#attempt
    const patience = patienceWith(tool, this.#isKeyed)
    // The service may have forgotten the key by now. Then a second request would make the call a second time.
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
    // A call that was found has happened, so its output must be accepted. While `#isSent` is true, `#completed` accepts
    // even an output that is too large.
    this.#isSent = true
    if (looked.kind === 'done') return this.#completed({ output: looked.output })
    if (looked.kind === 'absent') return this.#toolError(notMade())
    if (looked.kind === 'unknown' || isCancelled(activity)) return unknownOutcome
    throw retryLater(this.#attempt, looked.seconds)
  }

  /**
   * Ends an attempt that has sent its request and got no answer. The next attempt looks for a `findable` call, or sends
   * the call again if the service knows the call by a key. For all other calls, the outcome is unknown.
   */
  async #lost(find: (signal: AbortSignal, look: Look) => Promise<unknown>): Promise<Ended> {
    const { activity, tool } = this.#attempt
    if (tool.repeat !== 'findable' && !this.#isKeyed) return unknownOutcome
    if (!isCancelled(activity) || isShutdown(activity)) throw retryLater(this.#attempt)
    // The run is cancelled. If the service has not carried out the lost request, a second request would carry out the
    // call now. So no second request is sent.
    if (this.#isKeyed) return unknownOutcome
    const found = await lookOnce(find, this.#sentAt)
    this.logState('the cancelled call was looked for')
    return found === null ? unknownOutcome : this.#completed(found)
  }

  async #pointOfNoReturn(isKeyed: boolean): Promise<void> {
    const { activity, context, op, tool } = this.#attempt
    const signal = activity.cancellationSignal
    await requireRevision(this.#attempt, signal, this.#approved.revision)
    let asked: Moment
    for (;;) {
      await requireAudience(this.#attempt, signal, this.#verdict.audience)
      asked = presentMoment()
      const answered = await markSent(context, op.key, this.attempt, this.#verdict.basis, this.#account.name)
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
    this.#leaving.begin(asked, tool.repeat === 'findable' || isKeyed)
    this.logState('the call is sent')
  }

  /** Logs a state that has no audit entry. */
  logState(message: string): void {
    const { context } = this.#attempt
    context.log.debug({ ...logFields(this.#attempt), attempt: this.attempt }, message)
  }

  /**
   * Decides the call again with the present rules and roles. Returns null if the call may act, and `superseded` if this
   * attempt may not. A loop over this function ends, because each decision uses up one attempt of the call.
   */
  async decideAgain(): Promise<Refused | 'superseded' | null> {
    return this.#decided(this.#attempt.op)
  }

  /**
   * Decides the call again, because something that its approvers saw has changed. New approvers see the present state.
   * Returns null if no rule requires an approval any more.
   */
  async holdAgain(changed: string): Promise<Refused | 'superseded' | null> {
    const seen = await seenNow(this.#attempt, this.#attempt.activity.cancellationSignal)
    return this.#decided({ ...this.#attempt.op, seen, changed })
  }

  async #decided(op: StepOp): Promise<Refused | 'superseded' | null> {
    const { activity, context, spec, tool } = this.#attempt
    const verdict = await askSeeing({ ...this.#attempt, op }, activity.cancellationSignal, (step) =>
      context.combiner.join(spec.run.organizationId, decideAgain, {
        key: op.key,
        step,
        attempt: this.attempt,
      }),
    )
    if (verdict === null) return 'superseded'
    if (!verdict.go) return verdict
    // The call is now allowed by another approval than before. The people who gave this approval may have seen a state
    // that this attempt has not read. So a new attempt must make the call.
    const isOther = verdict.approvalId !== null && verdict.approvalId !== this.#verdict.approvalId
    if (isOther && coversMore(tool)) return 'superseded'
    // The attempt may already hold the connection to the former host. So a new attempt must make the call.
    if (verdict.to?.destination !== this.#verdict.to?.destination) return 'superseded'
    this.#verdict = verdict
    return null
  }

  /**
   * Saves an outcome, together with the write of a transactional tool. If the call must be decided again first, saves
   * nothing and returns `changed`.
   */
  save(op: OutcomeOp, stores: ToolResult['stores']): Promise<EffectState | 'changed' | Outdated> {
    const { context, spec } = this.#attempt
    if (stores === undefined) return context.combiner.join(spec.run.organizationId, recordOutcomes, op)
    return recordWithWrite(context, spec.run.organizationId, op, this.#verdict.basis, (tx) =>
      storeOfCall(tx, stores),
    )
  }

  #completed(result: ToolResult): Ended {
    const { tool, op } = this.#attempt
    const output = JSON.stringify(result.output ?? null)
    const refusal = this.#isSent ? null : refusalOfSize(output)
    if (refusal !== null) return refusal
    const labels = unionLabels(tool.outputLabels, result.labels ?? [])
    const cost = this.#spend.correction(result.cost)
    const completed = {
      state: 'completed',
      output,
      labels,
      call: callOf(op, this.#verdict.to),
      cost,
    } as const
    return { result: completed, stores: result.stores }
  }

  /**
   * Converts a thrown error to an outcome. Returns `lost` if bytes have left and the outcome is unknown, for example
   * after a timeout or a cancellation.
   */
  #ended(error: unknown, limit: AbortSignal, seconds: number): Ended | Stopped | 'lost' {
    const { activity, context, tool } = this.#attempt
    if (this.#refused !== null) return { refused: this.#refused }
    if (error instanceof StateChanged) return { changed: error.what ?? changedBy(tool) }
    if (error instanceof OutcomeUnknown) return 'lost'
    // This attempt has sent nothing, but an earlier attempt may have acted with another account.
    if (error instanceof OtherAccount && !this.#isSent) return unknownOutcome
    // A tool throws ToolError only if it knows that nothing was done. It can know this even after its point of no
    // return, for example if a server has refused the request.
    if (error instanceof ToolError && this.#isSent) return this.#toolError(error)
    if (this.#isSent) return 'lost'
    if (this.#isSuperseded || this.#spend.isSuperseded || isCancelled(activity)) {
      if (isShutdown(activity)) throw error
      return { result: { state: tool.repeat === 'keyed' ? 'unknown_outcome' : 'cancelled' } }
    }
    if (error instanceof ToolError) return this.#toolError(error)
    // A `keyed` tool has no point of no return, so it is unknown whether the call was carried out. The next attempt
    // makes the call again with the same key.
    if (limit.aborted && tool.repeat === 'keyed') throw retryLater(this.#attempt)
    if (limit.aborted)
      return this.#toolError(
        new ToolError('timeout', `\`${tool.name}\` took longer than ${seconds} s`, {
          retryable: true,
          cost: this.#spend.reserved,
        }),
      )
    if (isOutage(error)) throw error
    context.log.error({ err: error, ...logFields(this.#attempt) }, 'a tool crashed')
    if (tool.repeat === 'keyed') return unknownOutcome
    return failed('tool_crashed', `\`${tool.name}\` failed unexpectedly`)
  }

  #toolError(error: ToolError): Ended {
    const { attempts } = retryOf(this.#attempt)
    const again = error.retryable && this.#attempt.verdict.failures + 1 < attempts
    return {
      result: {
        state: again ? 'retry' : 'failed',
        error: stepError(error, error.retryable),
        detail: error.detail,
        cost: this.#spend.correction(error.cost),
      },
      retryAfterSeconds: error.retryAfterSeconds,
    }
  }
}
