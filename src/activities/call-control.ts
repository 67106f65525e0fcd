import type { Context as ActivityContext } from '@temporalio/activity'
import { parseParams } from '../contract/tool-params.ts'
import type { EffectState } from '../contract/status.ts'
import { approvedRevision } from '../governance/approvals/approved-state.ts'
import { decideAgain } from '../governance/runs/effects/decide-again.ts'
import type { StepOp } from '../governance/runs/effects/step-op.ts'
import { callOf, type StepVerdict, type Unseen } from '../governance/runs/effects/effect.ts'
import {
  markSent,
  recordOutcomes,
  recordWithWrite,
  type Outdated,
  type OutcomeOp,
} from '../governance/runs/effects/outcome.ts'
import { unionLabels, type JsonObject } from '../policy/types.ts'
import { logFields } from './log-fields.ts'
import { isOutage, raceWithLimit } from './patience.ts'
import { isCancelled, isShutdown } from './cancellation.ts'
import { ActingAccount, disconnected } from './acting-account.ts'
import { failed, refusalOfSize, unknownOutcome, type Ended } from './ended.ts'
import { retryLater, retryOf } from './retry.ts'
import type { DecidedAhead } from './decided-ahead.ts'
import { issueDecidedCall, type DecidedCall } from './decided-call.ts'
import { type CallInHand, askSeeing, readPresent, seenNow, toolCallOf } from './seen-state.ts'
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
} from './tools/executor.ts'
import { createToolServices } from './tools/services.ts'

export interface Attempt extends CallInHand {
  readonly activity: ActivityContext
  /** The decision that allows the call, with the number of the attempt. */
  readonly verdict: Allowed
  /** Where a call that follows this one waits for its activity. */
  readonly ahead: DecidedAhead
}

type Allowed = Extract<StepVerdict, { go: true }>
type Refused = Exclude<Extract<StepVerdict, { go: false }>, Unseen>

/** The call was decided again before it acted, and was refused; or what it changes is not as its approvers saw it. */
type Stopped = { readonly refused: Refused } | { readonly hasChanged: true }

