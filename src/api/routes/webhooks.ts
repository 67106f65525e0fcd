import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import { listDeliveries, redeliver, testWebhook } from '../../governance/webhooks/deliveries.ts'
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  listWebhooks,
  readWebhook,
  rotateWebhookSecret,
} from '../../governance/webhooks/webhooks.ts'
import { accepted, created, noContent, ok, route } from '../route.ts'
import { emptyBody, id, listOf, listQuery, time } from '../schemas/common.ts'
import {
  deliveryState,
  messageType,
  rotationBody,
  webhookBody,
  webhookChanges,
  webhookEvent,
} from '../schemas/webhooks.ts'

const tag = 'Webhooks'

const webhookShape = {
  id,
  organization_id: id,
  url: z.string(),
  events: z.array(webhookEvent),
  active: z.boolean(),
  disabled_reason: z.string().nullable().describe('Why the service turned it off; null if it did not.'),
  failing_since: time.nullable().describe('When the first attempt since the last success failed.'),
  former_secret_until: time.nullable().describe('Until when the secret before the last rotation also signs.'),
  created_at: time,
  created_by: id,
}
const webhook = z.strictObject(webhookShape).meta({ id: 'Webhook' })
const newWebhook = z
  .strictObject({
    ...webhookShape,
    secret: z.string().meta({ description: '`whsec_…`, which signs the messages; shown only this once' }),
  })
  .meta({ id: 'NewWebhook' })

const delivery = z
  .strictObject({
    id,
    webhook_id: id,
    event_id: id.describe('The `webhook-id` of its requests.'),
    event_type: messageType,
    state: deliveryState,
    attempts: z.int(),
    last_status: z.int().nullable().describe('The status of the last answer; null without one.'),
    last_error: z.string().nullable(),
    last_attempt_at: time.nullable(),
    next_attempt_at: time.nullable(),
    created_at: time,
    ended_at: time.nullable(),
  })
  .meta({ id: 'Delivery' })
const acceptedDelivery = z
  .strictObject({ event_id: id.describe('The `webhook-id` of the requests.') })
  .meta({ id: 'AcceptedDelivery' })

const listed = listQuery.omit({ organization_id: true })
const pageOf = (query: { limit: number; cursor?: string | undefined }) => ({
  limit: query.limit,
  cursor: query.cursor ?? null,
})

const postWebhook = route({
  key: 'POST /organizations/{id}/webhooks',
  summary: 'Create a webhook: an address that gets a signed message for each of these events',
  description:
    'Messages are signed as Standard Webhooks says. They hold ids, names, verdicts and a link, and no parameter or value.',
  tag,
  body: webhookBody,
  responses: { 201: newWebhook },
  async handle({ context, caller, body, once }) {
    return created(await actOnce(once, () => createWebhook(context, caller, body, once)))
  },
})

const getWebhooks = route({
  key: 'GET /organizations/{id}/webhooks',
  summary: 'The organization’s webhooks',
  tag,
  query: listed,
  responses: { 200: listOf(webhook) },
  async handle({ context, caller, query }) {
    return ok(await listWebhooks(context, caller.organizationId, pageOf(query)))
  },
})

const getWebhook = route({
  key: 'GET /organizations/{id}/webhooks/{webhook}',
  summary: 'One webhook',
  tag,
  responses: { 200: webhook },
  async handle({ context, caller, params }) {
    return ok(await readWebhook(context, caller.organizationId, params.webhook))
  },
})

const patchWebhook = route({
  key: 'PATCH /organizations/{id}/webhooks/{webhook}',
  summary: 'Change a webhook’s address or events, or turn it on or off',
  tag,
  body: webhookChanges,
  responses: { 200: webhook },
  async handle({ context, caller, params, body }) {
    return ok(await changeWebhook(context, caller, params.webhook, body))
  },
})

const removeWebhook = route({
  key: 'DELETE /organizations/{id}/webhooks/{webhook}',
  summary: 'Delete a webhook: what waits for it is never sent',
  tag,
  responses: { 204: null },
  async handle({ context, caller, params }) {
    await deleteWebhook(context, caller, params.webhook)
    return noContent
  },
})

const postRotation = route({
  key: 'POST /organizations/{id}/webhooks/{webhook}/rotate-secret',
  summary: 'Make a new secret; for a time the old one also signs each message',
  tag,
  body: rotationBody,
  responses: { 200: newWebhook },
  async handle({ context, caller, params, body, once }) {
    const input = { id: params.webhook, seconds: body.former_valid_seconds }
    return ok(await actOnce(once, () => rotateWebhookSecret(context, caller, input, once)))
  },
})

const postTest = route({
  key: 'POST /organizations/{id}/webhooks/{webhook}/test',
  summary: 'Send the event `webhook.test` to this webhook',
  description: 'The list of deliveries shows how it ended.',
  tag,
  body: emptyBody,
  responses: { 202: acceptedDelivery },
  async handle({ context, caller, params, once }) {
    return accepted(await actOnce(once, () => testWebhook(context, caller, params.webhook, once)))
  },
})

const getDeliveries = route({
  key: 'GET /organizations/{id}/webhooks/{webhook}/deliveries',
  summary: 'What was sent to a webhook, and what waits',
  tag,
  query: listed.extend({ state: deliveryState.optional() }),
  responses: { 200: listOf(delivery) },
  async handle({ context, caller, params, query }) {
    const which = { webhookId: params.webhook, state: query.state }
    return ok(await listDeliveries(context.db, caller.organizationId, which, pageOf(query)))
  },
})

const postRedelivery = route({
  key: 'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver',
  summary: 'Send a message again, with the same `webhook-id`',
  tag,
  body: emptyBody,
  responses: { 202: acceptedDelivery },
  async handle({ context, caller, params, once }) {
    const which = { webhookId: params.webhook, deliveryId: params.delivery }
    return accepted(await actOnce(once, () => redeliver(context, caller, which, once)))
  },
})

export const webhookRoutes = [
  postWebhook,
  getWebhooks,
  getWebhook,
  patchWebhook,
  removeWebhook,
  postRotation,
  postTest,
  getDeliveries,
  postRedelivery,
]
