import type { Context as ActivityContext } from '@temporalio/activity'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import type { Context } from '../../src/governance/context.ts'

export interface Scheduled {
  readonly workflowId: string
  readonly activityType: string
  readonly activityId?: string
  readonly attempt?: number
  readonly args: unknown[]
  /** The tool's body; the default returns a text. */
  readonly body?: (decided: unknown) => Promise<unknown>
  /** Temporal's signal, which cancels with an error `CANCELLED`. */
  readonly signal?: AbortSignal
}

/** Runs an activity as a worker would. Returns its result and the argument of its body. */
export async function execute(context: Context, scheduled: Scheduled) {
  const { workflowId, activityType, activityId = 'a', attempt = 1, args, body, signal } = scheduled
  const bodies: unknown[] = []
  const activity = {
    info: { activityType, activityId, attempt, workflowExecution: { workflowId, runId: 'r' } },
    cancellationSignal: signal ?? new AbortController().signal,
    heartbeat: () => {},
  } as unknown as ActivityContext
  const { inbound } = createPolicyInterceptor(context)(activity)
  const next = async (input: { args: unknown[] }) => {
    bodies.push(input.args[0])
    if (body !== undefined) return body(input.args[0])
    return { output: { text: 'b' } }
  }
  const answer: unknown = await inbound
    .execute?.({ args, headers: {} }, next)
    .catch((error: unknown) => error)
  return { answer, bodies }
}
