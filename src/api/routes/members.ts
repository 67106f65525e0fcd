import { sql } from 'kysely'
import { z } from 'zod'
import { publicBase } from '../../shared/config.ts'
import { agentAccess } from '../../policy/types.ts'
import { filter } from '../query.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  acceptInvitation,
  invitationRows,
  invite,
  inviteSeveral,
  revokeInvitation,
  type NewInvitation,
} from '../../governance/people/invitations.ts'
import { linkSlackAccount, unlinkSlackAccount } from '../../governance/people/slack-accounts.ts'
import { changeRole, listMembers, removeMember, unlinkIdentity } from '../../governance/people/members.ts'
import { invitationMail } from '../auth-options.ts'
import { invitationPath } from '../../contract/pages.ts'
import { mostInvited } from '../../contract/plan-limits.ts'
import { created, done, ok, tagged, type Call } from '../route.ts'
import { objects } from '../objects.ts'
import type { Inner } from '../subjects.ts'
import { called, id, listOf, role, time, pageIn, listQueryOfPath, named } from '../schemas/common.ts'
import { longestMailDelay } from '../../contract/mail-delay.ts'
import { isTimeZone } from '../../policy/builtins.ts'
import { nameField } from '../../policy/text.ts'
import { isScope } from '../../governance/access/scopes.ts'

const scopeName = z
  .string()
  .max(100)
  .refine(isScope, {
    error: (issue) => `\`${String(issue.input)}\` is not a scope: GET /scopes lists them`,
  })

const scopesInput = z.union([
  z.array(scopeName).max(100),
  z.record(scopeName, z.boolean()).transform((map) => Object.keys(map).filter((name) => map[name] === true)),
])

export function scopesAsMap(scopes: readonly string[]): Record<string, boolean> {
  return Object.fromEntries([...scopes].sort().map((scope) => [scope, true]))
}

const day = 24 * 3600

/** With the caller's role in it. */
export const organization = named('Organization', {
  id,
  name: z.string(),
  personal: z.boolean(),
  plan: z.enum(['free', 'pro', 'enterprise']),
  role,
})

export const organizationBody = named('OrganizationRequest', { name: nameField(200) })
export const memberChanges = named('MemberChanges', { role })
export const slackAccountBody = named('SlackAccountRequest', {
  external_id: z
    .string()
    .regex(/^[UW][A-Z\d]{7,20}$/, 'must be the member id of a Slack profile, such as `U012ABCDEF`'),
  code: z
    .string()
    .regex(/^\d{8}$/, 'must be the eight digits of the code')
    .optional()
    .describe('the code that was sent to this account. Admins need none'),
})
export const invitationBody = named('InvitationRequest', {
  email: z.email().max(254),
  role: role.default('member'),
  expires_in_seconds: z
    .int()
    .min(60)
    .max(30 * day)
    .default(7 * day),
  send_mail: z.boolean().default(true),
})
const { email: _, ...ofAll } = invitationBody.shape
export const invitationsBody = named('InvitationsRequest', {
  emails: z.array(z.string().min(1).max(254)).min(1).max(mostInvited),
  ...ofAll,
})
export const acceptanceBody = named('AcceptInvitationRequest', { token: z.string().min(1).max(200) })

/** Many clients cannot read longer years. */
const expiry = z.iso
  .datetime({ offset: true })
  .transform((text) => new Date(text))
  .refine((time) => time.getUTCFullYear() <= 9_999, 'must be before the year 10000; null means never')
  .meta({ type: 'string', format: 'date-time' })
const noScopes = 'a key without scopes can do nothing: name at least one; `GET /scopes` lists them'
const keyName = nameField(200)

export const apiKeyBody = named('ApiKeyRequest', {
  name: keyName,
  scopes: scopesInput.refine((scopes) => scopes.length > 0, noScopes),
  organization_id: z.string().optional(),
  expires_at: expiry
    .nullable()
    .optional()
    .describe('null: never. Default: never, and for a service account in a year'),
  service_account: z.string().min(1).max(100).optional().describe('whose key it is; default: yours'),
  default_agent_access: z
    .enum(agentAccess)
    .optional()
    .describe('`deny`: a rule must allow each call of an agent that asks with the key. Default: `allow`'),
})
export const apiKeyChanges = named('ApiKeyChanges', {
  name: keyName.optional(),
  scopes: scopesInput.refine((scopes) => scopes.length > 0, noScopes).optional(),
  expires_at: expiry.nullable().optional(),
  active: z.boolean().optional(),
  default_agent_access: z.enum(agentAccess).optional().describe('It can only become `deny`.'),
})

