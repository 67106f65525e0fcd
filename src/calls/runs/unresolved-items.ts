import type { EffectKey } from '../../contract/effect-key.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Caller } from '../../governance/access/identity.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'

/** The step whose unknown outcomes a person resolves. If `attempt` is given, the person has examined this attempt. */
interface AskedStep {
  readonly caller: Caller
  readonly runId: string
  readonly stepId: string
  readonly attempt?: number | undefined
}

/**
 * Returns the indexes of at most `limit` items of the step, in ascending order. Each of these items has an unknown
 * outcome that nobody has resolved. A step without items has the index -1. If `attempt` is given, only items at this
 * attempt count.
 */
export async function unresolvedItems(
  db: Db,
  { caller, runId, stepId, attempt }: AskedStep,
  limit: number,
): Promise<number[]> {
  let query = db
    .selectFrom('effects')
    .select('item_index')
    .where('organization_id', '=', caller.organizationId)
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .where('state', '=', 'unknown_outcome')
    .where('resolved_outcome', 'is', null)
  if (attempt !== undefined) query = query.where('attempt', '=', attempt)
  const rows = await query.orderBy('item_index').limit(limit).execute()
  return rows.map((row) => row.item_index)
}

/** Returns a message that names the items that cannot be resolved, and items that can be resolved instead. */
export async function whyNothingToResolve(
  tx: ChainTx,
  request: AskedStep,
  wrong: readonly EffectKey[],
): Promise<string> {
  const step = `step \`${request.stepId}\``
  const items = wrong.filter(({ itemIndex }) => itemIndex >= 0).map(({ itemIndex }) => itemIndex)
  const named = items.slice(0, mostNamed).join(', ')
  const which = items.length === 1 ? `item ${named}` : `items ${named}`
  const what = items.length === 0 ? step : `${which}${items.length > mostNamed ? ' and more' : ''} of ${step}`
  const others = (await unresolvedItems(tx.trx, { ...request, attempt: undefined }, mostNamed))
    .filter((item) => item >= 0)
    .join(', ')
  const have = items.length > 1 ? 'have' : 'has'
  return `${what} ${have} no unknown outcome to resolve${others === '' ? '' : `: give \`item_index\`, one of ${others}`}`
}

/** A message names at most this many items. */
const mostNamed = 20
