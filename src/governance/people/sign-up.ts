import { isInvitedByOwner } from '../../db/queries/people/is-invited.ts'
import type { Db } from '../../db/schema/index.ts'
import { isOfDomain, type SignUp } from '../../shared/sign-up-setting.ts'

/**
 * Whether an account may be made with this address. Nobody has proven yet that they read its mail. A person who may
 * sign up only because of the address must confirm it before they sign in (`mustConfirmFirst`).
 */
export async function maySignUp(db: Db, signUp: SignUp, email: string): Promise<boolean> {
  if (signUp.mode === 'open') return true
  if (signUp.mode === 'domain') return isOfDomain(email, signUp.domains)
  return signUp.mode === 'invited' && (await isInvited(db, email))
}

/** Whether people must confirm their address before they sign in: if only some addresses may have accounts. */
export const mustConfirmFirst = ({ mode }: SignUp): boolean => mode !== 'open'

/**
 * Why no such address can sign up, if only the installation's settings decide it; else null. Strangers must not learn
 * whether an address is invited.
 */
export function refusedToAll(signUp: SignUp, email: string): string | null {
  if (signUp.mode === 'closed') return 'this installation accepts no new accounts: ask its operator'
  if (signUp.mode !== 'domain' || isOfDomain(email, signUp.domains)) return null
  return `accounts are for addresses of ${signUp.domains.map((domain) => `\`${domain}\``).join(', ')}: use such a one`
}

/** Whether the address has an open invitation by a present owner. */
async function isInvited(db: Db, email: string): Promise<boolean> {
  const { rows } = await isInvitedByOwner(email.toLowerCase()).execute(db)
  return rows[0]?.invited === true
}