export const mailPreferencesBody = named('MailPreferencesRequest', {
  mail: z.boolean().describe('Whether you get mails about what waits for your decision.'),
  delay_seconds: z
    .int()
    .min(0)
    .max(longestMailDelay)
    .describe('A mail leaves if nobody has decided after so many seconds.'),
  time_zone: z
    .string()
    .max(100)
    .refine(isTimeZone, 'must be the name of a time zone, such as `Europe/Berlin`')
    .nullable()
    .optional()
    .describe('in which mails tell you times, of every organization; null: UTC. Without it, it stays.'),
})

const { route } = tagged('Identity')

/** A service account is no member here: it has routes of its own. */
const oneMember: Inner = {
  word: 'member',
  param: 'user',
  exists: ({ params }) => sql`exists (select from memberships
    where user_id = ${params['user']} and organization_id = s.organization_id
      and not exists (select from service_accounts where id = ${params['user']}))`,
}

export const absence = called(
  'Absence',
  z.strictObject({
    from: time,
    until: time,
    deputy: z.strictObject({ user_id: id, email: z.string() }).describe('decides in their place'),
  }),
)

const member = named('Member', {
  user_id: id,
  email: z.string(),
  name: z.string(),
  role,
  second_factor: z.boolean(),
  slack_account: z.string().nullable().describe('the Slack account that is linked to the member here'),
  slack_problem: z
    .string()
    .nullable()
    .describe('the code of the error, if the newest message to the account has failed'),
  company_sign_in: z.boolean().describe('whether a person of the provider is linked to the member'),
  joined_at: time,
  absence: absence.nullable(),
})

const slackLink = named('SlackLink', {
  user_id: id,
  external_id: z.string(),
  linked: z.boolean().describe('false: a code or a test message was sent to the account'),
  code_expires_at: time.nullable(),
})

const invitationShape = {
  id,
  organization_id: id,
  email: z.string(),
  role,
  status: z.enum(['pending', 'accepted', 'revoked', 'expired']),
  invited_by: id,
  created_at: time,
  expires_at: time,
}
const invitation = z.strictObject(invitationShape).meta({ id: 'Invitation' })
const newInvitation = named('NewInvitation', {
  ...invitationShape,
  token: z.string().describe('the token that accepts it, shown only this once'),
  link: z.string().describe('a page on which the invited person signs in or up, and accepts'),
})

const refusedAddress = z.strictObject({ email: z.string(), code: z.string(), message: z.string() })

type InvitedBody = Pick<z.output<typeof invitationBody>, 'role' | 'expires_in_seconds' | 'send_mail'>

const invitedIn = ({ role: given, expires_in_seconds: seconds, send_mail: mailed }: InvitedBody) => ({
  role: given,
  seconds,
  mailed,
})

/** Sends the mail, without waiting for it, and returns what the answer says. */
function invitationSent(
  { context, services, caller }: Pick<Call, 'context' | 'services' | 'caller'>,
  isMailed: boolean,
  { organization_name: organizationName, proof, ...made }: NewInvitation,
): object {
  const base = publicBase(context.config)
  const words = { organization: organizationName, role: made.role, inviter: caller.email, proof }
  if (isMailed)
    services
      .mail({ to: made.email, ...invitationMail(base, made.token, words) })
      .catch((error: Error) =>
        context.log.warn({ err: error, invitation_id: made.id }, 'an invitation could not be mailed'),
      )
  return { ...made, link: `${base}${invitationPath}?token=${made.token}` }
}

const invitations = objects({
  tag: 'Identity',
  all: '/organizations/{id}/invitations',
  one: '/organizations/{id}/invitations/{invitation}',
  subject: 'organization',
  reads: { scope: 'organizations:*', role: 'owner' },
  writes: { scope: 'organizations:*', role: 'owner' },
  shown: invitation,
  from: invitationRows,
})

