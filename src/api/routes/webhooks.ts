import { z } from 'zod'
import { actOnce } from '../../governance/idempotency.ts'
import { listDeliveries, redeliver, testWebhook } from '../../governance/webhooks/deliveries.ts'
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  seenBy,
  webhookRows,
} from '../../governance/webhooks/webhooks.ts'
import type { ShownWebhook, WebhookView } from '../../governance/webhooks/webhook-view.ts'
import type { Caller } from '../../governance/access/identity.ts'
import type { Context } from '../../governance/context.ts'
import { listOwned, readOwned } from '../../governance/page.ts'
import { sql } from 'kysely'
import { accepted, ok, tagged } from '../route.ts'
import { objects } from '../objects.ts'
import { inOwned, type Inner } from '../subjects.ts'
import {
  called,
  emptyBody,
  id,
  listOf,
  time,
  pageIn,
  listQueryOfPath,
  approver,
  riskLevel,
  named,
} from '../schemas/common.ts'
import { pageWith, story } from '../schemas/example.ts'
import { chosenEvents, webhookEvents, type WebhookEvent } from '../../contract/webhook-events.ts'
import { textField } from '../../policy/text.ts'
import { approvalKinds, approvalStatuses } from '../../contract/status.ts'

export const webhookEvent = called('WebhookEvent', z.enum(chosenEvents))
export const messageType = called('WebhookMessageType', z.enum(Object.keys(webhookEvents) as WebhookEvent[]))
export const deliveryState = called('DeliveryState', z.enum(['waiting', 'delivered', 'failed']))

const events = z.array(webhookEvent).min(1, 'name at least one event').max(chosenEvents.length)
const url = textField(2_000).describe(
  'Where messages are sent: https, at a public address, without a user and without `#`.',
)

export const webhookBody = named('WebhookRequest', { url, events })

export const webhookChanges = named('WebhookChanges', {
  url: url.optional(),
  events: events.optional(),
  active: z
    .boolean()
    .optional()
    .describe('`false`: it gets no messages. `true`: what still waits for it goes on.'),
})

export const rotationBody = named('SecretRotationRequest', {
  former_valid_seconds: z
    .int()
    .min(0)
    .max(7 * 24 * 3_600)
    .default(24 * 3_600)
    .describe('How long the secret before this one also signs; 0: not at all.'),
})

/** The body of a request to a webhook. Fields without a value are left out. */
export const webhookMessage = named('WebhookMessage', {
  type: messageType,
  timestamp: time,
  data: z.strictObject({
    organization_id: id,
    approval_id: id.optional(),
    run_id: id.optional(),
    workflow_id: id.optional(),
    workflow_name: z.string().optional(),
    session_id: id.optional(),
    step_id: z.string().optional(),
    item_index: z.int().optional(),
    tool: z.string().optional(),
    kind: z.enum(approvalKinds).optional(),
    status: z.enum(approvalStatuses).optional().describe('How an approval ended.'),
    rule_name: z.string().optional(),
    risk: riskLevel.optional(),
    approver: approver.optional(),
    requested_by: id.optional(),
    decided_by: id.optional().describe('The person whose vote was the last.'),
    changes_requested: z.literal(true).optional(),
    expires_at: time.optional(),
    error_code: z.string().optional(),
    link: z.string().optional(),
  }),
})

const { route } = tagged('Webhooks')

const oneWebhook = inOwned('webhook', webhookRows)
const oneDelivery: Inner = {
  word: 'delivery',
  param: 'delivery',
  exists: ({ params }) => sql`exists (select from webhook_deliveries
    where id = ${params['delivery']} and webhook_id = ${params['webhook']})`,
}

