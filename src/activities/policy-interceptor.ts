import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import type { ActivityExecuteInput, ActivityInboundCallsInterceptor, Next } from '@temporalio/worker'
import { failureTypes, type AgainDetails, type StepDone } from '../contract/messages.ts'
import type { Context, Telling, UnsealingRuns, Reading } from '../governance/context.ts'
import { TransactionTooLong } from '../governance/audit/lane-transactions.ts'
import { DomainError } from '../governance/errors.ts'
import { decideSteps } from '../calls/runs/effect.ts'
import { countUnexpected } from '../governance/runs/end/finish.ts'
import { readRunSnapshot, UnknownRun } from '../governance/runs/values/run-snapshot.ts'
import {
  EditedMeanwhile,
  NotReady,
  readDefinedCall,
  type DefinedCall,
  type ResolvedCall,
} from '../calls/runs/call.ts'
import { decideNoCalls } from '../calls/runs/no-call.ts'
import { kindOf } from '../steps/index.ts'
import type { StepRun } from '../steps/kind.ts'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import type { EffectKey } from '../contract/ids.ts'
import { answer } from './answers.ts'
import { runAttempt, type IssuedCall } from './attempt.ts'
import { CallTurns, type CallTurn } from './call-turns.ts'
import { createDecidedAhead, type DecidedAhead } from './decided-ahead.ts'
import { engineActivityNames } from './engine.ts'
import { isOutage } from './patience.ts'
import { brokenCall, brokenNoCall, prepareCall, prepareNoCall } from '../calls/runs/prepare.ts'
import type { Loaded } from '../calls/runs/loading.ts'
import { askSeeing } from './seen-state.ts'

/** In milliseconds. Outages do not use up a step's attempts. */
const outageRetryDelay = 1_000
/** After so many unexpected errors, which takes hours, the activity fails and is not tried again. */
const mostUnexpected = 2_000
/** In milliseconds. A worker of the run's own installation can take the activity meanwhile. */
const foreignRetryDelay = 5_000
/** This is in milliseconds. It is used if the failure of a local activity names no delay. */
const localRetryDelay = 500

/**
 * Runs before the body of every tool, on every attempt. Returns only `completed` or `skipped`. All other
 * results are failures of a known type, and contain no parameter.
 */
export function createPolicyInterceptor(context: Context) {
  const worker: OfWorker = { turns: new CallTurns(), ahead: createDecidedAhead() }
  return (activity: ActivityContext): { inbound: ActivityInboundCallsInterceptor } => ({
    inbound: {
      execute: (input, next) =>
        engineActivityNames.has(activity.info.activityType)
          ? engine(context, activity, input, next)
          : governed(context, worker, activity, input, next),
    },
  })
}

interface OfWorker {
  readonly turns: CallTurns
  readonly ahead: DecidedAhead
}

/** Such an activity changes only rows of its own run, and returns no data. */
async function engine(
  context: Context,
  activity: ActivityContext,
  input: ActivityExecuteInput,
  next: Next<ActivityInboundCallsInterceptor, 'execute'>,
): Promise<unknown> {
  try {
    const [first] = input.args as [string | { runId?: unknown } | undefined]
    const runId = typeof first === 'object' ? first.runId : first
    if (activity.info.workflowExecution?.workflowId !== runId)
      throw refused('the call belongs to another workflow')
    await readRunSnapshot(context, String(runId))
    return await next(input)
  } catch (error) {
    throw await toFailure(context, activity, error)
  }
}

async function governed(
  context: Context,
  { turns, ahead }: OfWorker,
  activity: ActivityContext,
  input: ActivityExecuteInput,
  next: Next<ActivityInboundCallsInterceptor, 'execute'>,
): Promise<StepDone> {
  let turn: CallTurn | undefined
  // If the worker of a local activity dies, Temporal notices it when the workflow task times out.
  const beat = activity.info.isLocal
    ? undefined
    : setInterval(() => activity.heartbeat(), (context.config.heartbeatTimeoutSeconds * 1_000) / 3)
  try {
    const key = keyOf(activity, input.args[0])
    const { organizationId } = await readRunSnapshot(context, key.runId)
    turn = await turns.enter(organizationId, activity.cancellationSignal, activity.info.isLocal)
    const body = (issued: IssuedCall) => next({ ...input, args: [issued] })
    const decided = await ahead.take(context, key)
    if (decided?.call.tool.name === activity.info.activityType) {
      turn.bodyBegins()
      return await runAttempt({ context, activity, ahead, ...decided }, body)
    }
    const defined = await admit(context, activity, key)
    const { run } = kindOf(defined.step)
    if (run.as !== 'call') return await withoutCall(context, activity, defined, run)
    const { tool } = defined
    if (tool === undefined) throw noSuchCall(activity, key)
    const { value: call, permit } = await prepared(context, defined, tool, activity.cancellationSignal)
    try {
      const decision = await askSeeing(context, call, activity.cancellationSignal, (asked) =>
        context.combiner.join(organizationId, decideSteps, asked),
      )
      if (!decision.go) return answer(decision, activity)
      turn.bodyBegins()
      return await runAttempt({ context, activity, ahead, call, decision }, body)
    } finally {
      permit.release()
    }
  } catch (error) {
    throw withDelay(activity, await toFailure(context, activity, error))
  } finally {
    turn?.leave()
    clearInterval(beat)
  }
}

/** Throws after an outage or a cancellation. Any other error would repeat, so the call becomes `failed`. */
async function prepared(
  context: Context,
  defined: DefinedCall,
  tool: ToolDeclaration,
  signal: AbortSignal,
): Promise<Loaded<ResolvedCall>> {
  try {
    return await prepareCall(context, defined, tool, signal)
  } catch (error) {
    noteBroken(context, defined, signal, error)
    return { value: await brokenCall(context, defined, tool), permit: { release: () => {} } }
  }
}