export const memberRoutes = [
  route({
    key: 'GET /organizations/{id}/members',
    needs: { scope: 'organizations:*', role: 'owner', subject: 'organization' },
    summary: 'The organization’s members',
    query: listQueryOfPath.extend({
      search: filter.optional().describe('part of the name or address, in upper or lower case'),
    }),
    responses: { 200: listOf(member) },
    handle: async ({ context, caller, query }) =>
      ok(await listMembers(context.db, caller, pageIn(query), query.search)),
  }),
  route({
    key: 'PATCH /organizations/{id}/members/{user}',
    needs: { scope: 'organizations:*', role: 'owner', subject: 'organization' },
    inner: [oneMember],
    audit: ['member.role_changed'],
    summary: 'Give a member another role; the last owner cannot lose theirs',
    body: memberChanges,
    responses: { 200: z.strictObject({ user_id: id, role }) },
    handle: async ({ context, caller, params, body }) =>
      ok(await changeRole(context, caller, params.user, body.role)),
  }),
  route({
    key: 'DELETE /organizations/{id}/members/{user}',
    // Every member may leave. `removeMember` checks that only owners remove others.
    needs: { scope: 'organizations:*', role: 'viewer', subject: 'organization' },
    inner: [oneMember],
    audit: ['member.removed', 'member.left', 'connection.revoked'],
    summary: 'Leave the organization, or, as an owner, remove a member; the last owner cannot leave',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(removeMember(context, caller, params.user)),
  }),
  route({
    key: 'DELETE /organizations/{id}/members/{user}/sign-in',
    needs: { scope: 'organizations:*', role: 'owner', subject: 'organization' },
    inner: [oneMember],
    audit: ['member.identity_unlinked'],
    summary: 'Unlink the person of the provider from a member; sessions that the provider opened end',
    description: 'The next sign-in with the provider and the address of the member links again.',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(unlinkIdentity(context, caller, params.user)),
  }),
  route({
    key: 'PUT /organizations/{id}/members/{user}/accounts/slack',
    // Members may link their own account, and admins anybody's: `linkSlackAccount` checks this.
    needs: { scope: 'organizations:*', role: 'viewer', subject: 'organization' },
    inner: [oneMember],
    audit: ['member.account_claimed', 'member.account_linked'],
    summary: 'Link a Slack account: your own with a code, or as an admin that of anybody',
    description:
      'The account of an admin’s choice is linked when a test message has arrived there (`linked` is false until then). Anybody else first gets a code in a direct message to that account, and sends it with the same id within half an hour. `@me` in Slack tools means this account. Nobody is linked by e-mail address. The id is in the profile in Slack, as “Copy member ID”.',
    body: slackAccountBody,
    responses: { 200: slackLink },
    handle: async ({ context, caller, params, body }) =>
      ok(await linkSlackAccount(context, caller, params.user, body)),
  }),
  route({
    key: 'DELETE /organizations/{id}/members/{user}/accounts/slack',
    needs: { scope: 'organizations:*', role: 'viewer', subject: 'organization' },
    inner: [oneMember],
    audit: ['member.account_unlinked'],
    summary: 'Unlink a Slack account',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(unlinkSlackAccount(context, caller, params.user)),
  }),
  route({
    key: 'POST /organizations/{id}/invitations',
    needs: { scope: 'organizations:*', role: 'owner', subject: 'organization' },
    audit: ['member.invited'],
    summary: 'Invite a person by mail or by link',
    description:
      'Only the invited address can accept, once and within a week unless `expires_in_seconds` says otherwise.',
    body: invitationBody,
    responses: { 201: newInvitation },
    async handle(call) {
      const { context, caller, body, once } = call
      const given = { ...invitedIn(body), email: body.email }
      return created(
        invitationSent(call, body.send_mail, await actOnce(once, () => invite(context, caller, given, once))),
      )
    },
  }),
  route({
    // Not below `/invitations`, where a name is that of an invitation.
    key: 'POST /organizations/{id}/invite',
    needs: { scope: 'organizations:*', role: 'owner', subject: 'organization' },
    audit: ['member.invited'],
    summary: 'Invite several people at once',
    description:
      'An address that cannot be invited stands in `refused` with the reason, and stops no other one. If none can be, the answer is 422.',
    body: invitationsBody,
    responses: {
      201: z.strictObject({ invitations: z.array(newInvitation), refused: z.array(refusedAddress) }),
    },
    async handle(call) {
      const { context, caller, body, once } = call
      const isAddress = (email: string): boolean => invitationBody.shape.email.safeParse(email).success
      const given = {
        emails: body.emails.filter(isAddress),
        unreadable: body.emails.filter((email) => !isAddress(email)),
      }
      const { invitations: made, refused } = await actOnce(once, () =>
        inviteSeveral(context, caller, given, invitedIn(body), once),
      )
      return created({ invitations: made.map((each) => invitationSent(call, body.send_mail, each)), refused })
    },
  }),
  invitations.list({ summary: 'The organization’s invitations' }),
  invitations.remove({
    summary: 'Revoke an open invitation',
    audit: ['invitation.revoked'],
    run: revokeInvitation,
  }),
  route({
    key: 'POST /invitations/accept',
    // It makes the caller a member, who needs no role in any organization.
    needs: { scope: 'organizations:*', role: 'viewer', subject: 'nothing' },
    audit: ['member.joined'],
    summary: 'Accept an invitation with its token',
    body: acceptanceBody,
    responses: { 200: z.strictObject({ organization_id: id, role }) },
    handle: async ({ context, caller, body, once }) =>
      ok(await actOnce(once, () => acceptInvitation(context, caller, body.token, once))),
  }),
]
