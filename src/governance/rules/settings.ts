import type { Json } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { readSettings, type GovernancePatch, type GovernanceSettings } from '../../policy/settings.ts'
import type { Acting, PresentCaller } from '../access/recheck.ts'
import { growAs, grownEntry } from '../limits/storage.ts'

/**
 * Changes the named settings. A setting whose value is an object (`category_flags`, `external_tools`) is replaced as a
 * whole. If no setting gets another value, nothing is written. Every process applies the settings from the next
 * decision on. The audit entry contains the old and new value of each changed setting.
 *
 * Throws `conflict` if turning on `require_mfa` would lock the caller out. This is the case if the caller has no second
 * factor, or if the caller's sign-in session or API key is not backed by a second factor.
 */
export async function changeGovernance(
  context: Acting,
  caller: Caller,
  patch: GovernancePatch,
): Promise<GovernanceSettings> {
  const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
  return growAs(context, caller, 'org.change', {
    action: 'update',
    async bytes(tx) {
      const { before, after } = await changed(tx, named)
      return grownEntry(JSON.stringify(changesOf(before, after)).length)
    },
    async work(tx, now) {
      const { before, after, merged } = await changed(tx, named)
      const changes = changesOf(before, after)
      if (Object.keys(changes).length === 0) return after
      if (after.require_mfa && !before.require_mfa) await requireSecondFactor(tx, await now())
      await tx.trx
        .updateTable('organizations')
        .set({ settings: JSON.stringify(merged) })
        .where('id', '=', caller.organizationId)
        .execute()
      tx.policyChanged()
      tx.append({
        eventType: 'governance.updated',
        action: 'update',
        actor: actorOf(caller),
        metadata: { changes },
      })
      return after
    },
  })
}

async function changed(tx: ChainTx, named: object) {
  const { settings: stored } = await tx.trx
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', tx.organizationId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  const merged = { ...stored, ...named }
  return { before: readSettings(stored), after: readSettings(merged), merged }
}

async function requireSecondFactor(tx: ChainTx, { userId, keyId, hasFactor }: PresentCaller): Promise<void> {
  if (hasFactor) return
  const user = await tx.trx
    .selectFrom('users')
    .select('two_factor_enabled')
    .where('id', '=', userId)
    .executeTakeFirst()
  throw errorAt(
    'conflict',
    'require_mfa',
    user?.two_factor_enabled !== true
      ? 'enrol a second factor first: without one, you would lock yourself out'
      : keyId === null
        ? 'sign in with your second factor first: this session was opened without it, and would be locked out'
        : 'confirm your key first: it was made without a second factor, and would be locked out',
  )
}

/**
 * Returns the changed settings, each with its old and new value. The values may be audited, because settings contain no
 * secrets.
 */
function changesOf(before: GovernanceSettings, after: GovernanceSettings): Record<string, Json> {
  const names = Object.keys(after) as (keyof GovernanceSettings)[]
  return Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [name, { from: before[name] as Json, to: after[name] as Json }]),
  )
}
