import { isInvitedByOwner } from '../../db/queries/people.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import { isOfDomain, type SignUp } from '../../shared/sign-up-setting.ts'

/**
 * Returns whether an account may be made with this address. Does not check that the person really receives mail at this
 * address. So if only some addresses may sign up, the person must confirm the address before the first sign-in
 * (`mustConfirmFirst`).
 */
export async function maySignUp(
  db: Db,
  { signUp, invitedMayInvite }: Config['people'],
  email: string,
): Promise<boolean> {
  if (signUp.mode === 'open') return true
  if (signUp.mode === 'domain') return isOfDomain(email, signUp.domains)
  return signUp.mode === 'invited' && (await isInvited(db, email, invitedMayInvite))
}

/** Whether people must confirm their address before they sign in. Is true unless everybody may create an account. */
export const mustConfirmFirst = ({ mode }: SignUp): boolean => mode !== 'open'

/**
 * Returns the reason why the installation's settings refuse this address, else null. The answer does not depend on
 * invitations, because strangers must not learn whether an address is invited.
 */
export function refusedToAll(signUp: SignUp, email: string): string | null {
  if (signUp.mode === 'closed') return 'this installation accepts no new accounts: ask its operator'
  if (signUp.mode !== 'domain' || isOfDomain(email, signUp.domains)) return null
  return `accounts are for addresses of ${signUp.domains.map((domain) => `\`${domain}\``).join(', ')}: use such a one`
}

/** Whether the address has an open invitation from a person who is still an owner and may invite strangers. */
async function isInvited(db: Db, email: string, byInvited: boolean): Promise<boolean> {
  const { rows } = await isInvitedByOwner(email.toLowerCase(), byInvited).execute(db)
  return rows[0]?.invited === true
}
