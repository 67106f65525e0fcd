import { sql, type RawBuilder } from 'kysely'

export interface HeadOfChain {
  readonly organization_id: string
  readonly seq: number
  readonly hash: string
}

/** The heads of at most `most` chains that have entries, behind the organization `after` in the order of their ids. */
export const headsAfter = (after: string, most: number): RawBuilder<HeadOfChain> => sql`
  select organization_id, seq, hash
  from chain_head
  where organization_id > ${after} and seq > 0
  order by organization_id
  limit ${most}`
