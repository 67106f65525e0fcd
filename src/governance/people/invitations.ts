import { randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import type { Changing } from '../context.ts'
import { newId, serviceDomain } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import type { InvitationsTable } from '../../db/schema/identity.ts'
import type { Role } from '../../policy/types.ts'
import { sha256 } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { owned } from '../page.ts'
import { addressNotProven, proveAddress, requireProvenCaller } from '../access/address-proof.ts'
import {
  requireRole,
  requireStillValid,
  roleUnderLock,
  runAs,
  type Acting,
  type PresentCaller,
} from '../access/recheck.ts'
import { growAs } from '../limits/storage.ts'
import type { Config } from '../../shared/config.ts'
import { quotaExceeded, type Exceeded } from '../limits/run-quota.ts'

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

export interface Invited {
  readonly email: string
  readonly role: Role
  readonly seconds: number
  readonly mailed: boolean
}

/** Only the call that makes it has the token. `organization_name` is null if the mail must not say it. */
export type NewInvitation = InvitationView & {
  readonly token: string
  /** For the mail alone; null if none is sent. Who can send it back has read the mail. */
  readonly proof: string | null
  readonly organization_name: string | null
}

/**
 * Revokes an open invitation to this address.
 *
 * Throws `insufficient_role` if the caller is no owner. Throws `conflict` for a personal organization, a member, an
 * unconfirmed caller, and a stranger whom the caller may not invite; `quota_exceeded` after too many mails, or too many
 * strangers in a day.
 */
export async function invite(
  context: Acting,
  caller: Caller,
  input: Invited,
  once: Once | null = null,
): Promise<NewInvitation> {
  const { strangersPerDay } = context.config.people
  return growAs(context, caller, 'org.change', {
    action: 'invite',
    exceeded: (tx) => strangersOver(tx, caller, input.email.toLowerCase(), strangersPerDay),
    async work(tx, now) {
      const name = await requireMayInvite(tx, await now(), input.role)
      return keepMade(once, tx, await inviteOne(context, tx, caller, { ...input, name }))
    },
  })
}

export interface SeveralInvited {
  readonly invitations: readonly NewInvitation[]
  readonly refused: readonly { readonly email: string; readonly code: string; readonly message: string }[]
}

/** In one transaction; an address that cannot be invited stops no other one. Throws if nobody can be invited. */
export async function inviteSeveral(
  context: Acting,
  caller: Caller,
  { emails, unreadable }: { readonly emails: readonly string[]; readonly unreadable: readonly string[] },
  input: Omit<Invited, 'email'>,
  once: Once | null = null,
): Promise<SeveralInvited> {
  return growAs(context, caller, 'org.change', {
    action: 'invite',
    async work(tx, now) {
      const name = await requireMayInvite(tx, await now(), input.role)
      const invitations: NewInvitation[] = []
      const refused = unreadable.map((email) => ({
        email,
        code: 'validation_error',
        message: 'is no address',
      }))
      for (const email of new Set(emails.map((each) => each.toLowerCase())))
        try {
          const over = await strangersOver(tx, caller, email, context.config.people.strangersPerDay)
          if (over !== null) throw quotaExceeded(over)
          invitations.push(await inviteOne(context, tx, caller, { ...input, email, name }))
        } catch (error) {
          // `inviteOne` writes only after its checks. An error of the database undoes everything.
          if (!(error instanceof DomainError)) throw error
          const [detail] = error.code === 'quota_exceeded' ? [] : error.details
          refused.push({ email, code: error.code, message: detail?.message ?? error.message })
        }
      if (invitations.length === 0) throw nobodyInvited(refused)
      return keepMade(once, tx, { invitations, refused })
    },
  })
}

const nobodyInvited = (refused: SeveralInvited['refused']): DomainError =>
  new DomainError(
    'validation_error',
    'nobody was invited: no address can be',
    refused.map(({ email, message }) => ({ path: 'emails', message: `\`${email}\`: ${message}` })),
  )

/** Returns the organization's name. */
async function requireMayInvite(tx: ChainTx, present: PresentCaller, role: Role): Promise<string> {
  requireRole(present.role, 'owner')
  requireRole(present.role, role)
  await requireProvenCaller(tx, present)
  return requireShared(tx)
}

async function inviteOne(
  { config: { people } }: Acting,
  tx: ChainTx,
  caller: Caller,
  input: Invited & { readonly name: string },
): Promise<NewInvitation> {
  const email = input.email.toLowerCase()
  if (email.endsWith(`@${serviceDomain}`))
    throw errorAt(
      'validation_error',
      'email',
      'this is a service account: it has keys, and cannot be invited',
    )
  await requireNoMember(tx, email)
  const isStranger = await sharesNoOrganization(tx, caller, email)
  if (isStranger) await requireMayInviteStrangers(tx, caller, people)
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
  const token = randomBytes(32).toString('base64url')
  const proof = input.mailed ? randomBytes(32).toString('base64url') : null
  const row = {
    id: newId('invitation'),
    organization_id: tx.organizationId,
    email,
    role: input.role,
    token_hash: sha256(token),
    proof_hash: proof === null ? null : sha256(proof),
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
  return {
    ...invitationView(row, tx.now),
    token,
    proof,
    organization_name: isStranger && !people.invitationsNameOrganizations ? null : input.name,
  }
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

/** What its page says. `isProven`: the address is that of the reader. */
export interface ShownInvitation {
  readonly organization: string
  readonly inviter: string
  readonly role: Role
  readonly email: string
  readonly isProven: boolean
  /** Whether the address has an account: only for a reader who has proven it. */
  readonly hasAccount: boolean | null
}

/** null for a token of no open invitation. */
export async function showInvitation(
  db: Db,
  { token, proof }: InvitationLink,
): Promise<ShownInvitation | null> {
  const row = await db
    .selectFrom('invitations as i')
    .innerJoin('organizations as o', 'o.id', 'i.organization_id')
    .innerJoin('users as by', 'by.id', 'i.invited_by')
    .select(['o.name as organization', 'by.email as inviter', 'i.role', 'i.email', 'i.proof_hash'])
    .select(sql<boolean>`exists (select from users where lower(users.email) = i.email)`.as('has_account'))
    .where('i.token_hash', '=', sha256(token))
    .where('i.accepted_at', 'is', null)
    .where('i.revoked_at', 'is', null)
    .where('i.expires_at', '>', sql<Date>`clock_timestamp()`)
    .executeTakeFirst()
  if (row === undefined) return null
  const { proof_hash: hash, has_account: hasAccount, ...shown } = row
  const isProven = proof !== null && hash === sha256(proof)
  return { ...shown, isProven, hasAccount: isProven ? hasAccount : null }
}

/** What the link of an invitation has. `proof` only stands in that of the mail. */
export interface InvitationLink {
  readonly token: string
  readonly proof: string | null
}

type Joining = Pick<Caller, 'userId' | 'keyId' | 'ip' | 'requestId'>
interface Joined {
  readonly organization_id: string
  readonly role: Role
}

/** Works once. Throws `not_found` unless it is valid for this person; `conflict` (unconfirmed, or a member). */
export async function acceptInvitation(
  context: Changing,
  caller: Caller,
  token: string,
  once: Once | null = null,
): Promise<Joined> {
  const found = await invitationOf(context.db, caller.userId, token)
  if (found === undefined || found.own.toLowerCase() !== found.email) throw noInvitation()
  if (!found.email_verified) throw addressNotProven()
  return context.combiner.run(found.organization_id, 'org.change', async (tx) => {
    await requireStillValid(context, tx, caller)
    return join(tx, caller, found.id, once)
  })
}

/**
 * For an account that was just made with the mailed link: its proof stands for the confirmation of the address and for a
 * session. Throws as `acceptInvitation` does.
 */
export async function acceptWithProof(
  context: Changing,
  person: Joining,
  { token, proof }: InvitationLink,
): Promise<Joined> {
  const found = await invitationOf(context.db, person.userId, token)
  if (found === undefined || found.own.toLowerCase() !== found.email) throw noInvitation()
  if (proof === null || found.proof_hash !== sha256(proof)) throw noInvitation()
  await proveAddress(context.db, person.userId, null)
  return context.combiner.run(found.organization_id, 'org.change', (tx) => join(tx, person, found.id, null))
}

const invitationOf = (db: Db, userId: string, token: string) =>
  db
    .selectFrom('invitations as i')
    .innerJoin('users as u', (on) => on.on('u.id', '=', userId))
    .select(['i.id', 'i.organization_id', 'i.email', 'i.proof_hash', 'u.email as own', 'u.email_verified'])
    .where('i.token_hash', '=', sha256(token))
    .executeTakeFirst()

async function join(tx: ChainTx, person: Joining, id: string, once: Once | null): Promise<Joined> {
  const row = await tx.trx
    .selectFrom('invitations')
    .selectAll()
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  const made = { organization_id: tx.organizationId, role: row.role }
  // First, because another request with this key may have accepted it meanwhile: the checks below would throw a wrong
  // error.
  await once?.markActed(tx.trx, made)
  const inviter = await roleUnderLock(tx, row.invited_by)
  if (statusOf(row, tx.now) !== 'pending' || inviter !== 'owner') throw noInvitation()
  if ((await roleUnderLock(tx, person.userId)) !== null) throw isMember()
  await tx.trx
    .insertInto('memberships')
    .values({ organization_id: tx.organizationId, user_id: person.userId, role: row.role })
    .execute()
  await tx.trx
    .updateTable('invitations')
    .set({ accepted_at: tx.now, accepted_by: person.userId })
    .where('id', '=', row.id)
    .execute()
  appendInvitationEvent(tx, person, 'member.joined', row)
  return made
}

const noInvitation = () => new DomainError('not_found', 'there is no such invitation for you')
const isMember = () =>
  new DomainError('conflict', 'this person is already a member: change their role instead')

/** Returns its name. Throws `conflict` for a personal organization, which can have only one member. */
export async function requireShared(tx: ChainTx): Promise<string> {
  const { name, personal } = await tx.trx
    .selectFrom('organizations')
    .select(['name', 'personal'])
    .where('id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (personal)
    throw new DomainError('conflict', 'a personal organization has one member: create another organization')
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
  caller: Joining,
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

/** Other people in a day, in every organization, also with revoked invitations. The lock on the person's row makes a concurrent one wait. */
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
    .select((eb) => eb.fn.max('created_at').as('created_at'))
    .where('invited_by', '=', caller.userId)
    .where('to_stranger', '=', true)
    .where('created_at', '>', since)
    .where('email', '<>', email)
    .groupBy('email')
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
