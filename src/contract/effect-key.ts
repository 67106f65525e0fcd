/** Names one call of a run; `itemIndex` is -1 for a step without `for_each`. */
export interface EffectKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}
export const effectId = (key: EffectKey): string => `${key.runId}/${key.stepId}/${key.itemIndex}`
