import type { Context } from '../context.ts'
import type { Json } from '../policy/types.ts'
import type { ChainTx } from './chain-tx.ts'
import { DomainError, notFound } from './errors.ts'
import { actorOf, type Caller } from './identity.ts'
import { readSettings, type GovernancePatch, type GovernanceSettings } from './settings.ts'
import { runAs, type PresentCaller } from './standing.ts'

/** The organization's settings, defaults filled in (specification, "Organization governance settings"). */
export async function readGovernance(context: Context, organizationId: string): Promise<GovernanceSettings> {
  const row = await context.db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return readSettings(row.settings)
}

/**
 * Changes the settings that are named; an object setting (`category_flags`, `external_tools`) is replaced whole. They
 * hold from the next decision on, in every process. The audit entry tells each changed setting before and after. Throws
 * `conflict` for `require_mfa` from somebody without a second factor, or by a session or key that none stands behind: they
 * would shut themselves out, a sole owner everybody.
 */
export async function changeGovernance(
  context: Context,
  caller: Caller,
  patch: GovernancePatch,
): Promise<GovernanceSettings> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const { settings: stored } = await tx.trx
      .selectFrom('organizations')
      .select('settings')
      .where('id', '=', caller.organizationId)
      .forUpdate()
      .executeTakeFirstOrThrow()
    const before = readSettings(stored)
    const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
    const merged = { ...stored, ...named }
    const after = readSettings(merged)
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
      status: 'success',
      actor: actorOf(caller),
      metadata: { changes: changesOf(before, after) },
    })
    return after
  })
}

async function requireSecondFactor(tx: ChainTx, { userId, keyId, hasFactor }: PresentCaller): Promise<void> {
  if (hasFactor) return
  const user = await tx.trx
    .selectFrom('users')
    .select('two_factor_enabled')
    .where('id', '=', userId)
    .executeTakeFirst()
  const message =
    user?.two_factor_enabled !== true
      ? 'enrol a second factor yourself first: a person without one gets no further once it is required'
      : keyId === null
        ? 'sign in with your second factor first: a session that was opened without it gets no further once it is required'
        : 'confirm your key first: one that was made without a second factor gets no further once it is required'
  throw new DomainError('conflict', message, [{ path: 'require_mfa', message }])
}

/** Settings are words, numbers and tool names; none of them is a secret. */
function changesOf(before: GovernanceSettings, after: GovernanceSettings): Record<string, Json> {
  const names = Object.keys(after) as (keyof GovernanceSettings)[]
  return Object.fromEntries(
    names
      .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
      .map((name) => [name, { from: before[name] as Json, to: after[name] as Json }]),
  )
}
