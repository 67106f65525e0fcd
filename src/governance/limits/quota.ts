import { isDeepStrictEqual } from 'node:util'
import { countRequests, countRuns, type Counted, type RequestCounts } from '../../db/queries/limits.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Json } from '../../policy/types.ts'
import type { Config } from '../../shared/config.ts'
import type { Actor } from '../audit/entry.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Combiner } from '../audit/combiner.ts'
import { DomainError, notFound, errorAt } from '../errors.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import {
  ceiling,
  effectiveLimits,
  limitNames,
  overridesSchema,
  planLimits,
  plans,
  type Plan,
  type Limits,
  type Overrides,
  type LimitChanges,
  type Usage,
} from '../../contract/plan-limits.ts'
import { grantSlots } from './slots.ts'
import { readUsage } from './storage-counters.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface QuotaView {
  readonly plan: Plan
  readonly limits: Limits
  readonly overrides: Overrides
  readonly effective: Limits
  /** Only in the answer to a request that reads the quota. */
  readonly usage?: Usage
  readonly overrides_by?: 'owner' | 'operator'
}

const quotaView = (plan: Plan, stored: object): QuotaView => ({
  plan,
  limits: planLimits[plan],
  overrides: overridesSchema.parse(stored) as Overrides,
  effective: effectiveLimits(plan, stored),
})

/** Throws `not_found`. */
export async function readQuota(
  { db, config }: { readonly db: Db; readonly config: Pick<Config, 'quotaOverrides'> },
  organizationId: string,
): Promise<QuotaView> {
  const row = await db
    .selectFrom('organizations')
    .select(['plan', 'quota_overrides'])
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  const view = quotaView(row.plan, row.quota_overrides)
  return {
    ...view,
    usage: await usageOf(db, organizationId, view.effective.workflow_runs_per_hour),
    overrides_by: config.quotaOverrides,
  }
}

async function usageOf(db: Db, organizationId: string, mostRuns: number): Promise<Usage> {
  const [stored, requests, runs] = await Promise.all([
    readUsage(db, organizationId),
    countRequests(organizationId, mostRuns).execute(db),
    countRuns({ organizationId, now: new Date(), nthNewest: 0 }).execute(db),
  ])
  const [counted] = requests.rows as [RequestCounts]
  const [{ taken, waiting, spent }] = runs.rows as [Counted]
  return {
    ...stored,
    ...counted,
    concurrent_executions: taken,
    queued_executions: waiting,
    monthly_spend: spent,
  }
}

/**
 * Sets the overrides that `patch` names (commit point `org.change`); null removes one. The new limits hold for what any
 * process accepts after the commit. Throws `validation_error` above the plan's ceiling, and `insufficient_role` if only
 * the operator may set limits.
 */
export async function changeQuota(context: Acting, caller: Caller, patch: LimitChanges): Promise<QuotaView> {
  if (context.config.quotaOverrides === 'operator') throw operatorOnly(caller.organizationId)
  return runAs(context, caller, 'org.change', (tx) => change(tx, actorOf(caller), null, patch))
}

/** null removes an override. Throws `not_found`, `bad_request` (plan), and `validation_error` above its ceiling. */
export async function setPlan(
  combiner: Combiner,
  organizationId: string,
  plan: string,
  patch: LimitChanges = {},
): Promise<QuotaView> {
  const known = plans.find((name) => name === plan)
  if (known === undefined)
    throw new DomainError('bad_request', `no plan \`${plan}\`: choose one of ${plans.join(', ')}`)
  return combiner.run(organizationId, 'org.change', (tx) =>
    change(tx, { type: 'system', id: 'set-plan' }, known, patch),
  )
}

/** Throws `validation_error` if a changed override is above the plan's ceiling. */
function patched(plan: Plan, overrides: Overrides, patch: LimitChanges): QuotaView {
  refuseOverCeiling(plan, patch)
  const named = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined))
  const merged = Object.entries({ ...overrides, ...named }).filter(([, value]) => value !== null)
  return quotaView(plan, Object.fromEntries(merged))
}

/** The error names each override above `ceiling` times the plan's limit. */
function refuseOverCeiling(plan: Plan, overrides: LimitChanges): void {
  const details = limitNames
    .filter((name) => (overrides[name] ?? 0) > ceiling * planLimits[plan][name])
    .map((name) => ({
      path: name,
      message: `at most ${ceiling * planLimits[plan][name]} on plan \`${plan}\`, ${ceiling} times its limit`,
    }))
  const [first] = details
  if (first === undefined) return
  throw new DomainError('validation_error', `\`${first.path}\` is too large: ${first.message}`, details)
}

function operatorOnly(organizationId: string): DomainError {
  return errorAt(
    'insufficient_role',
    'operator',
    `only the operator sets limits here: \`npm run set-plan -- ${organizationId} PLAN LIMIT=NUMBER\``,
  )
}

/** Writes nothing if all is as before. Without a plan, the plan stays. */
async function change(tx: ChainTx, actor: Actor, plan: Plan | null, patch: LimitChanges): Promise<QuotaView> {
  const row = await tx.trx
    .selectFrom('organizations')
    .select(['plan', 'quota_overrides'])
    .where('id', '=', tx.organizationId)
    .forUpdate()
    .executeTakeFirstOrThrow()
  const before = quotaView(row.plan, row.quota_overrides)
  const after = patched(plan ?? before.plan, before.overrides, patch)
  if (before.plan === after.plan && isDeepStrictEqual(before.overrides, after.overrides)) return after
  await tx.trx
    .updateTable('organizations')
    .set({ plan: after.plan, quota_overrides: JSON.stringify(after.overrides) })
    .where('id', '=', tx.organizationId)
    .execute()
  tx.policyChanged()
  tx.append({
    eventType: 'quota.updated',
    action: 'update',
    actor,
    metadata: { changes: changesOf(before, after) },
  })
  grantSlots(tx, after.effective.concurrent_executions)
  return after
}

function changesOf(before: QuotaView, after: QuotaView): Record<string, Json> {
  const names = Object.keys(after.effective) as (keyof Limits)[]
  const changed = names
    .filter((name) => before.effective[name] !== after.effective[name])
    .map((name) => [name, { from: before.effective[name], to: after.effective[name] }] as const)
  const plan = before.plan === after.plan ? [] : [['plan', { from: before.plan, to: after.plan }] as const]
  return Object.fromEntries([...plan, ...changed])
}
