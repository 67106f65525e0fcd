import {
  type Client,
  WorkflowExecutionAlreadyStartedError,
  WorkflowIdReusePolicy,
  WorkflowNotFoundError,
} from '@temporalio/client'
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common'
import { searchAttributes, wakeSignal, workflowType, type RunInput, type Wake } from '../contract/messages.ts'

export interface StartRequest {
  readonly input: RunInput
  readonly taskQueue: string
  readonly organizationId: string
  readonly workflowId: string
  readonly version: number
  readonly risk: string
}

/** Whether Temporal runs a run: never started (or long forgotten), still going, or over in one of its ways. */
export type MotorState = 'missing' | 'running' | 'completed' | 'failed' | 'cancelled' | 'terminated'

/** Durable execution, as the outbox and the reconciler use it. Each method can be repeated without harm. */
export interface Motor {
  start(request: StartRequest): Promise<void>
  /** False when there is no such workflow running. */
  wake(runId: string, wake: Wake): Promise<boolean>
  cancel(runId: string): Promise<boolean>
  describe(runId: string): Promise<MotorState>
}

/** Of one call to Temporal. */
const deadlineMilliseconds = 5_000

const states: Readonly<Record<string, MotorState>> = {
  RUNNING: 'running',
  PAUSED: 'running',
  COMPLETED: 'completed',
  FAILED: 'failed',
  TIMED_OUT: 'failed',
  CANCELLED: 'cancelled',
  TERMINATED: 'terminated',
  CONTINUED_AS_NEW: 'running',
}

export function createMotor(client: Client): Motor {
  // An unreachable Temporal must not hold up who stops: the outbox has the row, and another try comes.
  const soon = <T>(work: () => Promise<T>): Promise<T> =>
    client.connection.withDeadline(Date.now() + deadlineMilliseconds, work)
  const found = async (work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await soon(work)
      return true
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false
      throw error
    }
  }
  return {
    async start(request) {
      try {
        await soon(() =>
          client.workflow.start(workflowType, {
            workflowId: request.input.runId,
            workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
            taskQueue: request.taskQueue,
            args: [request.input],
            staticSummary: `run of ${request.workflowId} version ${request.version}`,
            ...(request.input.searchAttributes ? { typedSearchAttributes: attributesOf(request) } : {}),
          }),
        )
      } catch (error) {
        if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      }
    },
    wake: (runId, wake) => found(() => client.workflow.getHandle(runId).signal(wakeSignal, wake)),
    cancel: (runId) => found(() => client.workflow.getHandle(runId).cancel()),
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

function attributesOf(request: StartRequest): TypedSearchAttributes {
  const keyword = (name: string) => defineSearchAttributeKey(name, 'KEYWORD')
  return new TypedSearchAttributes([
    { key: keyword(searchAttributes.organization), value: request.organizationId },
    { key: keyword(searchAttributes.workflow), value: request.workflowId },
    { key: defineSearchAttributeKey(searchAttributes.version, 'INT'), value: request.version },
    { key: keyword(searchAttributes.state), value: request.input.gated ? 'awaiting_approval' : 'running' },
    { key: keyword(searchAttributes.risk), value: request.risk },
  ])
}
