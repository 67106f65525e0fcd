import { randomUUID } from 'node:crypto'
import {
  type Client,
  isGrpcServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowIdReusePolicy,
  WorkflowNotFoundError,
} from '@temporalio/client'
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common'
import {
  searchAttributes,
  wakeSignal,
  workflowType,
  type RunInput,
  type Wake,
} from '../../contract/messages.ts'
import type { Context } from '../context.ts'

export interface StartRequest {
  readonly input: RunInput
  readonly taskQueue: string
  readonly organizationId: string
  readonly workflowId: string
  readonly workflowName: string
  readonly version: number
  readonly risk: string
}

/** `missing`: the run never started, or ended long ago. */
export type EngineState = 'missing' | 'running' | 'completed' | 'failed' | 'cancelled' | 'terminated'

/** Each call can be repeated without harm. */
export interface WorkflowEngine {
  start(request: StartRequest): Promise<void>
  /** false if the run has no running workflow. */
  wake(runId: string, wake: Wake): Promise<boolean>
  /** false if the run has no running workflow. Operators see `by`, the id of a person, in Temporal. */
  cancel(runId: string, by: string | null): Promise<boolean>
  describe(runId: string): Promise<EngineState>
}

const states: Readonly<Record<string, EngineState>> = {
  RUNNING: 'running',
  PAUSED: 'running',
  COMPLETED: 'completed',
  FAILED: 'failed',
  TIMED_OUT: 'failed',
  CANCELLED: 'cancelled',
  TERMINATED: 'terminated',
  CONTINUED_AS_NEW: 'running',
}

export function createWorkflowEngine(client: Client): WorkflowEngine {
  // So a process can stop even if Temporal does not answer. The relay or the reconciler repeats the call.
  const soon = <T>(work: () => Promise<T>): Promise<T> =>
    client.connection.withDeadline(Date.now() + 5_000, work)
  const found = async (work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await soon(work)
      return true
    } catch (error) {
      if (error instanceof WorkflowNotFoundError || isNotFound(error)) return false
      throw error
    }
  }
  const { namespace, identity } = client.options
  return {
    async start(request) {
      try {
        await soon(() =>
          client.workflow.start(workflowType, {
            workflowId: request.input.runId,
            workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
            taskQueue: request.taskQueue,
            args: [request.input],
            // After this time, another worker takes over the quick calls of a dead one. A wake-up waits so long for a
            // quick call.
            workflowTaskTimeout: '5s',
            // The run's calls inherit this key. Temporal alternates between keys, so organizations take turns.
            priority: { fairnessKey: request.organizationId },
            staticSummary: `${request.workflowName}, version ${request.version}`,
            ...(request.input.searchAttributes ? { typedSearchAttributes: attributesOf(request) } : {}),
          }),
        )
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      }
    },
    wake: (runId, wake) => found(() => client.workflow.getHandle(runId).signal(wakeSignal, wake)),
    // The SDK's own `cancel` accepts no reason.
    cancel: (runId, by) =>
      found(() =>
        client.workflowService.requestCancelWorkflowExecution({
          namespace,
          identity,
          requestId: randomUUID(),
          workflowExecution: { workflowId: runId },
          reason: by === null ? '' : `cancelled by ${by}`,
        }),
      ),
    async describe(runId) {
      try {
        const { status } = await soon(() => client.workflow.getHandle(runId).describe())
        return states[status.name] ?? 'running'
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) return 'missing'
        throw error
      }
    },
  }
}

const notFound = 5

const isNotFound = (error: unknown): boolean =>
  isGrpcServiceError(error) && (error.code as number) === notFound

function attributesOf(request: StartRequest): TypedSearchAttributes {
  const keyword = (name: string) => defineSearchAttributeKey(name, 'KEYWORD')
  return new TypedSearchAttributes([
    { key: keyword(searchAttributes.organization), value: request.organizationId },
    { key: keyword(searchAttributes.workflow), value: request.workflowId },
    { key: keyword(searchAttributes.workflowName), value: request.workflowName },
    { key: defineSearchAttributeKey(searchAttributes.version, 'INT'), value: request.version },
    { key: keyword(searchAttributes.state), value: request.input.gated ? 'awaiting_approval' : 'running' },
    { key: keyword(searchAttributes.risk), value: request.risk },
  ])
}

/** Keeps `isTemporalAway`, and logs each change. `check` resolves to false or throws if Temporal does not answer. */
export async function watchTemporal(
  context: Pick<Context, 'isTemporalAway' | 'log'>,
  check: () => Promise<boolean>,
): Promise<void> {
  let cause: unknown
  const answers = await check().catch((error: unknown) => {
    cause = error
    return false
  })
  if (answers === !context.isTemporalAway) return
  context.isTemporalAway = !answers
  if (answers) context.log.info('Temporal answers again')
  else context.log.warn({ err: cause }, 'Temporal cannot be reached: runs wait until it is back')
}
