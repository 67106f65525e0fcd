import { sql, type Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import { isOfDomain, type SignUp } from '../../sign-up-setting.ts'

/**
 * Whether somebody may make an account with this address. Nobody has proven yet that they read its mail: whoever may sign up
 * only because of the address must confirm it before they sign in (`mustConfirmFirst`).
 */
export async function maySignUp(db: Kysely<Database>, signUp: SignUp, email: string): Promise<boolean> {
  if (signUp.mode === 'open') return true
  if (signUp.mode === 'domain') return isOfDomain(email, signUp.domains)
  return signUp.mode === 'invited' && (await isInvited(db, email))
}

/** Where an account is for some addresses only, a person signs in once theirs is confirmed. */
export const mustConfirmFirst = ({ mode }: SignUp): boolean => mode !== 'open'

/**
 * Why nobody with such an address can sign up, where that depends on the installation alone; null else. Whether an address is
 * invited is not for strangers to learn.
 */
export function refusedToAll(signUp: SignUp, email: string): string | null {
  if (signUp.mode === 'closed') return 'this installation takes no new accounts: ask who runs it'
  if (signUp.mode !== 'domain' || isOfDomain(email, signUp.domains)) return null
  return `accounts are for addresses of ${signUp.domains.map((domain) => `\`${domain}\``).join(', ')}: use such a one`
}

/** An invitation that could be accepted now: open, and by an owner who still is one. */
async function isInvited(db: Kysely<Database>, email: string): Promise<boolean> {
  const { rows } = await sql<{ invited: boolean }>`
    select exists (
      select from invitations i
      join memberships m on m.organization_id = i.organization_id and m.user_id = i.invited_by and m.role = 'owner'
      where i.email = ${email.toLowerCase()} and i.accepted_at is null and i.revoked_at is null
        and i.expires_at > clock_timestamp()
    ) as invited`.execute(db)
  return rows[0]?.invited === true
}
