import { sql, type RawBuilder } from 'kysely'

/** A decision, with the columns that identify its call. */
export interface CallDecision {
  readonly id: string
  readonly run_id: string | null
  readonly step_id: string | null
  /** Is -1 for a step without `for_each`. */
  readonly item_index: number
  readonly session_id: string | null
  readonly tool_use_id: string | null
  readonly params_hash: string | null
  readonly approval_id: string | null
  /** The earlier approval that the decision's approval replaced. */
  readonly supersedes_id: string | null
  readonly decided_at: Date
  /** The size of the sealed parameters of the call. Is 0 if the parameters were not kept. */
  readonly bytes: number
}

/** Selects the newest decisions of an organization, at most `most`. `since` is inclusive, and `until` is exclusive. */
export const newestDecisions = (
  organizationId: string,
  { since, until }: { readonly since: Date | null; readonly until: Date | null },
  most: number,
): RawBuilder<CallDecision> => sql`
  select d.id, d.run_id, d.step_id, coalesce(d.item_index, -1) as item_index, d.session_id, d.tool_use_id, d.params_hash,
    d.approval_id, a.supersedes_id, d.decided_at,
    coalesce(octet_length(e.params_sealed), octet_length(a.params_sealed), 0) as bytes
  from decisions d
  left join approvals a on a.id = d.approval_id
  left join effects e on e.run_id = d.run_id and e.step_id = d.step_id and e.item_index = coalesce(d.item_index, -1)
  where d.organization_id = ${organizationId} and d.decided_at >= coalesce(${since}::timestamptz, '-infinity')
    and d.decided_at < coalesce(${until}::timestamptz, 'infinity')
  order by d.decided_at desc, d.id desc limit ${most}`
