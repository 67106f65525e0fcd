import { sql } from 'kysely'
import { countRuns, type Counted } from '../../db/queries/limits.ts'
import type { Actor, AuditDraft } from '../audit/entry.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { LimitName } from '../../contract/plan-limits.ts'

export interface Exceeded {
  readonly limit: LimitName | PersonLimit
  readonly value: number
  readonly retryAfter: number
}

/** A limit of the installation for each person. Only its operator can raise it. */
type PersonLimit = 'strangers_invited_per_day'

export interface RunCapacity {
  /** Refuses every new run, also one that first waits for its approval and needs no slot yet. */
  readonly refused: Exceeded | null
  /** `queued`: it must wait for a slot. */
  readonly slot: 'taken' | 'queued'
  /** Refuses a run that needs a slot now. null if the queue has room. */
  readonly queueIsFull: Exceeded | null
}

/** A guess: nobody knows when a run ends. */
const untilSlotSeconds = 10

const words: Readonly<Partial<Record<Exceeded['limit'], string>>> = {
  workflow_runs_per_hour: 'runs an hour',
  queued_executions: 'runs that wait for a slot, or for a time',
  monthly_spend: 'units of spend a month',
  memory_mb: 'MiB of memory values',
  storage_mb: 'MiB of stored data',
  pending_approvals: 'approvals that wait for a person',
  rules: 'rules and label rules',
}

/** For these limits, waiting is not the answer. */
const remedies: Readonly<Partial<Record<Exceeded['limit'], string>>> = {
  memory_mb: 'delete values',
  storage_mb: 'delete files or memory values',
  pending_approvals: 'decide or cancel some of them',
  rules: 'delete rules',
}

export function quotaExceeded({ limit, value, retryAfter }: Exceeded): DomainError {
  const message =
    limit === 'strangers_invited_per_day'
      ? `you are at your limit of ${value} in a day for invitations to people who share no organization with you: try again later, or ask the operator of this installation to raise \`${limit.toUpperCase()}\``
      : `${`the organization is at its limit of ${value} ${words[limit] ?? ''}`.trimEnd()}: ${remedies[limit] ?? 'try again later'}, or ask an owner to raise \`${limit}\``
  return new DomainError(
    'quota_exceeded',
    message,
    [{ path: limit, message: `the limit is ${value}` }],
    retryAfter,
  )
}

export const exceededEntry = (
  { limit, value }: Exceeded,
  action: string,
  actor: Actor,
  about: { readonly workflowId?: string; readonly runId?: string } = {},
): AuditDraft<'quota.exceeded'> => ({
  eventType: 'quota.exceeded',
  action,
  status: 'denied',
  actor,
  ...about,
  metadata: { limit, value },
})

/** The chain's lock keeps the counted runs, slots and costs unchanged. */
export async function runCapacity(tx: ChainTx): Promise<RunCapacity> {
  const { limits } = tx.policy
  const [row] = await tx.send(
    countRuns({
      organizationId: tx.organizationId,
      now: tx.now,
      nthNewest: limits.workflow_runs_per_hour - 1,
    }),
  )
  const counted = row as Counted
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

/**
 * Returns the limit of waiting runs if as many runs of the organization wait for a time, else null. These runs hold no
 * slot, so without this limit an organization could leave any number of them open for a year.
 */
export async function waitsOver(tx: ChainTx): Promise<Exceeded | null> {
  const value = tx.policy.limits.queued_executions
  const [row] = await tx.send(sql<{ count: number }>`
    select count(*)::int as count from (
      select distinct run_id from effects
      where organization_id = ${tx.organizationId} and state = 'held' and until is not null limit ${value}) as w`)
  return (row as { count: number }).count < value
    ? null
    : { limit: 'queued_executions', value, retryAfter: untilSlotSeconds }
}
