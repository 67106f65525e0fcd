import { randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import type { Changing } from '../context.ts'
import { newId } from '../../contract/ids.ts'
import type { InvitationsTable } from '../../db/schema/identity.ts'
import type { Role } from '../../policy/types.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { owned } from '../page.ts'
import { addressNotProven, requireProvenCaller } from '../access/address-proof.ts'
import { requireRole, requireStillValid, roleUnderLock, runAs, type Acting } from '../access/recheck.ts'
import { growAs } from '../limits/storage.ts'
import type { Config } from '../../shared/config.ts'
import type { Exceeded } from '../limits/run-quota.ts'

/** The database has only a hash of the token. */
export interface InvitationView {
  readonly id: string
  readonly organization_id: string
  readonly email: string
  readonly role: Role
  readonly status: 'pending' | 'accepted' | 'revoked' | 'expired'
  readonly invited_by: string
  readonly created_at: string
  readonly expires_at: string
}

/**
 * Revokes an open invitation to this address. Only this call returns the token. `organization_name` is null if the mail
 * must not say it.
 *
 * Throws `insufficient_role` if the caller is no owner. Throws `conflict` for a personal organization, a member, an
 * unconfirmed caller, and a stranger whom the caller may not invite; `quota_exceeded` after too many mails, or too many
 * strangers in a day.
 */
export async function invite(
  context: Acting,
  caller: Caller,
  input: {
    readonly email: string
    readonly role: Role
    readonly seconds: number
    readonly mailed: boolean
  },
  once: Once | null = null,
): Promise<InvitationView & { readonly token: string; readonly organization_name: string | null }> {
  const token = randomBytes(32).toString('base64url')
  const email = input.email.toLowerCase()
  const { invitationsNameOrganizations: mayName } = context.config.people
  return growAs(context, caller, 'org.change', {
    action: 'invite',
    exceeded: (tx) => strangersOver(tx, caller, email, context.config.people.strangersPerDay),
    async work(tx, now) {
      const present = await now()
      requireRole(present.role, 'owner')
      requireRole(present.role, input.role)
      await requireProvenCaller(tx, present)
      const name = await requireShared(tx)
      await requireNoMember(tx, email)
      const isStranger = await sharesNoOrganization(tx, caller, email)
      if (isStranger) await requireMayInviteStrangers(tx, caller, context.config.people)
      if (input.mailed) await requireMailsLeft(tx, caller, email)
      await tx.trx
        .updateTable('invitations')
        .set({ revoked_at: tx.now })
        .where('organization_id', '=', tx.organizationId)
        .where('email', '=', email)
        .where('accepted_at', 'is', null)
        .where('revoked_at', 'is', null)
        .where('expires_at', '>', tx.now)
        .execute()
      const row = {
        id: newId('invitation'),
        organization_id: tx.organizationId,
        email,
        role: input.role,
        token_hash: sha256(token),
        invited_by: caller.userId,
        mailed_at: input.mailed ? tx.now : null,
        to_stranger: isStranger,
        created_at: tx.now,
        expires_at: new Date(tx.now.getTime() + input.seconds * 1_000),
        accepted_at: null,
        accepted_by: null,
        revoked_at: null,
      }
      await tx.trx.insertInto('invitations').values(row).execute()
      appendInvitationEvent(tx, caller, 'member.invited', row)
      return keepMade(once, tx, {
        ...invitationView(row, tx.now),
        token,
        organization_name: isStranger && !mayName ? null : name,
      })
    },
  })
}

export const invitationRows = owned({
  table: 'invitations',
  kind: 'invitation',
  word: 'invitation',
  view: (row: Selectable<InvitationsTable> & { readonly now: Date }) => invitationView(row, row.now),
})

/** Throws `conflict` if it was accepted: an owner must remove the member. */
export async function revokeInvitation(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await tx.trx
      .selectFrom('invitations')
      .selectAll()
      .where('id', '=', id)
      .where('organization_id', '=', tx.organizationId)
      .executeTakeFirst()
    if (row === undefined) throw notFound('invitation', id)
    if (row.accepted_at !== null)
      throw new DomainError('conflict', 'the invitation was accepted: remove the member instead')
    if (row.revoked_at !== null) return
    await tx.trx.updateTable('invitations').set({ revoked_at: tx.now }).where('id', '=', id).execute()
    appendInvitationEvent(tx, caller, 'invitation.revoked', row)
  })
}

