import type { Context } from '../../context.ts'
import { plans, type Plan } from '../../db/schema/identity.ts'
import type { Json } from '../../policy/types.ts'
import type { Actor } from '../audit.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import { actorOf, type Caller } from '../identity.ts'
import {
  effectiveLimits,
  overridesSchema,
  planLimits,
  refuseOverCeiling,
  type Limits,
  type Overrides,
  type QuotaPatch,
} from './limits.ts'
import { grantSlots } from './slots.ts'
import { readUsage, type StorageUsage } from './storage-counters.ts'
import { runAs } from '../standing.ts'

/** Specification, "Quota". */
export interface QuotaView {
  readonly plan: Plan
  readonly limits: Limits
  readonly overrides: Overrides
  readonly effective: Limits
  /** Only when it is read. */
  readonly usage?: StorageUsage
}

const viewOf = (plan: Plan, stored: object): QuotaView => ({
  plan,
  limits: planLimits[plan],
  overrides: overridesSchema.parse(stored) as Overrides,
  effective: effectiveLimits(plan, stored),
})

/** Throws `not_found`. */
export async function readQuota(context: Context, organizationId: string): Promise<QuotaView> {
  const row = await context.db
    .selectFrom('organizations')
    .select(['plan', 'quota_overrides'])
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return { ...viewOf(row.plan, row.quota_overrides), usage: await readUsage(context, organizationId) }
}

/**
 * Sets the overrides that are named and takes away those that are null; the others stay (commit point `org.change`). What
 * they limit from then on is everything that is accepted after the commit, in every process: runs under way go on. Throws
 * `validation_error` for one over the plan's ceiling, `insufficient_role` where limits are the operator's to set.
 */
export async function changeQuota(context: Context, caller: Caller, patch: QuotaPatch): Promise<QuotaView> {
  if (context.config.quotaOverrides === 'operator') throw operatorOnly(caller.organizationId)
  return runAs(context, caller, 'org.change', async (tx) => {
    const before = await readForUpdate(tx)
    const after = patched(before.plan, before.overrides, patch)
    await save(tx, actorOf(caller), before, after)
    return after
  })
}

/**
 * What `npm run set-plan` does: sets the plan and the overrides that are named, and takes away those that are null; the others
 * stay. Throws `not_found`, `bad_request` for a plan that there is not, `validation_error` for an override over the plan's
 * ceiling.
 */
export async function setPlan(
  context: Context,
  organizationId: string,
  plan: string,
  patch: QuotaPatch = {},
): Promise<QuotaView> {
  if (!isPlan(plan)) throw new DomainError('bad_request', `no plan \`${plan}\`: one of ${plans.join(', ')}`)
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const before = await readForUpdate(tx)
    const after = patched(plan, before.overrides, patch)
    await save(tx, { type: 'system', id: 'set-plan' }, before, after)
    return after
  })
}

/** Throws `validation_error` for one of `patch` over the plan's ceiling. */
function patched(plan: Plan, overrides: Overrides, patch: QuotaPatch): QuotaView {
  refuseOverCeiling(plan, patch)
  const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
  const merged = Object.entries({ ...overrides, ...named }).filter(([, value]) => value !== null)
  return viewOf(plan, Object.fromEntries(merged))
}

function operatorOnly(organizationId: string): DomainError {
  const message = `who runs the installation sets its limits: \`npm run set-plan -- ${organizationId} PLAN LIMIT=NUMBER\``
  return new DomainError('insufficient_role', message, [{ path: 'operator', message }])
}

const isPlan = (name: string): name is Plan => (plans as readonly string[]).includes(name)

async function readForUpdate(tx: ChainTx): Promise<QuotaView> {
  const row = await tx.trx
    .selectFrom('organizations')
    .select(['plan', 'quota_overrides'])
    .where('id', '=', tx.organizationId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  return viewOf(row.plan, row.quota_overrides)
}

async function save(tx: ChainTx, actor: Actor, before: QuotaView, after: QuotaView): Promise<void> {
  await tx.trx
    .updateTable('organizations')
    .set({ plan: after.plan, quota_overrides: JSON.stringify(after.overrides) })
    .where('id', '=', tx.organizationId)
    .execute()
  tx.policyChanged()
  tx.append({
    eventType: 'quota.updated',
    action: 'update',
    status: 'success',
    actor,
    metadata: { changes: changesOf(before, after) },
  })
  grantSlots(tx, after.effective.concurrent_executions)
}

function changesOf(before: QuotaView, after: QuotaView): Record<string, Json> {
  const names = Object.keys(after.effective) as (keyof Limits)[]
  const changed = names
    .filter((name) => before.effective[name] !== after.effective[name])
    .map((name) => [name, { from: before.effective[name], to: after.effective[name] }] as const)
  const plan = before.plan === after.plan ? [] : [['plan', { from: before.plan, to: after.plan }] as const]
  return Object.fromEntries([...plan, ...changed])
}
