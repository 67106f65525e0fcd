import { z } from 'zod'
import type { Plan } from '../../db/schema/identity.ts'
import { DomainError } from '../errors.ts'

/** Each is at least 1: runs in the last hour, runs at once, waiting runs, currency units a month, requests, MiB, approvals, rules. */
const limitNames = [
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

/** What each plan gives, in the order of `limitNames` (specification, "Limits"; contract section 8). */
export const planLimits: Readonly<Record<Plan, Limits>> = {
  free: row(60, 5, 100, 50, 60, 1_000, 600, 256, 512, 1_000, 2_000),
  pro: row(600, 25, 1_000, 500, 300, 50_000, 6_000, 1_024, 10_240, 10_000, 2_000),
  enterprise: row(6_000, 250, 10_000, 5_000, 1_000, 1_000_000, 60_000, 4_096, 102_400, 100_000, 2_000),
}

/** An override may be at most so many times what the plan gives (specification, "Limits"). */
const ceiling = 100

const shape = <T extends z.ZodType>(field: T) =>
  Object.fromEntries(limitNames.map((name) => [name, field])) as Record<LimitName, T>

export const limitsSchema = z.strictObject(shape(z.int().min(1)))
/** What an owner has set instead: any of the limits. */
export const overridesSchema = z.strictObject(shape(z.int().min(1).optional()))
/**
 * Body of PATCH: any of the limits, whole and positive; null takes an override away. The ceiling depends on the plan:
 * `refuseOverCeiling`.
 */
export const quotaPatch = z.strictObject(shape(z.int().min(1).nullable().optional()))
export type QuotaPatch = z.infer<typeof quotaPatch>

/** Throws `validation_error` naming each override over 100 times what the plan gives. */
export function refuseOverCeiling(plan: Plan, overrides: QuotaPatch): void {
  const details = limitNames
    .filter((name) => (overrides[name] ?? 0) > ceiling * planLimits[plan][name])
    .map((name) => ({
      path: name,
      message: `at most ${ceiling * planLimits[plan][name]} on plan \`${plan}\`, ${ceiling} times what it gives`,
    }))
  const [first] = details
  if (first === undefined) return
  throw new DomainError('validation_error', `\`${first.path}\` is too large: ${first.message}`, details)
}

/** The limits that hold. An override that a smaller plan's ceiling has come down below counts as that ceiling. */
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
