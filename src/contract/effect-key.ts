/** Names one call of a run; `itemIndex` is -1 for a step without `for_each`. */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`

/** The id of the call that a row describes. Lists of approvals and messages use this id to name an unknown outcome. */
export const callId = (row: {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
}): string => effectId({ runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index })

/** Returns the call that an id of `callId` names; null if the text is not such an id. */
export function readCallId(id: string | null): EffectKey | null {
  const [, runId, stepId, item] = /^([^/]+)\/(.+)\/(-?\d{1,6})$/s.exec(id ?? '') ?? []
  if (runId === undefined || stepId === undefined) return null
  return { runId, stepId, itemIndex: Number(item) }
}
