import { z } from 'zod'
import {
  changeApiKey,
  confirmApiKey,
  createApiKey,
  listApiKeys,
  revokeApiKey,
  type KeyView,
} from '../../governance/api-keys.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { textField } from '../../policy/text.ts'
import { created, noContent, ok, route } from '../route.ts'
import { id, listOf, listQuery, scopeMap, time } from '../schemas/common.ts'
import { scopesAsMap, scopesInput } from '../schemas/scopes.ts'

const keyShape = {
  id,
  organization_id: id,
  user_id: id,
  name: z.string(),
  last4: z.string(),
  scopes: scopeMap,
  active: z.boolean(),
  created_at: time,
  expires_at: time.nullable(),
  revoked_at: time.nullable(),
  last_used_at: time.nullable(),
  factor_confirmed_at: time.nullable(),
  needs_confirmation: z.boolean(),
}
const apiKey = z.strictObject(keyShape).meta({ id: 'ApiKey' })
const newApiKey = z
  .strictObject({ ...keyShape, api_key: z.string().meta({ description: 'the key itself, shown this once' }) })
  .meta({ id: 'NewApiKey' })

const expiry = z.iso
  .datetime({ offset: true })
  .transform((text) => new Date(text))
  .meta({ type: 'string', format: 'date-time' })
const noScopes = 'a key without scopes opens nothing: name at least one; `GET /scopes` lists them'
const keyName = textField(200)

export const postApiKey = route({
  key: 'POST /api-keys',
  summary: 'Make an API key for yourself',
  description:
    'Neither its scopes nor the roles they are of use for may exceed your own. At least one scope; an end lies ahead.',
  tag: 'API keys',
  body: z.strictObject({
    name: keyName,
    scopes: scopesInput.refine((scopes) => scopes.length > 0, noScopes),
    organization_id: z.string().optional(),
    expires_at: expiry.nullable().optional(),
  }),
  responses: { 201: newApiKey },
  async handle({ context, caller, body, once }) {
    const { name, scopes, expires_at: expiresAt = null } = body
    const { secret, ...key } = await actOnce(once, () =>
      createApiKey(context, caller, { name, scopes, expiresAt }, once),
    )
    return created({ ...answer(key), api_key: secret })
  },
})

export const getApiKeys = route({
  key: 'GET /api-keys',
  summary: 'Your keys; for an owner all of the organization’s',
  tag: 'API keys',
  query: listQuery,
  responses: { 200: listOf(apiKey) },
  async handle({ context, caller, query }) {
    const page = await listApiKeys(context, caller, { limit: query.limit, cursor: query.cursor ?? null })
    return ok({ data: page.data.map(answer), next_cursor: page.next_cursor })
  },
})

export const patchApiKey = route({
  key: 'PATCH /api-keys/{id}',
  summary: 'Change, revoke or reactivate a key; another person’s can only be narrowed, renamed or revoked',
  tag: 'API keys',
  body: z.strictObject({
    name: keyName.optional(),
    scopes: scopesInput.optional(),
    expires_at: expiry.nullable().optional(),
    active: z.boolean().optional(),
  }),
  responses: { 200: apiKey },
  async handle({ context, caller, params, body }) {
    const { name, scopes, active } = body
    const key = await changeApiKey(context, caller, params.id, {
      name,
      scopes,
      active,
      expiresAt: body.expires_at,
    })
    return ok(answer(key))
  },
})

export const deleteApiKey = route({
  key: 'DELETE /api-keys/{id}',
  summary: 'Revoke a key, at once and in every process',
  tag: 'API keys',
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await revokeApiKey(context, caller, params.id)
    return noContent
  },
})

export const postApiKeyConfirm = route({
  key: 'POST /api-keys/{id}/confirm',
  summary: 'Confirm a key of yours with your second factor',
  description:
    'An organization that requires a second factor refuses keys that were made without one until then. Only a session that was opened with the factor may do it.',
  tag: 'API keys',
  responses: { 200: apiKey },
  async handle({ context, caller, params, once }) {
    return ok(answer(await actOnce(once, () => confirmApiKey(context, caller, params.id, once))))
  },
})

const answer = (key: KeyView) => ({ ...key, scopes: scopesAsMap(key.scopes) })
