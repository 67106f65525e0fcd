import { z } from 'zod'
import { publicBase } from '../../shared/config.ts'
import { actOnce } from '../../governance/idempotency.ts'
import {
  acceptInvitation,
  invite,
  listInvitations,
  revokeInvitation,
} from '../../governance/people/invitations.ts'
import { linkSlackAccount, unlinkSlackAccount } from '../../governance/people/slack-accounts.ts'
import { changeRole, listMembers, removeMember } from '../../governance/people/members.ts'
import { invitationMail } from '../auth-mails.ts'
import { invitationPath } from '../../contract/pages.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, listOf, listQuery, role, time } from '../schemas/common.ts'
import { acceptanceBody, invitationBody, memberChanges, slackAccountBody } from '../schemas/people.ts'

const tag = 'Identity'

const member = z
  .strictObject({
    user_id: id,
    email: z.string(),
    name: z.string(),
    role,
    second_factor: z.boolean(),
    joined_at: time,
  })
  .meta({ id: 'Member' })

const slackLink = z
  .strictObject({
    user_id: id,
    external_id: z.string(),
    linked: z.boolean().describe('false: a code was sent to the account'),
    code_expires_at: time.nullable(),
  })
  .meta({ id: 'SlackLink' })

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
const newInvitation = z
  .strictObject({
    ...invitationShape,
    token: z.string().meta({ description: 'the token that accepts it, shown only this once' }),
    link: z.string().meta({ description: 'a page on which the invited person signs in or up, and accepts' }),
  })
  .meta({ id: 'NewInvitation' })
const listed = listQuery.omit({ organization_id: true })

const getMembers = route({
  key: 'GET /organizations/{id}/members',
  summary: 'The organization’s members',
  tag,
  query: listed,
  responses: { 200: listOf(member) },
  async handle({ context, caller, query }) {
    return ok(await listMembers(context.db, caller, { limit: query.limit, cursor: query.cursor ?? null }))
  },
})

const patchMember = route({
  key: 'PATCH /organizations/{id}/members/{user}',
  summary: 'Give a member another role; the last owner cannot lose theirs',
  tag,
  body: memberChanges,
  responses: { 200: z.strictObject({ user_id: id, role }) },
  async handle({ context, caller, params, body }) {
    return ok(await changeRole(context, caller, params.user, body.role))
  },
})

const deleteMember = route({
  key: 'DELETE /organizations/{id}/members/{user}',
  summary: 'Leave the organization, or, as an owner, remove a member; the last owner cannot leave',
  tag,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await removeMember(context, caller, params.user)
    return noContent
  },
})

const putSlackAccount = route({
  key: 'PUT /organizations/{id}/members/{user}/accounts/slack',
  summary: 'Link a Slack account: your own with a code, or as an admin that of anybody',
  description:
    'An admin links at once. Anybody else first gets a code in a direct message to that account (`linked` is false), and sends it with the same id within half an hour. `@me` in Slack tools means this account. Nobody is linked by e-mail address. The id is in the profile in Slack, as “Copy member ID”.',
  tag,
  body: slackAccountBody,
  responses: { 200: slackLink },
  async handle({ context, caller, params, body }) {
    return ok(await linkSlackAccount(context, caller, params.user, body))
  },
})

const deleteSlackAccount = route({
  key: 'DELETE /organizations/{id}/members/{user}/accounts/slack',
  summary: 'Unlink a Slack account',
  tag,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await unlinkSlackAccount(context, caller, params.user)
    return noContent
  },
})

const postInvitation = route({
  key: 'POST /organizations/{id}/invitations',
  summary: 'Invite a person by mail or by link',
  description:
    'Only the invited address can accept, once and within a week unless `expires_in_seconds` says otherwise.',
  tag,
  body: invitationBody,
  responses: { 201: newInvitation },
  async handle({ context, services, caller, body, once }) {
    const { organization_name: name, ...made } = await actOnce(once, () =>
      invite(
        context,
        caller,
        { email: body.email, role: body.role, seconds: body.expires_in_seconds, mailed: body.send_mail },
        once,
      ),
    )
    const base = publicBase(context.config)
    if (body.send_mail)
      services
        .mail({
          to: made.email,
          ...invitationMail(base, made.token, { organization: name, role: made.role, inviter: caller.email }),
        })
        .catch((error: Error) =>
          context.log.warn({ err: error, invitation_id: made.id }, 'an invitation could not be mailed'),
        )
    return created({ ...made, link: `${base}${invitationPath}?token=${made.token}` })
  },
})

const getInvitations = route({
  key: 'GET /organizations/{id}/invitations',
  summary: 'The organization’s invitations',
  tag,
  query: listed,
  responses: { 200: listOf(invitation) },
  async handle({ context, caller, query }) {
    return ok(await listInvitations(context.db, caller, { limit: query.limit, cursor: query.cursor ?? null }))
  },
})

const deleteInvitation = route({
  key: 'DELETE /organizations/{id}/invitations/{invitation}',
  summary: 'Revoke an open invitation',
  tag,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await revokeInvitation(context, caller, params.invitation)
    return noContent
  },
})

const postAccept = route({
  key: 'POST /invitations/accept',
  summary: 'Accept an invitation with its token',
  tag,
  body: acceptanceBody,
  responses: { 200: z.strictObject({ organization_id: id, role }) },
  async handle({ context, caller, body, once }) {
    return ok(await actOnce(once, () => acceptInvitation(context, caller, body.token, once)))
  },
})

export const memberRoutes = [
  getMembers,
  patchMember,
  deleteMember,
  putSlackAccount,
  deleteSlackAccount,
  postInvitation,
  getInvitations,
  deleteInvitation,
  postAccept,
]
