import type { Worker } from '@temporalio/worker'
import type { Context } from '../governance/context.ts'

interface Slots {
  readonly maxConcurrentActivityTaskExecutions: number
  readonly maxConcurrentLocalActivityExecutions: number
  readonly maxConcurrentWorkflowTaskExecutions: number
}

type Status = Pick<
  ReturnType<Worker['getStatus']>,
  | 'numInFlightNonLocalActivities'
  | 'numInFlightLocalActivities'
  | 'numInFlightWorkflowActivations'
  | 'numCachedWorkflows'
>

/**
 * Sets the metrics of the worker's slots. Tool calls (`activity`), local activities and workflow tasks have separate
 * slots.
 */
export function measureSlots(
  { workerSlots, cachedWorkflows }: Pick<Context['metrics'], 'workerSlots' | 'cachedWorkflows'>,
  slots: Slots,
  status: Status,
): void {
  const kinds = [
    ['activity', status.numInFlightNonLocalActivities, slots.maxConcurrentActivityTaskExecutions],
    ['local_activity', status.numInFlightLocalActivities, slots.maxConcurrentLocalActivityExecutions],
    ['workflow', status.numInFlightWorkflowActivations, slots.maxConcurrentWorkflowTaskExecutions],
  ] as const
  for (const [kind, used, all] of kinds) {
    workerSlots.set({ kind, state: 'used' }, used)
    workerSlots.set({ kind, state: 'free' }, Math.max(0, all - used))
  }
  cachedWorkflows.set(status.numCachedWorkflows)
}
