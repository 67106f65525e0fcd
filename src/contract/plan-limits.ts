import { z } from 'zod'

export const plans = ['free', 'pro', 'enterprise'] as const
export type Plan = (typeof plans)[number]

/**
 * Every limit is at least 1. `monthly_spend` is in units of the currency, and `_mb` means MiB.
 * `concurrent_executions` and `queued_executions` count runs, `authorize_per_minute` counts requests.
 */
export const limitNames = [
  'workflow_runs_per_hour',
  'concurrent_executions',
  'queued_executions',
  'monthly_spend',
  'requests_per_minute',
  'requests_per_day',
  'authorize_per_minute',
  'memory_mb',
  'storage_mb',
  'pending_approvals',
  'rules',
] as const
export type LimitName = (typeof limitNames)[number]
export type Limits = Readonly<Record<LimitName, number>>
export type Overrides = Readonly<Partial<Limits>>

const row = (...values: readonly number[]): Limits =>
  Object.fromEntries(limitNames.map((name, index) => [name, values[index]])) as unknown as Limits

/** The numbers are in the order of `limitNames`. */
export const planLimits: Readonly<Record<Plan, Limits>> = {
  free: row(60, 5, 100, 50, 60, 1_000, 600, 256, 512, 1_000, 2_000),
  pro: row(600, 25, 1_000, 500, 300, 50_000, 6_000, 1_024, 10_240, 10_000, 2_000),
  enterprise: row(6_000, 250, 10_000, 5_000, 1_000, 1_000_000, 60_000, 4_096, 102_400, 100_000, 2_000),
}

/** An override is at most this many times the plan's limit. */
export const ceiling = 100

const shape = <T extends z.ZodType>(field: T) =>
  Object.fromEntries(limitNames.map((name) => [name, field])) as Record<LimitName, T>

export const limitsSchema = z.strictObject(shape(z.int().min(1)))
export const usageSchema = z.strictObject(shape(z.number().min(0)))
export type Usage = z.infer<typeof usageSchema>
/** A limit without an override is absent. */
export const overridesSchema = z.strictObject(shape(z.int().min(1).optional()))
/** null removes an override, and an absent limit stays as it is. `refuseOverCeiling` checks the maximum. */
export const limitChanges = z.strictObject(shape(z.int().min(1).nullable().optional()))
export type LimitChanges = z.infer<typeof limitChanges>

/** An override can be too high after a change of plan. Then `ceiling` times the plan's limit applies. */
export function effectiveLimits(plan: Plan, stored: object): Limits {
  if (Object.keys(stored).length === 0) return planLimits[plan]
  const overrides = overridesSchema.parse(stored)
  return Object.fromEntries(
    limitNames.map((name) => {
      const given = planLimits[plan][name]
      return [name, Math.min(overrides[name] ?? given, ceiling * given)]
    }),
  ) as unknown as Limits
}

/** Addresses of people in one call and in one form. */
export const mostInvited = 50
