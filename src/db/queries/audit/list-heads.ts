import { sql, type RawBuilder } from 'kysely'

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
}

/**
 * Selects the heads of chains that have entries, in the order of the organizations' ids. Begins after the id `after`,
 * and selects at most `most` heads.
 */
export const headsAfter = (after: string, most: number): RawBuilder<HeadOfChain> => sql`
  select organization_id, seq, hash
  from chain_head
  where organization_id > ${after} and seq > 0
  order by organization_id
  limit ${most}`
