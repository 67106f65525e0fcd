import { sql } from 'kysely'
import { z } from 'zod'
import {
  changeApiKey,
  confirmApiKey,
  createApiKey,
  listApiKeys,
  readApiKey,
} from '../../governance/people/api-keys.ts'
import type { KeyView } from '../../governance/people/api-keys.ts'
import { agentAccess } from '../../policy/types.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { ok, tagged } from '../route.ts'
import { objects } from '../objects.ts'
import type { Inner } from '../subjects.ts'
import { emptyBody, id, scopeMap, time } from '../schemas/common.ts'
import { story } from '../schemas/example.ts'
import { apiKeyBody, apiKeyChanges, scopesAsMap } from './members.ts'

const { route } = tagged('API keys')

/** A person does not learn of other people's keys, except as an owner. */
const visibleKey: Inner = {
  word: 'API key',
  param: 'id',
  exists: ({ params }) => sql`exists (select from api_keys
    where id = ${params['id']} and (user_id = m.user_id or m.role = 'owner'))`,
}

const keyShape = {
  id,
  organization_id: id,
  user_id: id.describe('the person, or the service account'),
  created_by: id.nullable(),
  name: z.string(),
  last4: z.string(),
  scopes: scopeMap,
  default_agent_access: z.enum(agentAccess),
  active: z.boolean(),
  created_at: time,
  expires_at: time.nullable(),
  revoked_at: time.nullable(),
  deleted_at: time.nullable(),
  last_used_at: time.nullable(),
  factor_confirmed_at: time.nullable(),
  needs_confirmation: z.boolean(),
}
const apiKey = z.strictObject(keyShape).meta({ id: 'ApiKey' })
const newApiKey = z
  .strictObject({ ...keyShape, api_key: z.string().describe('the key itself, shown this once') })
  .meta({ id: 'NewApiKey' })

const answer = (key: KeyView) => ({ ...key, scopes: scopesAsMap(key.scopes) })

const keys = objects({
  tag: 'API keys',
  all: '/api-keys',
  one: '/api-keys/{id}',
  subject: 'api_key',
  reads: { scope: 'api_keys:*', role: 'viewer' },
  writes: { scope: 'api_keys:*', role: 'viewer' },
  shown: apiKey,
  from: visibleKey,
})

export const apiKeyRoutes = [
  keys.create({
    example: {
      body: { name: 'deploy script', scopes: ['workflows:read', 'runs:write'] },
      answers: {
        201: {
          id: 'key_01M82XD2FE36W9PYPF92CPJWPM',
          organization_id: story.organization,
          user_id: story.requester,
          created_by: story.requester,
          name: 'deploy script',
          last4: '5A1j',
          scopes: { 'runs:write': true, 'workflows:read': true },
          default_agent_access: 'allow',
          active: true,
          created_at: story.cancelled,
          expires_at: null,
          revoked_at: null,
          deleted_at: null,
          last_used_at: null,
          factor_confirmed_at: null,
          needs_confirmation: false,
          api_key: 'csk_live_...5A1j',
        },
      },
    },
    summary: 'Create an API key for yourself, or as an owner for a service account',
    description:
      'Its scopes, and the roles that they need, may not exceed your own. It needs at least one scope; `expires_at` must be in the future. A key of a service account ends in a year unless you give `expires_at`.',
    body: apiKeyBody,
    answer: newApiKey,
    audit: ['api_key.created'],
    run: (context, caller, { expires_at: expiresAt, service_account: account, ...input }, once) =>
      createApiKey(context, caller, { ...input, expiresAt, account }, once),
    show: ({ secret, ...key }) => ({ ...answer(key), api_key: secret }),
  }),
  keys.list({
    summary: 'Your keys; an owner sees all keys of the organization',
    async run(context, caller, page) {
      const { data, next_cursor } = await listApiKeys(context, caller, page)
      return { data: data.map(answer), next_cursor }
    },
  }),
  keys.read({
    summary: 'A key of yours; an owner reads each key of the organization',
    run: async (context, caller, id) => answer(await readApiKey(context, caller, id)),
  }),
  keys.change({
    summary:
      'Change, revoke or reactivate a key. Another person’s key can only be narrowed, renamed or revoked',
    body: apiKeyChanges,
    audit: ['api_key.updated', 'api_key.revoked', 'api_key.reactivated'],
    run: async (context, caller, id, { expires_at: expiresAt, ...changes }) =>
      answer(await changeApiKey(context, caller, id, { ...changes, expiresAt })),
  }),
  keys.remove({
    summary: 'Delete a key: it is revoked at once in every process, and cannot be made active again',
    audit: ['api_key.revoked', 'api_key.updated'],
    run: (context, caller, id) => changeApiKey(context, caller, id, { active: false, isDeletion: true }),
  }),
  route({
    key: 'POST /api-keys/{id}/confirm',
    needs: { scope: 'api_keys:*', role: 'viewer', subject: 'api_key', factor: true },
    inner: [visibleKey],
    audit: ['api_key.confirmed'],
    summary: 'Confirm a key of yours with your second factor',
    description:
      'An organization that requires a second factor refuses keys that were made without one until they are confirmed. Only a session that was opened with the factor can confirm them.',
    body: emptyBody,
    responses: { 200: apiKey },
    handle: async ({ context, caller, params, once }) =>
      ok(answer(await actOnce(once, () => confirmApiKey(context, caller, params.id, once)))),
  }),
]
