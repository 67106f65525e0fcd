import { sql, type RawBuilder } from 'kysely'
import type { Role } from '../../../policy/types.ts'
import { approvalColumns } from './columns.ts'

/**
 * Reads the newest approval that matches `where`. Also reads the approval's tool and the current roles of the
 * approval's voters.
 */
export const newestApproval = <Approval>(
  organizationId: string,
  where: RawBuilder<unknown>,
): RawBuilder<{
  readonly approval: Approval
  readonly tool: string | null
  readonly roles: Record<string, Role> | null
}> => sql`
  select to_json(a) as approval, a.tool, (
      select json_object_agg(user_id, role) from memberships
      where organization_id = ${organizationId}
        and user_id in (select v.user_id from approval_votes v where v.approval_id = a.id)
    ) as roles
  from (select ${approvalColumns}, tool from approvals where ${where} order by id desc limit 1) as a`
