import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { parseParams } from '../contract/definition.ts'
import { failureTypes, type StepDone } from '../contract/messages.ts'
import type { Context } from '../context.ts'
import type { ToolDeclaration } from '../catalog/tool.ts'
import type { EffectState } from '../contract/status.ts'
import { isConnectionError } from '../governance/database-errors.ts'
import { DomainError } from '../governance/errors.ts'
import { isTooLarge, mostHeapBytes, mostValues } from '../governance/json-cost.ts'
import { decideAgain } from '../governance/runs/decide-again.ts'
import { callOf, type StepOp, type StepVerdict } from '../governance/runs/effect.ts'
import type { Frame } from '../governance/runs/frame.ts'
import { effectId } from '../governance/runs/ledger.ts'
import { markSent, recordOutcomes, recordWithWrite, type OutcomeOp } from '../governance/runs/outcome.ts'
import { outputPlace } from '../governance/sealing/places.ts'
import { sealText } from '../governance/sealing/sealer.ts'
import { unionLabels } from '../policy/types.ts'
import { answer } from './answers.ts'
import { raceWithLimit, throughOutages } from './patience.ts'
import { issueDecidedCall, type DecidedCall } from './decided-call.ts'
import { OutcomeUnknown, ToolError, type ToolResult } from './tools/executor.ts'
import { createToolServices } from './tools/services.ts'

export interface Attempt {
  readonly context: Context
  readonly activity: ActivityContext
  readonly frame: Frame
  readonly tool: ToolDeclaration
  readonly op: StepOp
  /** That the call may run, and as which attempt. */
  readonly verdict: Allowed
}

type Allowed = Extract<StepVerdict, { go: true }>
type Refused = Extract<StepVerdict, { go: false }>

/** Most characters of an output's JSON; Temporal never sees it, Postgres and readers do. */
const maxOutputLength = 32 * 1024 * 1024
const tooLargeMessage = `the output has more than ${mostValues} values, or takes more than ${mostHeapBytes / 1024 / 1024} MiB in memory`
/** What a step without `retry` gets. */
const defaultRetry = { attempts: 3, backoff_seconds: 1 }

/** Runs the body of a decided call and records what became of it. */
export async function runAttempt(
  attempt: Attempt,
  body: (call: DecidedCall) => Promise<unknown>,
): Promise<StepDone> {
  const startedAt = Date.now()
  const control = new Control(attempt)
  const ended = await control.run(body)
  // Decided anew before anything was done, and recorded by that.
  if ('refused' in ended) return answer(ended.refused, attempt.activity)
  const result = await sealed(attempt, ended.result)
  const outcome = (): OutcomeOp => ({
    key: attempt.op.key,
    attempt: control.attempt,
    result,
    durationMs: Date.now() - startedAt,
  })
  for (;;) {
    const state = await save(control, outcome(), ended.commit)
    if (state === 'changed') {
      const refused = await control.decideAgain()
      if (refused === null) continue
      return refused === 'superseded' ? conclude(attempt, 'intent') : answer(refused, attempt.activity)
    }
    if (state === 'retry') throw retryLater(attempt)
    if (state === 'completed' && ended.result.state === 'completed') return { outcome: 'completed' }
    return conclude(attempt, state)
  }
}

/** Another attempt may have gone on meanwhile: what stands in the row is what the workflow is told. */
function conclude({ activity }: Attempt, state: EffectState): StepDone {
  if (state === 'held' || state === 'intent' || state === 'sent' || state === 'retry')
    throw ApplicationFailure.create({ message: 'the attempt was superseded', type: failureTypes.unavailable })
  if (state === 'unknown_outcome') return answer({ go: false, state }, activity)
  return answer({ go: false, state, reason: state }, activity)
}

type Completed = Extract<OutcomeOp['result'], { state: 'completed' }>

interface Ended {
  /** Of a completed body with its output's JSON text. */
  readonly result:
    Exclude<OutcomeOp['result'], Completed> | (Omit<Completed, 'output'> & { readonly output: string })
  readonly commit?: ToolResult['commit']
}

