import { z } from 'zod'
import { listNotifications } from '../../governance/notifications/list.ts'
import { filter } from '../query.ts'
import { ok, route } from '../route.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'

const channel = z.enum(['slack', 'mail', 'webhook'])
const state = z.enum(['pending', 'sent', 'updated', 'failed'])

const notification = z
  .strictObject({
    id,
    channel,
    event: z.string().meta({ description: 'such as `approval.created` and `approval.decided`' }),
    recipient: id.meta({ description: 'the person, or the webhook' }),
    approval_id: id.nullable().meta({ description: 'the id in the list of approvals' }),
    run_id: id.nullable().meta({ description: 'the run of a message about a run' }),
    state,
    attempts: z.int(),
    last_error: z.string().nullable().meta({ description: 'the code of the last failure' }),
    created_at: time,
    sent_at: time.nullable(),
  })
  .meta({ id: 'Notification' })

export const getNotifications = route({
  key: 'GET /organizations/{id}/notifications',
  summary: 'Messages about what waits and how it ended, the newest first',
  description: 'The list shows who was told through which channel. It keeps no text of a message.',
  tag: 'Governance',
  query: listQuery.omit({ organization_id: true }).extend({
    channel: channel.optional(),
    state: state.optional(),
    approval_id: filter.optional(),
  }),
  responses: { 200: listOf(notification) },
  async handle({ context, caller, query: { limit, cursor, ...filters } }) {
    const page = { limit, cursor: cursor ?? null }
    return ok(await listNotifications(context.db, caller.organizationId, filters, page))
  },
})
