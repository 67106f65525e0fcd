import { Context as Activity } from '@temporalio/activity'
import type { Context } from '../governance/context.ts'
import type { EnterResult, ExpandResult, FinalStatus, FinishInput } from '../contract/messages.ts'
import { enterRun } from '../governance/runs/start/enter.ts'
import { finishRun } from '../governance/runs/end/finish.ts'
import { finishItems } from '../governance/runs/end/finish-items.ts'
import { expandStep } from '../calls/runs/items.ts'

/** These local activities can be repeated safely, because their rows show what was done. */
export interface EngineActivities {
  enterRun(runId: string): Promise<EnterResult>
  expandStep(runId: string, stepId: string): Promise<ExpandResult>
  finishItems(runId: string, stepId: string): Promise<void>
  /** If the run has ended already, its status does not change. */
  finishRun(input: FinishInput): Promise<FinalStatus>
}

/** Aborted if the activity is cancelled or its worker stops. */
const signal = (): AbortSignal => Activity.current().cancellationSignal

export function createEngineActivities(context: Context): EngineActivities {
  return {
    enterRun: (runId) => enterRun(context, runId),
    expandStep: (runId, stepId) => expandStep(context, runId, stepId, signal()),
    finishItems: (runId, stepId) => finishItems(context, runId, stepId),
    finishRun: (input) => finishRun(context, input, signal()),
  }
}

/** These run without a decision, because they change only Countersign's own rows. */
export const engineActivityNames: ReadonlySet<string> = new Set<keyof EngineActivities>([
  'enterRun',
  'expandStep',
  'finishItems',
  'finishRun',
])
