import { sql, type RawBuilder } from 'kysely'

/**
 * Returns the number of approving votes that count now, for a query on `approvals`. It counts the votes that
 * `countingVotes` of src/governance/approvals/requirement.ts counts.
 */
export const countingVotesOf = (allowsOwn: boolean): RawBuilder<number> => sql<number>`(
  select count(*) from approval_votes v
    join memberships m on m.organization_id = approvals.organization_id and m.user_id = v.user_id
  where v.approval_id = approvals.id and v.decision = 'approve'
    and (m.role = 'owner' or (m.role = 'admin' and approvals.approver = 'admin'))
    and (${allowsOwn} or v.user_id <> all(approvals.authors || approvals.requested_by)))`
