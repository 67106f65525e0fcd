import { sql } from 'kysely'
import type { Actor, AuditDraft } from '../audit.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { LimitName } from './limits.ts'

/** A limit that a run would go over. */
export interface Exceeded {
  readonly limit: LimitName
  readonly value: number
  /** Seconds. */
  readonly retryAfter: number
}

export interface RunRoom {
  /** The run cannot be accepted, whatever it waits for. */
  readonly refused: Exceeded | null
  /** Whether it may start now. */
  readonly slot: 'taken' | 'queued'
  /** It cannot be accepted if it needs a slot now. */
  readonly queueIsFull: Exceeded | null
}

interface Counted {
  /** When the run that has to leave the hour before another fits was accepted. */
  leaving: Date | null
  spent: number
  next_month: Date
  taken: number
  waiting: number
}

/** A guess: nobody knows when a run ends. */
const untilSlotSeconds = 10

const words: Readonly<Partial<Record<LimitName, string>>> = {
  workflow_runs_per_hour: 'runs an hour',
  queued_executions: 'waiting runs',
  monthly_spend: 'units of spend a month',
  memory_mb: 'MiB of memory values',
  storage_mb: 'MiB kept for it',
  pending_approvals: 'approvals that wait for a person',
  rules: 'rules and label rules',
}

/** The refusal as callers see it: its details name the limit and its value (contract section 1). */
export function quotaExceeded({ limit, value, retryAfter }: Exceeded): DomainError {
  const message = `the organization is at its limit of ${value} ${words[limit] ?? ''}`.trimEnd()
  return new DomainError(
    'quota_exceeded',
    `${message}: try again later, or ask an owner to raise \`${limit}\``,
    [{ path: limit, message: `the limit is ${value}` }],
    retryAfter,
  )
}

/** The audit entry that stays of a refusal. */
export const exceededEntry = (
  { limit, value }: Exceeded,
  action: string,
  actor: Actor,
  about: { readonly workflowId?: string; readonly runId?: string } = {},
): AuditDraft => ({
  eventType: 'quota.exceeded',
  action,
  status: 'denied',
  actor,
  ...about,
  metadata: { limit, value },
})

/**
 * Counts an organization's runs, under its lock (specification, "Quota"): those accepted in the last hour, those with a
 * slot, those that wait for one, and what the runs accepted in this calendar month (UTC) have cost.
 */
export async function roomForRun(tx: ChainTx): Promise<RunRoom> {
  const { limits } = tx.policy
  const counted = await countRuns(tx)
  const isFree = counted.waiting === 0 && counted.taken < limits.concurrent_executions
  const over = (limit: LimitName, retryAfter: number): Exceeded => ({
    limit,
    value: limits[limit],
    retryAfter: Math.max(1, Math.ceil(retryAfter)),
  })
  const until = (time: Date): number => (time.getTime() - tx.now.getTime()) / 1_000
  return {
    refused:
      counted.leaving !== null
        ? over('workflow_runs_per_hour', until(counted.leaving) + 3_600)
        : counted.spent >= limits.monthly_spend
          ? over('monthly_spend', until(counted.next_month))
          : null,
    slot: isFree ? 'taken' : 'queued',
    queueIsFull:
      counted.waiting >= limits.queued_executions ? over('queued_executions', untilSlotSeconds) : null,
  }
}

async function countRuns(tx: ChainTx): Promise<Counted> {
  const { organizationId: id, now, policy } = tx
  const [row] = await tx.send(sql<Counted>`
    select
      (select created_at from runs
       where organization_id = ${id} and created_at > ${now}::timestamptz - interval '1 hour'
       order by created_at desc offset ${policy.limits.workflow_runs_per_hour - 1} limit 1) as leaving,
      (select coalesce(sum(cost), 0)::float8 from runs
       where organization_id = ${id} and cost > 0
         and created_at >= date_trunc('month', ${now}::timestamptz, 'UTC')) as spent,
      date_trunc('month', ${now}::timestamptz, 'UTC') + interval '1 month' as next_month,
      (select count(*)::int from runs where organization_id = ${id} and slot = 'taken') as taken,
      (select count(*)::int from runs where organization_id = ${id} and slot in ('queued', 'waits')) as waiting`)
  return row as Counted
}
