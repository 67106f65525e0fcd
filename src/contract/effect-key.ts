/**
 * Identifies one call of a run. For a step without `for_each`, `itemIndex` is -1. It is the argument of every activity
 * that runs a step.
 */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`

/**
 * Returns the id of the call that a row describes. The lists of approvals and of messages use this id to name a call
 * whose outcome is unknown.
 */
export const callId = (row: {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
}): string => effectId({ runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index })

/** Returns the call that an id of `callId` names, or null if the text is not such an id. */
export function readCallId(id: string | null): EffectKey | null {
  const [, runId, stepId, item] = /^([^/]+)\/(.+)\/(-?\d{1,6})$/s.exec(id ?? '') ?? []
  if (runId === undefined || stepId === undefined) return null
  return { runId, stepId, itemIndex: Number(item) }
}
