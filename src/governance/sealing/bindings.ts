import { randomUUID } from 'node:crypto'
import { effectId, type EffectKey } from '../../contract/ids.ts'

/*
 * A binding names the row and column of a sealed value, e.g. `<run id>/inputs`. Sealing binds a value to it, so bytes
 * that are moved elsewhere cannot be opened. No two values share one, but a call and its approval, which store the same
 * parameters.
 *
 * Where a column is written again, the binding contains a new version, which the row stores. So earlier bytes of the row
 * cannot be opened.
 */

export const newVersion = (): string => randomUUID()

/** In the row of the call, and in that of its approval. */
export const paramsBinding = (key: EffectKey): string => effectId(key)
/** What a change asks for, in the row of its approval. */
export const changeBinding = (approvalId: string): string => `${approvalId}/change`
/** In the row of the call's approval. */
export const agentInputBinding = (approvalId: string): string => approvalId
export const keptInputsBinding = (id: string): string => `${id}/inputs`
/** What a call would change, as its approvers see it. */
export const stateBinding = (approvalId: string): string => `${approvalId}/state`
export const outputBinding = (key: EffectKey): string => `${effectId(key)}/output`
export const errorBinding = (key: EffectKey): string => `${effectId(key)}/error`
export const inputsBinding = (runId: string): string => `${runId}/inputs`
export const resultBinding = (runId: string): string => `${runId}/result`
export const memoryBinding = (organizationId: string, key: string, version: string): string =>
  JSON.stringify(['memory', organizationId, key, version])

export const connectionBinding = (organizationId: string, connectionId: string, version: string): string =>
  JSON.stringify(['connection', organizationId, connectionId, 'credential', version])

export const webhookBinding = (organizationId: string, webhookId: string, version: string): string =>
  JSON.stringify(['webhook', organizationId, webhookId, version])

export const triggerBinding = (organizationId: string, triggerId: string, version: string): string =>
  JSON.stringify(['trigger', organizationId, triggerId, version])

export const providerBinding = (organizationId: string, version: string): string =>
  JSON.stringify(['sign-in-provider', organizationId, version])

export const fileBinding = (organizationId: string, fileId: string, part: 'text' | 'rows'): string =>
  JSON.stringify(['file', organizationId, fileId, part])
/** The PKCE verifier of an authorization that has no answer yet. */
export const verifierBinding = (stateHash: string): string =>
  JSON.stringify(['connection-attempt', stateHash])

/** A use has up to two sealed values: the answer, and the result of the operation (`made`). */
export interface IdempotencyUse {
  /** Empty if the request concerns only the caller. */
  readonly organizationId: string
  readonly userId: string
  readonly apiKeyId: string
  /** With the ids in its path, e.g. `POST /workflows/{id}/execute {"id":"wf_…"}`. */
  readonly route: string
  readonly key: string
}
export const idempotencyBinding = (use: IdempotencyUse, column: 'answer' | 'made'): string =>
  JSON.stringify(['idempotency', use.organizationId, use.userId, use.apiKeyId, use.route, use.key, column])
