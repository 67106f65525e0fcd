import { sql, type RawBuilder } from 'kysely'

/** The inviter must still be an owner and, without `byInvited`, must not have been invited themselves. */
export const isInvitedByOwner = (
  email: string,
  byInvited: boolean,
): RawBuilder<{ readonly invited: boolean }> => sql`
  select exists (
    select from invitations i
    join memberships m on m.organization_id = i.organization_id and m.user_id = i.invited_by and m.role = 'owner'
    join users u on u.id = i.invited_by and (${byInvited} or not u.invited)
    where i.email = ${email} and i.accepted_at is null and i.revoked_at is null
      and i.expires_at > clock_timestamp()
  ) as invited`
