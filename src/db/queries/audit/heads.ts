import { sql, type RawBuilder } from 'kysely'

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
  /** The code of the entry at `seq`. */
  readonly mac: string | null
  /** The chain has this entry. */
  readonly is_whole: boolean
}

/** Chains with entries, in the order of the organizations' ids. */
export const headsAfter = (after: string, most: number): RawBuilder<HeadOfChain> => sql`
  select h.organization_id, h.seq, h.hash, e.mac, e.hash is not distinct from h.hash as is_whole
  from chain_head h
  left join audit_events e on e.organization_id = h.organization_id and e.seq = h.seq
  where h.organization_id > ${after} and h.seq > 0
  order by h.organization_id
  limit ${most}`

/** A hash is null if the chain has no entry there. */
export interface EndRow {
  /** As `chain_head` says. */
  readonly seq: number
  readonly hash: string
  /** The hash and the code of the entry at `seq`. */
  readonly last_hash: string | null
  readonly last_mac: string | null
  /** At the kept checkpoint. */
  readonly kept_hash: string | null
  /** At the positions that the process knows; null if there are none. */
  readonly known: Readonly<Record<number, string>> | null
}

export const readEnd = (
  organizationId: string,
  kept: number,
  known: readonly number[],
): RawBuilder<EndRow> => sql`
  select h.seq, h.hash, last.hash as last_hash, last.mac as last_mac, kept.hash as kept_hash,
    (select json_object_agg(e.seq, e.hash) from audit_events e
     where e.organization_id = h.organization_id and e.seq = any(${known}::bigint[])) as known
  from chain_head h
  left join audit_events last on last.organization_id = h.organization_id and last.seq = h.seq
  left join audit_events kept on kept.organization_id = h.organization_id and kept.seq = ${kept}
  where h.organization_id = ${organizationId}`

/** `now` is computed outside the subquery that locks, so it is the time after the wait for the lock. */
export const lockChain = <Head>(given: {
  readonly organizationId: string
  readonly transactionMilliseconds: number
  readonly planning: string
}): RawBuilder<Head> => sql`
  select head.*, clock_timestamp() as now, set_config('transaction_timeout', ${`${given.transactionMilliseconds}`}, true),
         set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
         set_config('plan_cache_mode', ${given.planning}, true),
         set_config('countersign.organization', ${given.organizationId}, true)
  from (select seq, hash, mac, policy_version, frozen, stored_bytes, pending_approvals
        from chain_head where organization_id = ${given.organizationId} for update) as head`
