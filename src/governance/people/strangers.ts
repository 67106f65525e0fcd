import { sql } from 'kysely'
import type { Config } from '../../shared/config.ts'
import type { Caller } from '../access/identity.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { Exceeded } from '../limits/run-quota.ts'

/**
 * Returns whether the address belongs to a stranger: to nobody who shares an organization with the caller. Whether the
 * address has an account makes no difference. Otherwise callers could find out which addresses have one.
 */
export async function sharesNoOrganization(tx: ChainTx, { userId }: Caller, email: string): Promise<boolean> {
  const row = await tx.trx
    .selectFrom('users as u')
    .innerJoin('memberships as theirs', 'theirs.user_id', 'u.id')
    .innerJoin('memberships as own', 'own.organization_id', 'theirs.organization_id')
    .select('u.id')
    .where('own.user_id', '=', userId)
    .where((eb) => eb(eb.fn<string>('lower', ['u.email']), '=', email))
    .executeTakeFirst()
  return row === undefined
}

const daySeconds = 24 * 3600

/**
 * Returns the limit of strangers that one person may invite in a day, if another one would exceed it. All invitations of
 * the person count, in every organization, also those that were revoked. The lock on the person's row makes a concurrent
 * invitation from another organization wait until this one is counted.
 */
export async function strangersOver(
  tx: ChainTx,
  caller: Caller,
  email: string,
  most: number | null,
): Promise<Exceeded | null> {
  if (most === null || !(await sharesNoOrganization(tx, caller, email))) return null
  await sql`select from users where id = ${caller.userId} for no key update`.execute(tx.trx)
  const since = new Date(tx.now.getTime() - daySeconds * 1_000)
  const rows = await tx.trx
    .selectFrom('invitations')
    .select('created_at')
    .where('invited_by', '=', caller.userId)
    .where('to_stranger', '=', true)
    .where('created_at', '>', since)
    .orderBy('created_at', 'desc')
    .limit(most)
    .execute()
  if (rows.length < most) return null
  const oldest = rows.at(-1)?.created_at ?? tx.now
  const retryAfter = Math.max(1, Math.ceil((oldest.getTime() - since.getTime()) / 1_000))
  return { limit: 'strangers_invited_per_day', value: most, retryAfter }
}

/** Throws `conflict` if the caller has an account only because of an invitation, and such people invite no strangers. */
export async function requireMayInviteStrangers(
  tx: ChainTx,
  { userId }: Caller,
  { signUp, invitedMayInvite }: Config['people'],
): Promise<void> {
  if (signUp.mode !== 'invited' || invitedMayInvite) return
  const { invited } = await tx.trx
    .selectFrom('users')
    .select('invited')
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  if (!invited) return
  throw new DomainError(
    'conflict',
    'you were invited to this installation yourself, and can only invite people who already share an organization with you: ask the person who invited you to invite others, or the operator to set `INVITED_MAY_INVITE=true`',
  )
}
