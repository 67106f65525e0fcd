import { randomUUID } from 'node:crypto'
import { effectId, type EffectKey } from '../../contract/effect-key.ts'

/*
 * A place is a text that names the row and column of a sealed value, e.g. `<run id>/inputs`. Sealing binds a value to
 * its place. So bytes that are moved to another row or column cannot be opened there. Different values have different
 * places. There is one exception: a call and its approval store the same parameters, with the same place.
 *
 * Some columns are written again. There, each value has a place of its own: the place contains a new version, and the
 * row stores this version. So earlier bytes of the same row cannot be opened.
 */

/** Returns the version for one value of a column that is written again. */
export const newVersion = (): string => randomUUID()

/**
 * The place of a call's resolved parameters. The call's row and the row of the call's approval both store these
 * parameters.
 */
export const paramsPlace = (key: EffectKey): string => effectId(key)
/** The place of the sealed input of an agent's call. The row of the call's approval stores this input. */
export const agentInputPlace = (approvalId: string): string => approvalId
/** The place of the state that a call would change. The approvers see this state before they decide. */
export const statePlace = (approvalId: string): string => `${approvalId}/state`
export const outputPlace = (key: EffectKey): string => `${effectId(key)}/output`
/** The place of the sealed details of a call's error. */
export const errorPlace = (key: EffectKey): string => `${effectId(key)}/error`
export const inputsPlace = (runId: string): string => `${runId}/inputs`
export const resultPlace = (runId: string): string => `${runId}/result`
export const memoryPlace = (organizationId: string, key: string, version: string): string =>
  JSON.stringify(['memory', organizationId, key, version])

/** A secret field of a connection. */
export type ConnectionField = 'credential'
export const connectionPlace = (
  organizationId: string,
  connectionId: string,
  field: ConnectionField,
  version: string,
): string => JSON.stringify(['connection', organizationId, connectionId, field, version])

/** The place of a webhook's sealed address and secrets. */
export const webhookPlace = (organizationId: string, webhookId: string, version: string): string =>
  JSON.stringify(['webhook', organizationId, webhookId, version])

/** The place of the sealed text or rows that were read from an uploaded file. */
export const filePlace = (organizationId: string, fileId: string, part: 'text' | 'rows'): string =>
  JSON.stringify(['file', organizationId, fileId, part])
/** The place of the sealed PKCE verifier of an authorization whose answer has not arrived yet. */
export const verifierPlace = (stateHash: string): string => JSON.stringify(['connection-attempt', stateHash])

/**
 * Identifies one use of an `Idempotency-Key`. A use stores up to two sealed values: the answer to the request, and the
 * result of the operation (`made`).
 */
export interface IdempotencyUse {
  /** Is empty if the request concerns only the caller and no organization. */
  readonly organizationId: string
  readonly userId: string
  readonly apiKeyId: string
  /** The route and the ids in its path, e.g. `POST /workflows/{id}/execute {"id":"wf_…"}`. */
  readonly route: string
  readonly key: string
}
export const idempotencyPlace = (use: IdempotencyUse, column: 'answer' | 'made'): string =>
  JSON.stringify(['idempotency', use.organizationId, use.userId, use.apiKeyId, use.route, use.key, column])
