import type { CallInHand } from './seen-state.ts'

/** Returns the fields of a log line about a call. */
export const logFields = ({ spec: { run, key }, tool }: Pick<CallInHand, 'spec' | 'tool'>) => ({
  organization_id: run.organizationId,
  request_id: run.requestId ?? undefined,
  run_id: run.id,
  step_id: key.stepId,
  ...(key.itemIndex < 0 ? {} : { item_index: key.itemIndex }),
  tool: tool.name,
})