/** Controls one body: time limit, cancellation and point of no return. */
export class Control {
  readonly #attempt: Attempt
  readonly #spend: Spend
  #verdict: Allowed
  #isSent = false
  #sentAt = 0
  /** The service knows the call by a key, so that it can be sent again. */
  #isKeyed = false
  #isSuperseded = false
  #refused: Refused | null = null
  /** What the call changes must have this revision; null: any. */
  #revision: string | null = null
  readonly #account: ActingAccount

  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#spend = new Spend(attempt)
    this.#verdict = attempt.verdict
    this.#account = new ActingAccount(attempt.verdict.sentWith)
  }

  /** The number of the present attempt. Deciding again increases it. */
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
    if (look === null && approvalId !== null && tool.precondition !== undefined)
      this.#revision = await approvedRevision(context, approvalId)
    const seconds = spec.step.timeout_seconds ?? tool.timeoutSeconds
    const limit = AbortSignal.timeout(seconds * 1_000)
    const signal = AbortSignal.any([limit, activity.cancellationSignal])
    const make = (until: AbortSignal, found: Look | null) => body(this.#issued(parsed.params, until, found))
    if (look !== null) return this.#look(() => make(signal, look), limit, look.sentSecondsAgo)
    try {
      return this.#completed(
        (await raceWithLimit(make(signal, null), limit, () => this.#isSent)) as ToolResult,
      )
    } catch (error) {
      const ended = this.#ended(error, limit, seconds)
      return ended === 'lost' ? await this.#lost(make) : ended
    }
  }

  #issued(params: JsonObject, signal: AbortSignal, look: Look | null): DecidedCall {
    const { context } = this.#attempt
    const actAs = (account: string): void => this.#account.take(account, look !== null)
    const services = {
      signal,
      pointOfNoReturn: (isKeyed?: boolean) => this.#pointOfNoReturn(isKeyed === true),
      reserve: (most: number) => this.#spend.reserve(this.attempt, most),
      tools: createToolServices(context, actAs),
    }
    return issueDecidedCall(toolCallOf(this.#attempt, params, this.#revision), services, look)
  }

  /** Ends an attempt that looks for what an earlier one may have made, or sends the call again with its key. */
  async #look(find: () => Promise<unknown>, limit: AbortSignal, ago: number): Promise<Ended | Stopped> {
    const { activity, tool } = this.#attempt
    const patience = patienceWith(tool, this.#isKeyed)
    // The service may have forgotten the key, and would make the call once more.
    if (this.#isKeyed && ago > patience.most) return unknownOutcome
    let looked: Looked
    try {
      looked = readFound((await raceWithLimit(find(), limit, () => false)) as Found, patience, ago)
    } catch (error) {
      if (this.#refused !== null) return { refused: this.#refused }
      if (isCancelled(activity) && isShutdown(activity)) throw error
      if (isOutage(error)) throw error
      looked = readLookError(limit.aborted ? tookTooLong(tool) : error, patience, ago)
    }
    this.logState(`the call was looked for: ${looked.kind}`)
    // The call that was found has happened, so its output is kept at any size.
    this.#isSent = true
    if (looked.kind === 'done') return this.#completed({ output: looked.output })
    if (looked.kind === 'absent') return this.#toolError(notMade())
    if (looked.kind === 'unknown' || isCancelled(activity)) return unknownOutcome
    throw retryLater(this.#attempt, looked.seconds)
  }

  /** Bytes have left, and no answer tells the outcome. The next attempt looks for a findable call, or sends a keyed one again. */
  async #lost(find: (signal: AbortSignal, look: Look) => Promise<unknown>): Promise<Ended> {
    const { activity, tool } = this.#attempt
    if (tool.repeat !== 'findable' && !this.#isKeyed) return unknownOutcome
    if (!isCancelled(activity) || isShutdown(activity)) throw retryLater(this.#attempt)
    // Sending it again could make the call of a cancelled run.
    if (this.#isKeyed) return unknownOutcome
    const found = await lookOnce(find, this.#sentAt)
    this.logState('the cancelled call was looked for')
    return found === null ? unknownOutcome : this.#completed(found)
  }

  async #pointOfNoReturn(isKeyed: boolean): Promise<void> {
    const { context, op, tool } = this.#attempt
    await this.#compare()
    const asked = performance.now()
    for (;;) {
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
    // A process that was stopped meanwhile must not send what another attempt has looked for already.
    const mayBeMadeElsewhere = tool.repeat === 'findable' || this.#isKeyed
    if (mayBeMadeElsewhere && performance.now() - asked > longestMarkMilliseconds)
      throw new ToolError('stalled', 'the worker was too slow: nothing was sent', { retryable: true })
    this.logState('the call is sent')
  }

  /** For a service that takes no revision with the write. */
  async #compare(): Promise<void> {
    const { activity, tool } = this.#attempt
    if (this.#revision === null || tool.precondition?.check !== 'before') return
    const { revision } = await readPresent(this.#attempt, activity.cancellationSignal)
    if (revision !== this.#revision) throw new StateChanged()
  }

  /** The states that no audit entry tells. */
  logState(message: string): void {
    const { context } = this.#attempt
    context.log.debug({ ...logFields(this.#attempt), attempt: this.attempt }, message)
  }

  /**
   * Decides again with the present rules and roles. null: the call may act, as the next attempt. This ends at the
   * latest when the call has used up its attempts.
   */
  async decideAgain(): Promise<Refused | 'superseded' | null> {
    return this.#decided(this.#attempt.op)
  }

  /** The same after what the call changes has changed. null: nothing holds the call now. */
  async holdAgain(): Promise<Refused | 'superseded' | null> {
    const seen = await seenNow(this.#attempt, this.#attempt.activity.cancellationSignal)
    return this.#decided({ ...this.#attempt.op, seen, hasChanged: true })
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
    // The body runs without the revision of another approval, so another attempt must make the call.
    const isOther = verdict.approvalId !== null && verdict.approvalId !== this.#verdict.approvalId
    if (isOther && tool.precondition !== undefined) return 'superseded'
    this.#verdict = verdict
    return null
  }

  /** Saves an outcome. The write of a transactional tool is saved with it, unless the call must be decided again first. */
  save(op: OutcomeOp, commit: ToolResult['commit']): Promise<EffectState | 'changed' | Outdated> {
    const { context, spec } = this.#attempt
    if (commit === undefined) return context.combiner.join(spec.run.organizationId, recordOutcomes, op)
    return recordWithWrite(context, spec.run.organizationId, op, this.#verdict.basis, commit)
  }

  #completed(result: ToolResult): Ended {
    const { tool, op } = this.#attempt
    const output = JSON.stringify(result.output ?? null)
    const refusal = this.#isSent ? null : refusalOfSize(output)
    if (refusal !== null) return refusal
    const labels = unionLabels(tool.outputLabels, result.labels ?? [])
    const cost = this.#spend.correction(result.cost)
    const completed = { state: 'completed', output, labels, call: callOf(op), cost } as const
    return { result: completed, commit: result.commit }
  }

  /**
   * Converts a thrown error to an outcome; `lost`: bytes have left. A timeout or cancellation after that counts like
   * the death of the process.
   */
  #ended(error: unknown, limit: AbortSignal, seconds: number): Ended | Stopped | 'lost' {
    const { activity, context, tool } = this.#attempt
    if (this.#refused !== null) return { refused: this.#refused }
    if (error instanceof StateChanged) return { hasChanged: true }
    if (error instanceof OutcomeUnknown) return 'lost'
    // Only an earlier attempt may have acted.
    if (error instanceof OtherAccount && !this.#isSent) return unknownOutcome
    // A tool that knows that nothing was done throws ToolError, even after its point of no return (e.g. a server's
    // refusal).
    if (error instanceof ToolError && this.#isSent) return this.#toolError(error)
    if (this.#isSent) return 'lost'
    if (this.#isSuperseded || this.#spend.isSuperseded || isCancelled(activity)) {
      if (isShutdown(activity)) throw error
      return { result: { state: tool.repeat === 'keyed' ? 'unknown_outcome' : 'cancelled' } }
    }
    if (error instanceof ToolError) return this.#toolError(error)
    // A keyed call has no point of no return, so its progress is unknown. It is made again with its key.
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
        error: { code: error.code, message: error.message },
        detail: error.detail,
        cost: this.#spend.correction(error.cost),
      },
      retryAfterSeconds: error.retryAfterSeconds,
    }
  }
}

/** Longest time from asking for the point of no return until a findable call is sent. */
const longestMarkMilliseconds = 10_000
