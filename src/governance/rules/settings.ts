import { sql, type Transaction } from 'kysely'
import { holdsCalls } from '../../policy/strictness.ts'
import { ownersOf } from '../../db/queries/people.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import { whyLooserSettings } from '../../policy/strictness-settings.ts'
import { list, quote } from '../../policy/text.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { plainJson, type HeldChange } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { readSettings, type GovernancePatch, type GovernanceSettings } from '../../policy/settings.ts'
import type { PresentCaller } from '../access/recheck.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import { grownEntry, storageOver } from '../limits/storage.ts'
import { savedRules } from './analysis.ts'

export async function readManagedSettings(
  db: Db,
  organizationId: string,
): Promise<GovernanceSettings & { readonly managed_by: ManagedBy | null }> {
  const row = await db
    .selectFrom('organizations')
    .select(['settings', 'managed_by'])
    .where('id', '=', organizationId)
    .executeTakeFirstOrThrow()
  return { ...readSettings(row.settings), managed_by: row.managed_by }
}

/**
 * A setting whose value is an object is replaced as a whole. Writes nothing if no value changes. The audit entry has
 * the old and new values.
 *
 * Throws `conflict` if `require_mfa` would lock out the caller, who has no second factor, or whose session or key is
 * not backed by it; if nobody has used the provider that `require_sso` requires, or no owner has a way past it; and if
 * `loosening` would let a single owner lock themselves out.
 */
export async function changeGovernance(
  context: Governing,
  caller: Caller,
  patch: GovernancePatch,
): Promise<GovernanceSettings | HeldChange> {
  const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
  return changeAs(context, caller, {
    action: 'update',
    async prepare(tx, changer, now) {
      await refuseLockOut(tx, named, now)
      return prepareSettings(tx, changer, named)
    },
  })
}

/** Throws `conflict` if `require_mfa` would lock out the caller. */
export async function refuseLockOut(
  tx: ChainTx,
  named: object,
  now: () => Promise<PresentCaller>,
): Promise<void> {
  const { before, after } = await changed(tx, named)
  if (after.require_mfa && !before.require_mfa) await requireSecondFactor(tx, await now())
}

/** The requester of an approved change had a second factor when they asked for `require_mfa`. */
export async function prepareSettings(
  tx: ChainTx,
  changer: Changer,
  named: object,
): Promise<Prepared<GovernanceSettings>> {
  const { before, after, merged, managed } = await changed(tx, named)
  const changes = changesOf(before, after)
  const names = Object.keys(changes)
  await refuseUnready(tx.trx, tx.organizationId, { before, after })
  const side = (settings: GovernanceSettings) =>
    Object.fromEntries(names.map((name) => [name, settings[name as keyof GovernanceSettings]]))
  return {
    request: { operation: 'settings', given: plainJson(named) as JsonObject },
    title: `Change ${list(names.map(quote), 'and', 3)}`,
    before: side(before),
    after: side(after),
    managed,
    async over() {
      const more = grownEntry(JSON.stringify(changes).length)
      return Promise.resolve(more === 0 ? null : storageOver(tx, more))
    },
    whyLooser: () => whyLooserSettings(before, after, { hasHolds: savedRules(tx.policy).some(holdsCalls) }),
    async save() {
      if (names.length === 0) return after
      await tx.trx
        .updateTable('organizations')
        .set({ settings: JSON.stringify(merged) })
        .where('id', '=', tx.organizationId)
        .execute()
      tx.policyChanged()
      tx.append({
        eventType: 'governance.updated',
        action: 'update',
        actor: actorOf(changer),
        metadata: { changes, ...changer.cause },
      })
      return after
    },
  }
}

/** Throws `conflict` for settings with which the organization would lock itself out. */
export async function refuseUnready(
  db: Db | Transaction<Database>,
  organizationId: string,
  { before, after }: { readonly before: GovernanceSettings; readonly after: GovernanceSettings },
): Promise<void> {
  if (after.require_sso && !before.require_sso) await requireProviderReady(db, organizationId)
  if (after.loosening === 'second_person' && before.loosening === 'free')
    await requireTwoOwners(db, organizationId)
}

async function changed(tx: ChainTx, named: object) {
  const { settings: stored, managed_by: managed } = await tx.trx
    .selectFrom('organizations')
    .select(['settings', 'managed_by'])
    .where('id', '=', tx.organizationId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  const merged = { ...stored, ...named }
  return { before: readSettings(stored), after: readSettings(merged), merged, managed }
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
async function requireProviderReady(db: Db | Transaction<Database>, organizationId: string): Promise<void> {
  const { rows } = await sql<{ used: boolean; fallback: boolean }>`select
    exists (select from sign_in_identities i join memberships m using (organization_id, user_id)
            where i.organization_id = ${organizationId}) as used,
    exists (select from memberships m join users u on u.id = m.user_id
            where m.organization_id = ${organizationId} and m.role = 'owner' and u.two_factor_enabled) as fallback`.execute(
    db,
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

/** Else nobody could decide what only owners change, such as the way back. */
async function requireTwoOwners(db: Db | Transaction<Database>, organizationId: string): Promise<void> {
  if ((await ownersOf(organizationId).execute(db)).rows.length >= 2) return
  throw errorAt(
    'conflict',
    'loosening',
    'make a second owner first: nobody else could decide what one owner changes, such as the way back',
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
