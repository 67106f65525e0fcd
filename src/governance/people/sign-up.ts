import { isInvitedByOwner } from '../../db/queries/people.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import { isOfDomain, type SignUp } from '../../shared/sign-up-setting.ts'

/** People may not receive mail there. If only some may sign up, they must confirm it (`mustConfirmFirst`). */
export async function maySignUp(
  db: Db,
  { signUp, invitedMayInvite }: Config['people'],
  email: string,
): Promise<boolean> {
  if (signUp.mode === 'open') return true
  if (signUp.mode === 'domain') return isOfDomain(email, signUp.domains)
  if (signUp.mode !== 'invited') return false
  const { rows } = await isInvitedByOwner(email.toLowerCase(), invitedMayInvite).execute(db)
  return rows[0]?.invited === true
}

export const mustConfirmFirst = ({ mode }: SignUp): boolean => mode !== 'open'

/** Does not depend on invitations: strangers must not learn whether an address is invited. */
export function refusedToAll(signUp: SignUp, email: string): string | null {
  if (signUp.mode === 'closed') return 'this installation accepts no new accounts: ask its operator'
  if (signUp.mode !== 'domain' || isOfDomain(email, signUp.domains)) return null
  return `accounts are for addresses of ${signUp.domains.map((domain) => `\`${domain}\``).join(', ')}: use such a one`
}
