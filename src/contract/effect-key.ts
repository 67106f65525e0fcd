/** `itemIndex` is -1 for a step without `for_each`. Every activity that runs a step gets this. */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`

/** The lists of approvals and of messages name a call with an unknown outcome by this id. */
export const callId = (row: {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
}): string => effectId({ runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index })

/** Null if the text is not an id of `callId`. */
export function readCallId(id: string | null): EffectKey | null {
  const [, runId, stepId, item] = /^([^/]+)\/(.+)\/(-?\d{1,6})$/s.exec(id ?? '') ?? []
  if (runId === undefined || stepId === undefined) return null
  return { runId, stepId, itemIndex: Number(item) }
}