/** Works once. Throws `not_found` unless it is valid for this person; `conflict` (unconfirmed, or a member). */
export async function acceptInvitation(
  context: Changing,
  caller: Caller,
  token: string,
  once: Once | null = null,
): Promise<{ readonly organization_id: string; readonly role: Role }> {
  const found = await context.db
    .selectFrom('invitations as i')
    .innerJoin('users as u', (join) => join.on('u.id', '=', caller.userId))
    .select(['i.id', 'i.organization_id', 'i.email', 'u.email as own', 'u.email_verified'])
    .where('i.token_hash', '=', sha256(token))
    .executeTakeFirst()
  if (found === undefined || found.own.toLowerCase() !== found.email) throw noInvitation()
  if (!found.email_verified) throw addressNotProven()
  return context.combiner.run(found.organization_id, 'org.change', async (tx) => {
    await requireStillValid(context, tx, caller)
    const row = await tx.trx
      .selectFrom('invitations')
      .selectAll()
      .where('id', '=', found.id)
      .executeTakeFirstOrThrow()
    const made = { organization_id: tx.organizationId, role: row.role }
    // First, because another request with this key may have accepted it meanwhile: the checks below would throw a wrong
    // error.
    await once?.markActed(tx.trx, made)
    const inviter = await roleUnderLock(tx, row.invited_by)
    if (statusOf(row, tx.now) !== 'pending' || inviter !== 'owner') throw noInvitation()
    if ((await roleUnderLock(tx, caller.userId)) !== null) throw isMember()
    await tx.trx
      .insertInto('memberships')
      .values({ organization_id: tx.organizationId, user_id: caller.userId, role: row.role })
      .execute()
    await tx.trx
      .updateTable('invitations')
      .set({ accepted_at: tx.now, accepted_by: caller.userId })
      .where('id', '=', row.id)
      .execute()
    appendInvitationEvent(tx, caller, 'member.joined', row)
    return made
  })
}

const noInvitation = () => new DomainError('not_found', 'there is no such invitation for you')
const isMember = () =>
  new DomainError('conflict', 'this person is already a member: change their role instead')

/** A personal organization can have only one member. */
async function requireShared(tx: ChainTx): Promise<string> {
  const { name, personal } = await tx.trx
    .selectFrom('organizations')
    .select(['name', 'personal'])
    .where('id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (personal)
    throw new DomainError(
      'conflict',
      'a personal organization has one member: create another organization and invite there',
    )
  return name
}

/** Per hour, for the invitations of one person. */
export const mailsAnHour = { address: 5, all: 100 }

/** So that nobody can flood strangers with mails. */
async function requireMailsLeft(tx: ChainTx, { userId }: Caller, email: string): Promise<void> {
  const { rows } = await sql<{ address: number; all: number }>`
    select count(*)::int as all, (count(*) filter (where email = ${email}))::int as address
    from invitations where invited_by = ${userId} and mailed_at > ${tx.now}::timestamptz - interval '1 hour'`.execute(
    tx.trx,
  )
  const { address, all } = rows[0] as { address: number; all: number }
  if (address < mailsAnHour.address && all < mailsAnHour.all) return
  const reached =
    address < mailsAnHour.address ? `${mailsAnHour.all}` : `${mailsAnHour.address} to one address`
  const message = `your invitations have caused ${reached} mails in an hour: send \`send_mail: false\` and hand the link over`
  throw new DomainError('quota_exceeded', message, [{ path: 'send_mail', message }], 3_600)
}

async function requireNoMember(tx: ChainTx, email: string): Promise<void> {
  const row = await tx.trx
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .select('u.id')
    .where('m.organization_id', '=', tx.organizationId)
    .where((eb) => eb(eb.fn<string>('lower', ['u.email']), '=', email))
    .executeTakeFirst()
  if (row !== undefined) throw isMember()
}

function appendInvitationEvent(
  tx: ChainTx,
  caller: Caller,
  eventType: 'member.invited' | 'member.joined' | 'invitation.revoked',
  { id, role }: { readonly id: string; readonly role: Role },
): void {
  tx.append({
    eventType,
    action: eventType.slice(eventType.indexOf('.') + 1),
    actor: actorOf(caller),
    metadata: { invitation_id: id, role },
  })
}

function statusOf(row: Selectable<InvitationsTable>, now: Date): InvitationView['status'] {
  if (row.accepted_at !== null) return 'accepted'
  if (row.revoked_at !== null) return 'revoked'
  return row.expires_at > now ? 'pending' : 'expired'
}

function invitationView(row: Selectable<InvitationsTable>, now: Date): InvitationView {
  const { id, organization_id, email, role, invited_by } = row
  return {
    id,
    organization_id,
    email,
    role,
    status: statusOf(row, now),
    invited_by,
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at.toISOString(),
  }
}

/** Nobody in the caller's organizations. An account makes no difference, or callers could find it out. */
async function sharesNoOrganization(tx: ChainTx, { userId }: Caller, email: string): Promise<boolean> {
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

/** In a day, in every organization, also revoked ones. The lock on the person's row makes a concurrent one wait. */
async function strangersOver(
  tx: ChainTx,
  caller: Caller,
  email: string,
  most: number | null,
): Promise<Exceeded | null> {
  if (most === null || !(await sharesNoOrganization(tx, caller, email))) return null
  await sql`select from users where id = ${caller.userId} for no key update`.execute(tx.trx)
  const since = new Date(tx.now.getTime() - 24 * 3600 * 1_000)
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

/** If the caller was invited, and invited people may invite no strangers. */
async function requireMayInviteStrangers(
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
