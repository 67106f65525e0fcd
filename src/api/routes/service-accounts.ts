import { sql } from 'kysely'
import { z } from 'zod'
import {
  changeServiceAccount,
  createServiceAccount,
  deleteServiceAccount,
  listServiceAccounts,
  readServiceAccount,
} from '../../governance/people/service-accounts.ts'
import { nameField } from '../../policy/text.ts'
import { objects } from '../objects.ts'
import { ok, tagged } from '../route.ts'
import { id, named, role, time } from '../schemas/common.ts'
import type { Inner } from '../subjects.ts'

const serviceRole = z.enum(['viewer', 'member'])

export const serviceAccountBody = named('ServiceAccountRequest', {
  name: nameField(100),
  role: serviceRole.default('member'),
})
export const serviceAccountChanges = named('ServiceAccountChanges', {
  name: nameField(100).optional(),
  role: serviceRole.optional(),
})

const serviceAccount = named('ServiceAccount', {
  id: id.describe('stands in `requested_by` of what it starts, and in `user_id` of its keys'),
  organization_id: id,
  name: z.string(),
  role,
  email: z.string().describe('stands where addresses of people stand; no mail can be sent to it'),
  created_by: id,
  created_by_email: z.string(),
  created_at: time,
  active_keys: z.int(),
  last_used_at: time.nullable().describe('of its keys'),
})

const one = '/organizations/{id}/service-accounts/{account}' as const
const oneAccount: Inner = {
  word: 'service account',
  param: 'account',
  exists: ({ params }) => sql`exists (select from service_accounts
    where id = ${params['account']} and organization_id = s.organization_id and deleted_at is null)`,
}

const reads = { scope: 'organizations:*', role: 'admin' } as const
const accounts = objects({
  tag: 'Service accounts',
  all: '/organizations/{id}/service-accounts',
  one,
  subject: 'organization',
  reads,
  writes: { scope: 'organizations:*', role: 'owner' },
  shown: serviceAccount,
  from: oneAccount,
})

export const serviceAccountRoutes = [
  accounts.create({
    summary: 'Create a service account: a program that has keys and cannot sign in',
    body: serviceAccountBody,
    audit: ['service_account.created'],
    run: createServiceAccount,
  }),
  accounts.list({ summary: 'The organization’s service accounts, newest first', run: listServiceAccounts }),
  tagged('Service accounts').route({
    key: `GET ${one}`,
    needs: { ...reads, subject: 'organization' },
    inner: [oneAccount],
    summary: 'One service account: who made it, and how many keys it has',
    responses: { 200: serviceAccount },
    handle: async ({ context, caller, params }) =>
      ok(await readServiceAccount(context.db, caller.organizationId, params.account)),
  }),
  accounts.change({
    summary: 'Give a service account another name or role',
    body: serviceAccountChanges,
    audit: ['service_account.updated'],
    run: changeServiceAccount,
  }),
  accounts.remove({
    summary: 'Delete a service account; its keys are revoked at once',
    audit: ['service_account.deleted'],
    run: deleteServiceAccount,
  }),
]
