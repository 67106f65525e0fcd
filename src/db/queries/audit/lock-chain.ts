import { sql, type RawBuilder } from 'kysely'

/**
 * Locks the head of an organization’s audit chain, and changes PostgreSQL settings for this transaction. `now` is
 * computed outside the subquery that locks. So `now` is the time after the wait for the lock.
 */
export const lockChain = <Head>({
  organizationId,
  transactionMilliseconds,
  planning,
}: {
  readonly organizationId: string
  readonly transactionMilliseconds: number
  readonly planning: string
}): RawBuilder<Head> => sql`
  select head.*, clock_timestamp() as now, set_config('transaction_timeout', ${`${transactionMilliseconds}`}, true),
         set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
         set_config('plan_cache_mode', ${planning}, true),
         set_config('countersign.organization', ${organizationId}, true)
  from (select seq, hash, mac, policy_version, frozen, stored_bytes, pending_approvals
        from chain_head where organization_id = ${organizationId} for update) as head`
