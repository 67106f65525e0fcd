import { sql } from 'kysely'
import type { Json } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { readSettings, type GovernancePatch, type GovernanceSettings } from '../../policy/settings.ts'
import type { Acting, PresentCaller } from '../access/recheck.ts'
import { growAs, grownEntry } from '../limits/storage.ts'

/**
 * A setting whose value is an object is replaced as a whole. Writes nothing if no value changes. The audit entry has
 * the old and new values.
 *
 * Throws `conflict` if `require_mfa` would lock out the caller, who has no second factor, or whose session or key is
 * not backed by it; and if nobody has used the provider that `require_sso` requires, or no owner has a way past it.
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
      if (after.require_sso && !before.require_sso) await requireProviderReady(tx)
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

/** Else nobody could sign in, or nobody if the provider is down. */
async function requireProviderReady(tx: ChainTx): Promise<void> {
  const { rows } = await sql<{ used: boolean; fallback: boolean }>`select
    exists (select from sign_in_identities i join memberships m using (organization_id, user_id)
            where i.organization_id = ${tx.organizationId}) as used,
    exists (select from memberships m join users u on u.id = m.user_id
            where m.organization_id = ${tx.organizationId} and m.role = 'owner' and u.two_factor_enabled) as fallback`.execute(
    tx.trx,
  )
  const { used, fallback } = rows[0] as { used: boolean; fallback: boolean }
  if (!used)
    throw errorAt(
      'conflict',
      'require_sso',
      'sign in once with the provider first: nobody has shown that it works',
    )
  if (!fallback)
    throw errorAt(
      'conflict',
      'require_sso',
      'an owner must enrol a second factor first: it is the only way in while the provider is down',
    )
}

/** They may be audited, because settings contain no secrets. */
function changesOf(before: GovernanceSettings, after: GovernanceSettings): Record<string, Json> {
  const names = Object.keys(after) as (keyof GovernanceSettings)[]
  return Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [name, { from: before[name] as Json, to: after[name] as Json }]),
  )
}
