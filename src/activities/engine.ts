import { Context as Activity } from '@temporalio/activity'
import type { Context } from '../context.ts'
import type { EnterResult, ExpandResult, FinishInput } from '../contract/messages.ts'
import { enterRun } from '../governance/runs/enter.ts'
import { finishRun } from '../governance/runs/finish.ts'
import { finishItems } from '../governance/runs/finish-items.ts'
import { expandStep } from '../governance/runs/items.ts'

/** What the interpreter asks of Postgres besides tool calls; local activities, each idempotent by its rows. */
export interface EngineActivities {
  enterRun(runId: string): Promise<EnterResult>
  expandStep(runId: string, stepId: string): Promise<ExpandResult>
  finishItems(runId: string, stepId: string): Promise<void>
  finishRun(input: FinishInput): Promise<void>
}

/** Aborted when the activity is cancelled or its worker stops. */
const signal = (): AbortSignal => Activity.current().cancellationSignal

export function createEngineActivities(context: Context): EngineActivities {
  return {
    enterRun: (runId) => enterRun(context, runId),
    expandStep: (runId, stepId) => expandStep(context, runId, stepId, signal()),
    finishItems: (runId, stepId) => finishItems(context, runId, stepId),
    finishRun: (input) => finishRun(context, input, signal()),
  }
}

/** Names that the policy interceptor lets through undecided: they act on our own rows only. */
export const engineActivityNames: ReadonlySet<string> = new Set<keyof EngineActivities>([
  'enterRun',
  'expandStep',
  'finishItems',
  'finishRun',
])