/** The call was decided again before it acted, and may not. */
interface Stopped {
  readonly refused: Refused
}

/** The signals around one body: time limit, cancellation, point of no return. */
class Control {
  readonly #attempt: Attempt
  #verdict: Allowed
  #isSent = false
  #isSuperseded = false
  #refused: Refused | null = null

  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#verdict = attempt.verdict
  }

  /** The present attempt's number: deciding again counts one more. */
  get attempt(): number {
    return this.#verdict.attempt
  }

  async run(body: (call: DecidedCall) => Promise<unknown>): Promise<Ended | Stopped> {
    const { activity, frame, tool, op, context } = this.#attempt
    const parsed = parseParams(tool, op.params)
    if (!parsed.ok) return failed('invalid_params', parsed.issues.map((issue) => issue.message).join('; '))
    const seconds = frame.step.timeout_seconds ?? tool.timeoutSeconds
    const limit = AbortSignal.timeout(seconds * 1_000)
    const call = issueDecidedCall(
      {
        params: parsed.params,
        organizationId: frame.run.organizationId,
        runId: frame.run.id,
        stepId: frame.key.stepId,
        itemIndex: frame.key.itemIndex < 0 ? null : frame.key.itemIndex,
        requester: { userId: frame.run.requestedBy },
        idempotencyKey: effectId(frame.key),
        labels: op.labels,
      },
      {
        signal: AbortSignal.any([limit, activity.cancellationSignal]),
        pointOfNoReturn: () => this.#pointOfNoReturn(),
        tools: createToolServices(context),
      },
    )
    try {
      return this.#completed((await raceWithLimit(body(call), limit, () => this.#isSent)) as ToolResult)
    } catch (error) {
      return this.#ended(error, limit, seconds)
    }
  }

  async #pointOfNoReturn(): Promise<void> {
    const { context, op } = this.#attempt
    for (;;) {
      const answered = await markSent(context, op.key, this.attempt, this.#verdict.basis)
      if (answered === 'yes') break
      const refused = answered === 'superseded' ? answered : await this.decideAgain()
      if (refused === null) continue
      if (refused === 'superseded') this.#isSuperseded = true
      else this.#refused = refused
      const message = 'the call was taken over, cancelled or refused before it was sent'
      throw new ToolError('superseded', message, { retryable: true })
    }
    this.#isSent = true
  }

  /**
   * With the rules and roles of now. Null: the call may act, as the next attempt. It ends at the latest when the call has
   * used up its attempts.
   */
  async decideAgain(): Promise<Refused | 'superseded' | null> {
    const { context, frame, op } = this.#attempt
    const again = { key: op.key, step: op, attempt: this.attempt }
    const verdict = await context.combiner.join(frame.run.organizationId, decideAgain, again)
    if (verdict === null) return 'superseded'
    if (!verdict.go) return verdict
    this.#verdict = verdict
    return null
  }

  /** Saves the write of a transactional tool with its outcome, unless the call must be decided again first. */
  recordWithWrite(
    op: OutcomeOp,
    commit: NonNullable<ToolResult['commit']>,
  ): Promise<EffectState | 'changed'> {
    const { context, frame } = this.#attempt
    return recordWithWrite(context, frame.run.organizationId, op, this.#verdict.basis, commit)
  }

  /** Saves an outcome alone. */
  record(op: OutcomeOp): Promise<EffectState> {
    const { context, frame } = this.#attempt
    return context.combiner.join(frame.run.organizationId, recordOutcomes, op)
  }

  #completed(result: ToolResult): Ended {
    const { tool, op } = this.#attempt
    const output = JSON.stringify(result.output ?? null)
    if (output.length > maxOutputLength && !this.#isSent)
      return failed('output_too_large', `the output is larger than ${maxOutputLength / 1024 / 1024} MiB`)
    if (!this.#isSent && isTooLarge(output)) return failed('output_too_large', tooLargeMessage)
    const labels = unionLabels(tool.outputLabels, result.labels ?? [])
    const { cost, commit } = result
    return { result: { state: 'completed', output, labels, call: callOf(op), cost }, commit }
  }

  /** What a thrown error means for the effect. A time-out or cancellation after bytes have left counts as a death. */
  #ended(error: unknown, limit: AbortSignal, seconds: number): Ended | Stopped {
    const { activity, context, frame, tool } = this.#attempt
    if (this.#refused !== null) return { refused: this.#refused }
    if (error instanceof OutcomeUnknown) return { result: { state: 'unknown_outcome' } }
    // A tool that knows that nothing was done says so, also after its point of no return (a server's refusal).
    if (error instanceof ToolError && this.#isSent) return this.#toolError(error)
    if (this.#isSent) return { result: { state: 'unknown_outcome' } }
    if (this.#isSuperseded || isCancelled(activity)) {
      if (isShutdown(activity)) throw error
      return { result: { state: tool.repeat === 'keyed' ? 'unknown_outcome' : 'cancelled' } }
    }
    if (error instanceof ToolError) return this.#toolError(error)
    // Without a mark of no return nobody knows how far a keyed call came: it is made again with its key.
    if (limit.aborted && tool.repeat === 'keyed') throw retryLater(this.#attempt)
    if (limit.aborted)
      return this.#toolError(
        new ToolError('timeout', `\`${tool.name}\` took longer than ${seconds} s`, { retryable: true }),
      )
    if (isConnectionError(error) || (error instanceof DomainError && error.code === 'unavailable'))
      throw error
    context.log.error({ err: error, tool: tool.name, run_id: frame.run.id }, 'a tool crashed')
    if (tool.repeat === 'keyed') return { result: { state: 'unknown_outcome' } }
    return failed('tool_crashed', `\`${tool.name}\` failed unexpectedly`)
  }

  #toolError(error: ToolError): Ended {
    const { attempts } = retryOf(this.#attempt)
    const again = error.retryable && this.#attempt.verdict.failures + 1 < attempts
    return {
      result: { state: again ? 'retry' : 'failed', error: { code: error.code, message: error.message } },
    }
  }
}

const failed = (code: string, message: string): Ended => ({
  result: { state: 'failed', error: { code, message } },
})

const retryOf = (attempt: Attempt) => attempt.frame.step.retry ?? defaultRetry

const isCancelled = (activity: ActivityContext): boolean => activity.cancellationSignal.aborted

/** A worker that stops hands its calls to another one: nothing was cancelled. */
function isShutdown(activity: ActivityContext): boolean {
  const { reason } = activity.cancellationSignal as { reason?: unknown }
  return !(reason instanceof Error) || reason.message !== 'CANCELLED'
}

/** The outcome is known: an outage of the database must not turn it into an unknown one without a fight. */
function save(
  control: Control,
  op: OutcomeOp,
  commit: ToolResult['commit'],
): Promise<EffectState | 'changed'> {
  return throughOutages(() =>
    commit === undefined ? control.record(op) : control.recordWithWrite(op, commit),
  )
}

/** The outcome as it is saved: its output is sealed before any lock is taken. */
async function sealed({ context, op }: Attempt, result: Ended['result']): Promise<OutcomeOp['result']> {
  if (result.state !== 'completed') return result
  const { output } = result
  return {
    ...result,
    output: await throughOutages(() => sealText(context.sealer, outputPlace(op.key), output)),
  }
}

function retryLater(attempt: Attempt): ApplicationFailure {
  const { backoff_seconds: base } = retryOf(attempt)
  const seconds = Math.min(base * 2 ** attempt.verdict.failures, 3_600)
  return ApplicationFailure.create({
    message: 'the tool failed and is tried again',
    type: failureTypes.unavailable,
    nextRetryDelay: Math.max(seconds * 1_000, 1),
    category: ApplicationFailureCategory.BENIGN,
  })
}
