import { effectId, type EffectKey } from '../runs/ledger.ts'

/*
 * Where sealed values belong: authenticated with each of them, so that bytes that are moved to another row or column do not
 * open there. A place never changes, and no two values share one, save a held call and its approval, which are the same.
 */

/** Resolved parameters of a step's call, in the call's row and in that of its approval. */
export const paramsPlace = (key: EffectKey): string => effectId(key)
/** The input of an agent's call, in its approval. */
export const agentInputPlace = (approvalId: string): string => approvalId
export const outputPlace = (key: EffectKey): string => `${effectId(key)}/output`
export const inputsPlace = (runId: string): string => `${runId}/inputs`
export const resultPlace = (runId: string): string => `${runId}/result`
export const memoryPlace = (organizationId: string, key: string): string =>
  JSON.stringify(['memory', organizationId, key])

/** Which use of an `Idempotency-Key`; a kept answer, or what its act made. */
export interface IdempotencyUse {
  /** Empty for a call about the caller alone. */
  readonly organizationId: string
  readonly userId: string
  readonly apiKeyId: string
  /** The route and what its path names, e.g. `POST /workflows/{id}/execute {"id":"wf_…"}`. */
  readonly route: string
  readonly key: string
}
export const idempotencyPlace = (use: IdempotencyUse, column: 'answer' | 'made'): string =>
  JSON.stringify(['idempotency', use.organizationId, use.userId, use.apiKeyId, use.route, use.key, column])
