import { sql, type RawBuilder } from 'kysely'

/**
 * Selects whether this address has an open invitation. The person who made the invitation must still be an owner. Without
 * `byInvited`, invitations of people who were invited themselves do not count.
 */
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
