import { sql } from 'kysely'
import { z } from 'zod'
import {
  addGroupMember,
  changeGroup,
  createGroup,
  deleteGroup,
  listGroups,
  mostGroupMembers,
  readGroup,
  removeGroupMember,
} from '../../governance/people/groups.ts'
import { groupName, textField } from '../../policy/text.ts'
import { agentAccess } from '../../policy/types.ts'
import { objects } from '../objects.ts'
import { mayBeHeld, unlessHeld, whenHeld } from '../held.ts'
import { absence } from './members.ts'
import { nothing, ok, tagged } from '../route.ts'
import { id, managedBy, named, role, time } from '../schemas/common.ts'
import { pageWith, story } from '../schemas/example.ts'
import { inTable, type Inner } from '../subjects.ts'

const description = textField(2_000, 0)

export const groupBody = named('GroupRequest', {
  name: groupName.describe('Rules and policies name the group by it.'),
  description: description.default(''),
  members: z
    .array(z.string().min(1).max(254))
    .max(mostGroupMembers)
    .default([])
    .describe('Ids or mail addresses of members of the organization.'),
})
export const groupChanges = named('GroupChanges', {
  name: groupName.optional(),
  description: description.optional(),
  default_agent_access: z
    .enum(agentAccess)
    .optional()
    .describe('`deny`: a rule must allow each call of an agent of a member.'),
})

const shape = {
  id,
  organization_id: id,
  name: z.string(),
  description: z.string(),
  default_agent_access: z.enum(agentAccess),
  member_count: z.int(),
  created_by: id,
  created_at: time,
  managed_by: managedBy,
}
const group = named('Group', shape)
const groupDetail = named('GroupWithMembers', {
  ...shape,
  members: z
    .array(
      z.strictObject({
        user_id: id,
        email: z.string(),
        role,
        added_by: id,
        added_at: time,
        absence: absence.nullable(),
      }),
    )
    .describe('By mail address.'),
})

const sample = {
  id: 'grp_01M8D56DGX8YN89DS9GEDSN15Q',
  organization_id: story.organization,
  name: 'finance',
  description: '',
  default_agent_access: 'allow',
  member_count: 1,
  created_by: story.requester,
  created_at: story.saved,
  managed_by: null,
}
const sampleMember = {
  user_id: story.approver,
  email: 'approver@countersign.test',
  role: 'member',
  added_by: story.requester,
  added_at: story.saved,
  absence: null,
}

const { route } = tagged('Identity')
const oneGroup = inTable('group', 'group', 'groups')
const inOrganization: Inner = {
  word: 'member',
  param: 'user',
  exists: ({ params }) => sql`exists (select from memberships as p join users as q on q.id = p.user_id
    where p.organization_id = s.organization_id
      and (q.id = ${params['user']} or lower(q.email) = lower(${params['user']})))`,
}
const inGroup: Inner = {
  word: 'member of the group',
  param: 'user',
  exists: ({ params }) => sql`exists (select from group_members as p join users as q on q.id = p.user_id
    where p.group_id = ${params['group']}
      and (q.id = ${params['user']} or lower(q.email) = lower(${params['user']})))`,
}

const reads = { scope: 'organizations:read', role: 'admin' } as const
const writes = { scope: 'organizations:*', role: 'owner' } as const

const groups = objects({
  tag: 'Identity',
  all: '/organizations/{id}/groups',
  one: '/organizations/{id}/groups/{group}',
  subject: 'organization',
  reads,
  writes,
  shown: group,
  from: oneGroup,
  governed: ['create', 'change'],
})

export const groupRoutes = [
  groups.create({
    summary: 'Make a group of members, who can decide approvals without being admins',
    description: 'A member of a group keeps their role, and gets no right to write rules.',
    body: groupBody,
    answer: groupDetail,
    audit: ['group.created'],
    example: {
      body: { name: 'finance', members: ['approver@countersign.test'] },
      answers: { 201: { ...sample, members: [sampleMember] } },
    },
    run: createGroup,
  }),
  groups.list({
    summary: 'The organization’s groups, newest first',
    example: { answers: { 200: pageWith(sample) } },
    run: listGroups,
  }),
  route({
    key: 'GET /organizations/{id}/groups/{group}',
    needs: { ...reads, subject: 'organization' },
    inner: [oneGroup],
    summary: 'One group, with its members',
    responses: { 200: groupDetail },
    handle: async ({ context, caller, params }) =>
      ok(await readGroup(context.db, caller.organizationId, params.group)),
  }),
  groups.change({
    summary: 'Change the name or description of a group, or what holds for agents of its members',
    body: groupChanges,
    audit: ['group.updated'],
    run: changeGroup,
  }),
  groups.remove({ summary: 'Delete a group', audit: ['group.deleted'], run: deleteGroup }),
  route({
    key: 'PUT /organizations/{id}/groups/{group}/members/{user}',
    needs: { ...writes, subject: 'organization' },
    inner: [oneGroup, inOrganization],
    audit: ['group.member_added', whenHeld],
    summary: 'Add a member of the organization, named by id or mail address',
    responses: { 200: groupDetail, ...mayBeHeld },
    handle: async ({ context, caller, params }) =>
      unlessHeld(await addGroupMember(context, caller, params), ok),
  }),
  route({
    key: 'DELETE /organizations/{id}/groups/{group}/members/{user}',
    needs: { ...writes, subject: 'organization' },
    inner: [oneGroup, inGroup],
    audit: ['group.member_removed', whenHeld],
    summary: 'Take a member out of a group; their votes for it no longer count',
    responses: { 204: null, ...mayBeHeld },
    handle: async ({ context, caller, params }) =>
      unlessHeld(await removeGroupMember(context, caller, params), nothing),
  }),
]
