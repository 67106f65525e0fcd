import { sql, type RawBuilder } from 'kysely'

/** The end of a chain. A hash is null if the chain has no entry at that position. */
export interface EndRow {
  /** The position of the last entry, as `chain_head` names it. */
  readonly seq: number
  readonly hash: string
  /** The hash and the code of the entry at `seq`. */
  readonly last_hash: string | null
  readonly last_mac: string | null
  /** The hash of the entry at the position of the kept checkpoint. */
  readonly kept_hash: string | null
  /** The hashes of the entries at the positions that the process knows. Is null if none of these entries exists. */
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
