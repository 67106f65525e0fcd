import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import type { ActivityExecuteInput, ActivityInboundCallsInterceptor, Next } from '@temporalio/worker'
import { failureTypes, type StepDone, type StepRef } from '../contract/messages.ts'
import type { Context } from '../context.ts'
import { isConnectionError } from '../governance/database-errors.ts'
import { DomainError } from '../governance/errors.ts'
import { decideSteps } from '../governance/runs/effect.ts'
import { countUnexpected } from '../governance/runs/unexpected.ts'
import { readFixedRun, UnknownRun } from '../governance/runs/fixed-run.ts'
import { NotReady, readFrame, type Frame } from '../governance/runs/frame.ts'
import type { ToolDeclaration } from '../catalog/tool.ts'
import { answer } from './answers.ts'
import { runAttempt } from './attempt.ts'
import { engineActivityNames } from './engine.ts'
import { brokenCall, prepareCall, type Prepared } from './prepare.ts'

/** How soon Temporal tries again when the database was away; it uses up none of a step's attempts. */
const outageRetryDelay = '1s'
/** What nobody foresaw is tried so often, hours in all, outages not counted; then the run ends as failed. */
const mostUnexpected = 2_000
/** A run of another installation on this task queue is left to a worker that knows it. */
const foreignRetryDelay = '5s'

/**
 * Stands in front of every tool's body, on every attempt (design section 3): reads the call's row, resolves and seals
 * its parameters, decides, and only then lets the body run. Answers `completed` and `skipped`; everything else is a
 * failure of a known type without a parameter in it.
 */
export function createPolicyInterceptor(context: Context) {
  return (activity: ActivityContext): { inbound: ActivityInboundCallsInterceptor } => ({
    inbound: {
      execute: (input, next) =>
        engineActivityNames.has(activity.info.activityType)
          ? engine(context, activity, input, next)
          : governed(context, activity, input, next),
    },
  })
}

/** The interpreter's own activities act on the rows of their own run, and say nothing of what is in them. */
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
      throw refused('the call is of another workflow')
    await readFixedRun(context, String(runId))
    return await next(input)
  } catch (error) {
    throw await toFailure(context, activity, error)
  }
}

async function governed(
  context: Context,
  activity: ActivityContext,
  input: ActivityExecuteInput,
  next: Next<ActivityInboundCallsInterceptor, 'execute'>,
): Promise<StepDone> {
  const beat = setInterval(() => activity.heartbeat(), (context.config.heartbeatTimeoutSeconds * 1_000) / 3)
  try {
    const { frame, tool } = await admit(context, activity, input.args[0])
    const { value: op, permit } = await prepared(context, frame, tool, activity.cancellationSignal)
    try {
      const verdict = await context.combiner.join(frame.run.organizationId, decideSteps, op)
      if (!verdict.go) return answer(verdict, activity)
      return await runAttempt({ context, activity, frame, tool, op, verdict }, (call) =>
        next({ ...input, args: [call] }),
      )
    } finally {
      permit.release()
    }
  } catch (error) {
    throw await toFailure(context, activity, error)
  } finally {
    clearInterval(beat)
  }
}

/** What throws here, apart from an outage or a cancellation, would throw at every attempt, so the call fails. */
async function prepared(
  context: Context,
  frame: Frame,
  tool: ToolDeclaration,
  signal: AbortSignal,
): Promise<Prepared> {
  try {
    return await prepareCall(context, frame, tool, signal)
  } catch (error) {
    if (isOutage(error) || signal.aborted) throw error
    const { runId, stepId } = frame.key
    context.log.error(
      {
        err: error,
        run_id: runId,
        step_id: stepId,
      },
      'a call could not be prepared',
    )
    return { value: await brokenCall(context, frame, tool), permit: { release: () => {} } }
  }
}

/** Only the run's own workflow, for a tool and step of its frozen version whose dependencies have ended. */
async function admit(
  context: Context,
  activity: ActivityContext,
  argument: unknown,
): Promise<{ frame: Frame; tool: ToolDeclaration }> {
  const { runId, stepId, itemIndex } = (argument ?? {}) as Partial<StepRef>
  if (typeof runId !== 'string' || typeof stepId !== 'string') throw refused('the call names no run and step')
  if (activity.info.workflowExecution?.workflowId !== runId) throw refused('the call is of another workflow')
  const index = itemIndex ?? -1
  if (!Number.isInteger(index) || index < -1) throw refused('the call names no item')
  const frame = await readFrame(context, { runId, stepId, itemIndex: index })
  if (frame.step.tool !== activity.info.activityType || frame.tool === undefined)
    throw refused(`step \`${stepId}\` does not call \`${activity.info.activityType}\``)
  if ((frame.step.for_each !== undefined) !== index >= 0) throw refused(`step \`${stepId}\` has no such item`)
  if (index >= 0 && index >= (frame.itemCount ?? 0)) throw refused(`step \`${stepId}\` has no such item`)
  return { frame, tool: frame.tool }
}

const refused = (message: string): ApplicationFailure =>
  ApplicationFailure.nonRetryable(message, failureTypes.refused)

/** Messages of unexpected errors stay in our log: they could hold a value. */
async function toFailure(context: Context, activity: ActivityContext, error: unknown): Promise<unknown> {
  if (error instanceof ApplicationFailure || (error as Error).name === 'CancelledFailure') return error
  if (error instanceof NotReady) return refused(error.message)
  if (isOutage(error)) return outage(error)
  if (error instanceof UnknownRun)
    return ApplicationFailure.create({
      message: error.message,
      type: failureTypes.unavailable,
      nextRetryDelay: foreignRetryDelay,
    })
  if (error instanceof DomainError) return refused(error.message)
  context.log.error({ err: error }, 'a call could not be decided')
  return unexpected(context, activity)
}

/** Counted only where it can be: an error that meets an outage is one of the outage's. */
async function unexpected(context: Context, { info }: ActivityContext): Promise<ApplicationFailure> {
  try {
    const runId = info.workflowExecution?.workflowId ?? ''
    const errors = await countUnexpected(context, runId, info.activityId)
    if (errors >= mostUnexpected)
      return refused(`the call could not be decided: it met ${errors} errors that nobody foresaw`)
  } catch (error) {
    if (isOutage(error)) return outage(error)
    context.log.error({ err: error }, 'an unexpected error could not be counted')
  }
  return ApplicationFailure.create({
    message: 'the call could not be decided',
    type: failureTypes.unavailable,
  })
}

const isOutage = (error: unknown): boolean =>
  isConnectionError(error) || (error instanceof DomainError && error.code === 'unavailable')

const outage = (error: unknown): ApplicationFailure =>
  ApplicationFailure.create({
    message: error instanceof DomainError ? error.message : 'the database cannot be reached',
    type: failureTypes.unavailable,
    nextRetryDelay: outageRetryDelay,
    category: ApplicationFailureCategory.BENIGN,
  })
