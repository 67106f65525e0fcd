import { z } from 'zod'
import { chosenEvents, webhookEvents, type WebhookEvent } from '../../contract/webhook-events.ts'
import { textField } from '../../policy/text.ts'
import { approver, id, riskLevel, time } from './common.ts'
import { approvalKinds, approvalStatuses } from '../../contract/status.ts'

export const webhookEvent = z.enum(chosenEvents)
export const messageType = z.enum(Object.keys(webhookEvents) as WebhookEvent[])
export const deliveryState = z.enum(['waiting', 'delivered', 'failed'])

const events = z.array(webhookEvent).min(1, 'name at least one event').max(chosenEvents.length)
const url = textField(2_000).meta({
  description: 'Where messages are sent: https, at a public address, without a user and without `#`.',
})

export const webhookBody = z.strictObject({ url, events })

export const webhookChanges = z.strictObject({
  url: url.optional(),
  events: events.optional(),
  active: z
    .boolean()
    .optional()
    .describe('`false`: it gets no messages. `true`: what still waits for it goes on.'),
})

export const longestFormerSecret = 7 * 24 * 3_600

export const rotationBody = z.strictObject({
  former_valid_seconds: z
    .int()
    .min(0)
    .max(longestFormerSecret)
    .default(24 * 3_600)
    .describe('How long the secret before this one also signs; 0: not at all.'),
})

/** The body of a request to a webhook. Fields without a value are left out. */
export const webhookMessage = z
  .strictObject({
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
  .meta({ id: 'WebhookMessage' })
