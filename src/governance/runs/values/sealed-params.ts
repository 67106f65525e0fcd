import type { Db } from '../../../db/schema/index.ts'
import type { ToolDeclaration } from '../../../tools/kit/tool.ts'
import { fillInMe } from '../../../policy/me.ts'
import type { Json, JsonObject, Label } from '../../../policy/types.ts'
import { canonicalJson } from '../../../shared/canonical-json.ts'
import { paramsBinding } from '../../sealing/bindings.ts'
import type { Sealer } from '../../sealing/sealer.ts'
import type { EffectKey } from '../../../contract/ids.ts'

/** Resolved only once, so the approval and every attempt use the same bytes. */
export interface SealedParams {
  readonly params: JsonObject
  /** By dotted path: the labels of the steps and inputs that the value comes from. */
  readonly paramLabels: readonly (readonly [string, readonly Label[]])[]
  /** The item of a `for_each` from `shownItem`, for people who look for the reason of a failure. */
  readonly item?: Json
}

/** For the rules and the tool: `me` is replaced by the requester's address. */
export function effectiveParams(
  tool: ToolDeclaration,
  params: JsonObject,
  requesterEmail: string,
): JsonObject {
  return fillInMe(params, tool.people ?? [], requesterEmail) as JsonObject
}

/** An item is stored with the parameters if its JSON has at most this many characters. */
const mostItemText = 2_000

/** For a large item, only the size is stored. */
export function shownItem(item: Json): Json {
  const size = JSON.stringify(item).length
  return size <= mostItemText ? item : { truncated: true, size }
}

/** For this call only: they cannot be opened for another call. */
export function sealParams(sealer: Sealer, key: EffectKey, params: SealedParams): Promise<Buffer> {
  return sealer.seal(paramsBinding(key), canonicalJson(params))
}

/** Throws if the bytes were changed, or if they were sealed for another call. */
export async function openParams(sealer: Sealer, key: EffectKey, sealed: Buffer): Promise<SealedParams> {
  return JSON.parse(await sealer.open(paramsBinding(key), sealed)) as SealedParams
}

/** Throws if the parameters were removed. */
export async function readSealed(db: Db, key: EffectKey): Promise<Buffer> {
  const { params_sealed: sealed } = await db
    .selectFrom('effects')
    .select('params_sealed')
    .where('run_id', '=', key.runId)
    .where('step_id', '=', key.stepId)
    .where('item_index', '=', key.itemIndex)
    .executeTakeFirstOrThrow()
  if (sealed === null) throw new Error('the sealed parameters were removed')
  return sealed
}
