import { isInvitedByOwner } from '../../db/queries/people.ts'
import type { Db } from '../../db/schema/index.ts'
import { newId } from '../../contract/ids.ts'
import type { Config } from '../../shared/config.ts'
import { isOfDomain, type SignUp } from '../../shared/sign-up-setting.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'

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

/** An account for a person of the company whose address nobody has yet. Throws `conflict` if this installation takes none. */
export async function addConfirmedPerson(
  tx: ChainTx,
  { signUp }: Config['people'],
  { email, name }: { readonly email: string; readonly name: string },
): Promise<string> {
  const why = refusedToAll(signUp, email)
  if (why !== null) throw new DomainError('conflict', why)
  const id = newId('user')
  const invited = signUp.mode === 'invited'
  await tx.trx.insertInto('users').values({ id, email, name, email_verified: true, invited }).execute()
  return id
}
