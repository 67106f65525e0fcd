import { sql, type RawBuilder } from 'kysely'

/** Selects whether this address has an open invitation. The person who made the invitation must still be an owner. */
export const isInvitedByOwner = (email: string): RawBuilder<{ readonly invited: boolean }> => sql`
  select exists (
    select from invitations i
    join memberships m on m.organization_id = i.organization_id and m.user_id = i.invited_by and m.role = 'owner'
    where i.email = ${email} and i.accepted_at is null and i.revoked_at is null
      and i.expires_at > clock_timestamp()
  ) as invited`