/** Throws the error of an outage or a cancellation. */
function noteBroken({ log }: Telling, { key }: DefinedCall, signal: AbortSignal, error: unknown) {
  if (isOutage(error) || signal.aborted) throw error
  log.error({ err: error, run_id: key.runId, step_id: key.stepId }, 'a call could not be prepared')
}

/** Throws if the activity belongs to another workflow than the run. */
function keyOf(activity: ActivityContext, argument: unknown): EffectKey {
  const { runId, stepId, itemIndex } = (argument ?? {}) as Partial<EffectKey>
  if (typeof runId !== 'string' || typeof stepId !== 'string') throw refused('the call names no run and step')
  if (activity.info.workflowExecution?.workflowId !== runId)
    throw refused('the call belongs to another workflow')
  const index = itemIndex ?? -1
  if (!Number.isInteger(index) || index < -1) throw refused('the call names no item')
  return { runId, stepId, itemIndex: index }
}

/** Throws if the run's version has no such step, item or activity, or if a dependency has not ended. */
async function admit(
  context: UnsealingRuns,
  activity: ActivityContext,
  key: EffectKey,
): Promise<DefinedCall> {
  const { stepId, itemIndex: index } = key
  const defined = await readDefinedCall(context, key)
  if (kindOf(defined.step).skeleton(defined.step).activity !== activity.info.activityType)
    throw noSuchCall(activity, key)
  if ((defined.step.for_each !== undefined) !== index >= 0)
    throw refused(`step \`${stepId}\` has no such item`)
  if (index >= 0 && index >= (defined.itemCount ?? 0)) throw refused(`step \`${stepId}\` has no such item`)
  return defined
}

const noSuchCall = ({ info }: ActivityContext, { stepId }: EffectKey): ApplicationFailure =>
  refused(`step \`${stepId}\` does not call \`${info.activityType}\``)

async function withoutCall(
  context: Context,
  activity: ActivityContext,
  defined: DefinedCall,
  run: Exclude<StepRun, { as: 'call' }>,
): Promise<StepDone> {
  const signal = activity.cancellationSignal
  const op = await prepareNoCall(context, defined, run, signal).catch((error: unknown) => {
    noteBroken(context, defined, signal, error)
    return brokenNoCall(defined)
  })
  return answer(await context.combiner.join(defined.run.organizationId, decideNoCalls, op), activity)
}

const refused = (message: string): ApplicationFailure =>
  ApplicationFailure.nonRetryable(message, failureTypes.refused)

/** The SDK does not pass a local activity's `nextRetryDelay` to the workflow, so the details carry it. */
function withDelay(activity: ActivityContext, failure: unknown): unknown {
  const isDelayed =
    activity.info.isLocal &&
    failure instanceof ApplicationFailure &&
    failure.type === failureTypes.unavailable
  if (!isDelayed) return failure
  const details: AgainDetails = { afterMilliseconds: Number(failure.nextRetryDelay ?? localRetryDelay) }
  return ApplicationFailure.create({
    message: failure.message,
    type: failure.type,
    details: [details],
    category: ApplicationFailureCategory.BENIGN,
  })
}

/** The message of an unexpected error stays in our log, because it could contain a value. */
async function toFailure(
  context: Reading & Telling,
  activity: ActivityContext,
  error: unknown,
): Promise<unknown> {
  if (error instanceof ApplicationFailure || (error as Error).name === 'CancelledFailure') return error
  if (error instanceof NotReady) return refused(error.message)
  if (isOutage(error) && !(error instanceof TransactionTooLong)) return outage(context, activity, error)
  if (error instanceof EditedMeanwhile)
    return ApplicationFailure.create({
      message: 'a person has edited the call meanwhile',
      type: failureTypes.unavailable,
      category: ApplicationFailureCategory.BENIGN,
    })
  if (error instanceof UnknownRun)
    return ApplicationFailure.create({
      message: error.message,
      type: failureTypes.unavailable,
      nextRetryDelay: foreignRetryDelay,
    })
  if (error instanceof DomainError && !isOutage(error)) return refused(error.message)
  context.log.error({ err: error, ...identityOf(activity) }, 'a call could not be decided')
  return unexpected(context, activity)
}

/** If an outage prevents the count, returns the outage's failure. */
async function unexpected(
  context: Reading & Telling,
  activity: ActivityContext,
): Promise<ApplicationFailure> {
  try {
    const { activityId } = activity.info
    const errors = await countUnexpected(context.db, identityOf(activity).run_id, activityId)
    if (errors >= mostUnexpected)
      return refused(`the call could not be decided after ${errors} unexpected errors`)
  } catch (error) {
    if (isOutage(error)) return outage(context, activity, error)
    context.log.error({ err: error, ...identityOf(activity) }, 'an unexpected error could not be counted')
  }
  return ApplicationFailure.create({
    message: 'the call could not be decided',
    type: failureTypes.unavailable,
  })
}

const identityOf = ({ info }: ActivityContext) => ({
  run_id: info.workflowExecution?.workflowId ?? '',
  activity: info.activityType,
})

function outage({ sparseLog }: Telling, activity: ActivityContext, error: unknown): ApplicationFailure {
  sparseLog.warn(
    'outage',
    { err: error, ...identityOf(activity) },
    'a call waits until the database can be reached',
  )
  return ApplicationFailure.create({
    message: error instanceof DomainError ? error.message : 'the database cannot be reached',
    type: failureTypes.unavailable,
    nextRetryDelay: outageRetryDelay,
    category: ApplicationFailureCategory.BENIGN,
  })
}