const delivery = named('Delivery', {
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
const webhookShape = {
  id,
  organization_id: id,
  url: z.string().nullable().describe('null for an admin, because an address often contains a token'),
  host: z.string(),
  events: z.array(webhookEvent),
  active: z.boolean(),
  disabled_reason: z.string().nullable().describe('Why the service turned it off; null if it did not.'),
  failing_since: time.nullable().describe('When the first attempt since the last success failed.'),
  former_secret_until: time.nullable().describe('Until when the secret before the last rotation also signs.'),
  created_at: time,
  created_by: id,
}
const webhook = named('Webhook', {
  ...webhookShape,
  last_delivery: delivery.nullable().describe('the newest one that is kept'),
})
const newWebhook = named('NewWebhook', {
  ...webhookShape,
  secret: z.string().describe('`whsec_…`, which signs the messages; shown only this once'),
})

const acceptedDelivery = z
  .strictObject({ event_id: id.describe('The `webhook-id` of the requests.') })
  .meta({ id: 'AcceptedDelivery' })

const webhooks = objects({
  tag: 'Webhooks',
  all: '/organizations/{id}/webhooks',
  one: '/organizations/{id}/webhooks/{webhook}',
  subject: 'organization',
  reads: { scope: 'governance:read', role: 'admin' },
  writes: { scope: 'governance:write', role: 'owner' },
  shown: webhook,
  from: webhookRows,
})

async function one({ db }: Context, caller: Caller, found: WebhookView): Promise<ShownWebhook> {
  const [seen] = await seenBy(db, caller, [found])
  if (seen === undefined) throw new Error('a webhook was lost')
  return seen
}

export const webhookRoutes = [
  webhooks.create({
    example: {
      body: { url: 'https://example.com/hooks', events: ['approval.created', 'run.failed'] },
      answers: {
        201: {
          id: story.webhook,
          organization_id: story.organization,
          url: 'https://example.com/hooks',
          host: 'example.com',
          events: ['approval.created', 'run.failed'],
          active: true,
          disabled_reason: null,
          failing_since: null,
          former_secret_until: null,
          created_at: '2026-11-23T09:30:00.000Z',
          created_by: story.requester,
          secret: 'whsec_...',
        },
      },
    },
    summary: 'Create a webhook: an address that gets a signed message for each of these events',
    description:
      'Messages are signed as Standard Webhooks says. They hold ids, names, verdicts and a link, and no parameter or value.',
    body: webhookBody,
    answer: newWebhook,
    audit: ['webhook.created'],
    run: createWebhook,
  }),
  webhooks.list({
    summary: 'The organization’s webhooks',
    async run(context, caller, page) {
      const { data, next_cursor } = await listOwned(context, webhookRows, caller, page)
      return { data: await seenBy(context.db, caller, data), next_cursor }
    },
  }),
  webhooks.read({
    summary: 'One webhook',
    run: async (context, caller, webhookId) =>
      one(context, caller, await readOwned(context, webhookRows, caller, webhookId)),
  }),
  webhooks.change({
    summary: 'Change a webhook’s address or events, or turn it on or off',
    body: webhookChanges,
    audit: ['webhook.updated'],
    run: async (context, caller, webhookId, body) =>
      one(context, caller, await changeWebhook(context, caller, webhookId, body)),
  }),
  webhooks.remove({
    summary: 'Delete a webhook: what waits for it is never sent',
    audit: ['webhook.deleted'],
    run: deleteWebhook,
  }),
  route({
    key: 'POST /organizations/{id}/webhooks/{webhook}/rotate-secret',
    needs: { scope: 'governance:write', role: 'owner', subject: 'organization' },
    inner: [oneWebhook],
    audit: ['webhook.secret_rotated'],
    summary: 'Make a new secret; for a time the old one also signs each message',
    body: rotationBody,
    responses: { 200: newWebhook },
    async handle({ context, caller, params, body, once }) {
      const input = { id: params.webhook, seconds: body.former_valid_seconds }
      return ok(await actOnce(once, () => rotateWebhookSecret(context, caller, input, once)))
    },
  }),
  route({
    key: 'POST /organizations/{id}/webhooks/{webhook}/test',
    needs: { scope: 'governance:write', role: 'owner', subject: 'organization' },
    inner: [oneWebhook],
    audit: ['webhook.tested'],
    summary: 'Send the event `webhook.test` to this webhook',
    description: 'The list of deliveries shows how it ended.',
    body: emptyBody,
    responses: { 202: acceptedDelivery },
    handle: async ({ context, caller, params, once }) =>
      accepted(await actOnce(once, () => testWebhook(context, caller, params.webhook, once))),
  }),
  route({
    key: 'GET /organizations/{id}/webhooks/{webhook}/deliveries',
    needs: { scope: 'governance:read', role: 'admin', subject: 'organization' },
    inner: [oneWebhook],
    summary: 'What was sent to a webhook, and what waits',
    query: listQueryOfPath.extend({ state: deliveryState.optional() }),
    example: {
      answers: {
        200: pageWith({
          id: 'dlv_01M84HX0W2CKT9DFN0GDB5YQ6T',
          webhook_id: story.webhook,
          event_id: 'msg_01M84HQJMTGYC82CRXCPKCR42V',
          event_type: 'run.failed',
          state: 'waiting',
          attempts: 1,
          last_status: 500,
          last_error: 'the answer was 500',
          last_attempt_at: '2026-11-23T09:31:00.000Z',
          next_attempt_at: '2026-11-23T09:31:05.000Z',
          created_at: '2026-11-23T09:30:59.000Z',
          ended_at: null,
        }),
      },
    },
    responses: { 200: listOf(delivery) },
    async handle({ context, caller, params, query }) {
      const which = { webhookId: params.webhook, state: query.state }
      return ok(await listDeliveries(context.db, caller.organizationId, which, pageIn(query)))
    },
  }),
  route({
    key: 'POST /organizations/{id}/webhooks/{webhook}/deliveries/{delivery}/redeliver',
    needs: { scope: 'governance:write', role: 'owner', subject: 'organization' },
    inner: [oneWebhook, oneDelivery],
    audit: ['webhook.redelivered'],
    summary: 'Send a message again, with the same `webhook-id`',
    body: emptyBody,
    responses: { 202: acceptedDelivery },
    async handle({ context, caller, params, once }) {
      const which = { webhookId: params.webhook, deliveryId: params.delivery }
      return accepted(await actOnce(once, () => redeliver(context, caller, which, once)))
    },
  }),
]
