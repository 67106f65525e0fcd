import type { Context as ActivityContext } from '@temporalio/activity'
import { createPolicyInterceptor } from '../../src/activities/policy-interceptor.ts'
import type { Context } from '../../src/context.ts'

export interface Scheduled {
  readonly workflowId: string
  readonly activityType: string
  readonly activityId?: string
  readonly attempt?: number
  readonly args: unknown[]
}

/** Runs an activity as a worker would; answers what came of it and what its body was given. */
export async function execute(context: Context, scheduled: Scheduled) {
  const { workflowId, activityType, activityId = 'a', attempt = 1, args } = scheduled
  const bodies: unknown[] = []
  const activity = {
    info: { activityType, activityId, attempt, workflowExecution: { workflowId, runId: 'r' } },
    cancellationSignal: new AbortController().signal,
    heartbeat: () => {},
  } as unknown as ActivityContext
  const { inbound } = createPolicyInterceptor(context)(activity)
  const next = async (input: { args: unknown[] }) => {
    bodies.push(input.args[0])
    return { output: { text: 'b' } }
  }
  const answer: unknown = await inbound
    .execute?.({ args, headers: {} }, next)
    .catch((error: unknown) => error)
  return { answer, bodies }
}
