import { randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import { newId } from '../../contract/ids.ts'
import type { InvitationsTable } from '../../db/schema/identity.ts'
import type { Role } from '../../policy/types.ts'
import { sha256 } from '../canonical.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'
import { addressNotProven, requireProvenAddress } from './address-proof.ts'
import { roleUnderLock } from './members.ts'
import { growAs } from '../quotas/storage.ts'
import { requireRole, requireStillValid, runAs } from '../standing.ts'

/** An invitation as owners see it: never its token, of which only a hash is kept. */
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
 * Invites the person with this address; an invitation of theirs that is still open is replaced. The token is answered
 * this once. Errors: `conflict` in a personal organization and for who is a member; `insufficient_role` for a role above
 * the inviter's own; `conflict` too for an inviter whose own address is not confirmed.
 */
export async function invite(
  context: Context,
  caller: Caller,
  input: {
    readonly email: string
    readonly role: Role
    readonly seconds: number
    readonly mailed: boolean
  },
  once: Once | null = null,
): Promise<InvitationView & { readonly token: string; readonly organization_name: string }> {
  const token = randomBytes(32).toString('base64url')
  const email = input.email.toLowerCase()
  return growAs(context, caller, 'org.change', {
    action: 'invite',
    async work(tx, now) {
      const { role } = await now()
      requireRole(role, 'owner')
      requireRole(role, input.role)
      await requireProvenAddress(tx, caller.userId)
      const name = await requireShared(tx)
      await requireNoMember(tx, email)
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
        created_at: tx.now,
        expires_at: new Date(tx.now.getTime() + input.seconds * 1_000),
        accepted_at: null,
        accepted_by: null,
        revoked_at: null,
      }
      await tx.trx.insertInto('invitations').values(row).execute()
      append(tx, caller, 'member.invited', row)
      const made = { ...viewOf(row, tx.now), token, organization_name: name }
      await once?.markActed(tx.trx, made)
      return made
    },
  })
}

export async function listInvitations(
  context: Context,
  caller: Caller,
  page: PageRequest,
): Promise<Page<InvitationView>> {
  const query = context.db
    .selectFrom('invitations')
    .selectAll()
    .select(sql<Date>`clock_timestamp()`.as('now'))
    .where('organization_id', '=', caller.organizationId)
  return viewPage(await readPage(context.db, query, 'id', page, (row) => row.id), (row) =>
    viewOf(row, row.now),
  )
}

/** Takes an open invitation back. One that was accepted is `conflict`: remove the member instead. */
export async function revokeInvitation(context: Context, caller: Caller, id: string): Promise<void> {
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
    append(tx, caller, 'invitation.revoked', row)
  })
}

/**
 * Joins by an invitation's token, once. To the eye of who was not invited there is no invitation: `not_found` for a token
 * that is unknown, used, revoked, over its time, for another address, or from an inviter who is no owner any more. `conflict` while the address is not confirmed.
 */
export async function acceptInvitation(
  context: Context,
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
    // Before anything is judged: whoever has taken the key over may have accepted it meanwhile.
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
    append(tx, caller, 'member.joined', row)
    return made
  })
}

const noInvitation = () => new DomainError('not_found', 'there is no such invitation for you')
const isMember = () =>
  new DomainError('conflict', 'this person is a member already: change their role instead')

/** A personal organization is one person's: `conflict`. Answers the name of any other. */
async function requireShared(tx: ChainTx): Promise<string> {
  const { name, personal } = await tx.trx
    .selectFrom('organizations')
    .select(['name', 'personal'])
    .where('id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (personal)
    throw new DomainError(
      'conflict',
      'a personal organization has one member: make an organization and invite there',
    )
  return name
}

/** Mails that one person's invitations may cause in an hour: to one address, and in all. */
const mailsAnHour = { address: 5, all: 100 }

/** Whom the service writes to, the person chooses: `quota_exceeded` before it becomes a nuisance to strangers. */
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

function append(
  tx: ChainTx,
  caller: Caller,
  eventType: string,
  { id, role }: { readonly id: string; readonly role: Role },
): void {
  tx.append({
    eventType,
    action: eventType.slice(eventType.indexOf('.') + 1),
    status: 'success',
    actor: actorOf(caller),
    metadata: { invitation_id: id, role },
  })
}

function statusOf(row: Selectable<InvitationsTable>, now: Date): InvitationView['status'] {
  if (row.accepted_at !== null) return 'accepted'
  if (row.revoked_at !== null) return 'revoked'
  return row.expires_at > now ? 'pending' : 'expired'
}

function viewOf(row: Selectable<InvitationsTable>, now: Date): InvitationView {
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
