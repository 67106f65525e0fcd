import { sql, type RawBuilder } from 'kysely'

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
  /** The code of the entry at `seq`. */
  readonly mac: string | null
  /** Whether the chain has this entry. */
  readonly is_whole: boolean
}

/**
 * Selects the heads of chains that have entries, in the order of the organizations' ids. Begins after the id `after`,
 * and selects at most `most` heads.
 */
export const headsAfter = (after: string, most: number): RawBuilder<HeadOfChain> => sql`
  select h.organization_id, h.seq, h.hash, e.mac, e.hash is not distinct from h.hash as is_whole
  from chain_head h
  left join audit_events e on e.organization_id = h.organization_id and e.seq = h.seq
  where h.organization_id > ${after} and h.seq > 0
  order by h.organization_id
  limit ${most}`
