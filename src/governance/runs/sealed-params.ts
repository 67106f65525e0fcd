import type { Context } from '../../context.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import { fillInMe } from '../../policy/me.ts'
import type { JsonObject, Label } from '../../policy/types.ts'
import { canonicalJson } from '../canonical.ts'
import { paramsPlace } from '../sealing/places.ts'
import type { Sealer } from '../sealing/sealer.ts'
import type { EffectKey } from './ledger.ts'

/** A call's parameters as they were resolved, once: the approval and every attempt use these very bytes. */
export interface SealedParams {
  readonly params: JsonObject
  /** Dotted path of a parameter → labels of the steps it was built from. */
  readonly paramLabels: readonly (readonly [string, readonly Label[]])[]
}

/** The parameters that rules judge and the tool is called with: `me` is the person who started the run. */
export function effectiveParams(
  tool: ToolDeclaration,
  params: JsonObject,
  requesterEmail: string,
): JsonObject {
  return fillInMe(params, tool.people ?? [], requesterEmail) as JsonObject
}

/** Sealed for this call and no other: bytes that are moved to another one cannot be opened there. */
export function sealParams(sealer: Sealer, key: EffectKey, params: SealedParams): Promise<Buffer> {
  return sealer.seal(paramsPlace(key), canonicalJson(params))
}

/** Throws when the bytes were changed, or sealed for another call. */
export async function openParams(sealer: Sealer, key: EffectKey, sealed: Buffer): Promise<SealedParams> {
  return JSON.parse(await sealer.open(paramsPlace(key), sealed)) as SealedParams
}

/** The sealed parameters that an earlier attempt has stored. */
export async function readSealed(context: Pick<Context, 'db'>, key: EffectKey): Promise<Buffer> {
  const { params_sealed: sealed } = await context.db
    .selectFrom('effects')
    .select('params_sealed')
    .where('run_id', '=', key.runId)
    .where('step_id', '=', key.stepId)
    .where('item_index', '=', key.itemIndex)
    .executeTakeFirstOrThrow()
  if (sealed === null) throw new Error('the sealed parameters were removed')
  return sealed
}
