import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { wakeLanes } from '../../db/queries/lanes.ts'
import { newWebhookEvents } from '../../db/queries/webhooks/read-new-events.ts'
import type { Database } from '../../db/schema/index.ts'
import { publicBase } from '../../shared/config.ts'
import { faultSwitch } from '../audit/commit-points.ts'
import type { Configured } from '../context.ts'
import { giveUpSeconds } from './deliveries.ts'
import type { EventData, WebhookEvent } from '../../contract/webhook-events.ts'
import { inOneLine } from '../../policy/text.ts'

/** Events in one transaction. */
const batch = 100

/** For one webhook. Further deliveries fail at once. */
export const mostWaiting = 10_000

/** With a delivery for each active webhook named (commit point `webhook.fan_out`). Processes take different events. */
export async function fanOut(context: Configured): Promise<number> {
  for (let total = 0; ;) {
    const count = await context.db.transaction().execute(async (trx) => {
      const done = await fanOutBatch(trx, publicBase(context.config))
      if (done > 0) faultSwitch('webhook.fan_out:before')
      return done
    })
    if (count > 0) faultSwitch('webhook.fan_out:after')
    total += count
    if (count < batch) return total
  }
}

type NewEvent = EventRow & { readonly webhook_ids: readonly string[] }

async function fanOutBatch(trx: Transaction<Database>, base: string): Promise<number> {
  const { rows: events } = await newWebhookEvents<NewEvent>(batch).execute(trx)
  if (events.length === 0) return 0
  const webhooks = await lockWebhooks(trx, [...new Set(events.flatMap((event) => event.webhook_ids))])
  await sql`
    update webhook_events e set message = m.message
    from json_to_recordset(${JSON.stringify(events.map((each) => ({ id: each.id, message: messageOf(each, base) })))}::json)
         as m(id text, message text)
    where e.id = m.id`.execute(trx)
  const rows = events.flatMap((event) =>
    event.webhook_ids.flatMap((id) => {
      const webhook = webhooks.get(id)
      if (webhook === undefined) return []
      webhook.waiting += 1
      return [deliveryOf(event, id, webhook.waiting > mostWaiting)]
    }),
  )
  if (rows.length === 0) return events.length
  await trx.insertInto('webhook_deliveries').values(rows).execute()
  await wakeLanes(
    sql`select 'webhook', id, organization_id, clock_timestamp() from webhooks
        where id = any(${[...webhooks.keys()]}::text[])`,
  ).execute(trx)
  return events.length
}

/** With their waiting deliveries, up to `mostWaiting`. The lock holds until their lanes are woken. */
async function lockWebhooks(
  trx: Transaction<Database>,
  ids: readonly string[],
): Promise<Map<string, { waiting: number }>> {
  const { rows } = await sql<{ id: string }>`
    select id from webhooks where id = any(${ids}::text[]) and active order by id for update`.execute(trx)
  const { rows: counts } = await sql<{ id: string; waiting: number }>`
    select w.id, (select count(*) from (select from webhook_deliveries d
                                        where d.webhook_id = w.id and d.state = 'waiting'
                                        limit ${mostWaiting}) as few) as waiting
    from unnest(${rows.map((row) => row.id)}::text[]) as w(id)`.execute(trx)
  return new Map(counts.map(({ id, waiting }) => [id, { waiting }]))
}

function deliveryOf(event: NewEvent, webhookId: string, isOver: boolean) {
  const now = sql<Date>`clock_timestamp()`
  return {
    id: newId('delivery'),
    organization_id: event.organization_id,
    webhook_id: webhookId,
    event_id: event.id,
    state: isOver ? ('failed' as const) : ('waiting' as const),
    next_attempt_at: isOver ? null : now,
    give_up_at: sql<Date>`${event.created_at}::timestamptz + make_interval(secs => ${giveUpSeconds})`,
    created_at: event.created_at,
    ended_at: isOver ? now : null,
    last_error: isOver ? `${mostWaiting.toLocaleString('en-US')} other deliveries waited` : null,
  }
}

/** With data of the workflow, run and approval that it names. */
export interface EventRow {
  readonly id: string
  readonly organization_id: string
  readonly type: WebhookEvent
  readonly data: EventData
  readonly created_at: Date
  readonly workflow_id: string | null
  readonly workflow_name: string | null
  /** The requester, or the person of the agent's session. */
  readonly requested_by: string | null
  readonly approval: ApprovalPart | null
}

interface ApprovalPart {
  readonly kind: string
  readonly run_id: string | null
  readonly session_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly tool: string | null
  readonly rule_name: string | null
  readonly risk: string
  readonly approver: string
  readonly expires_at: string | null
  readonly changes_requested: boolean
}

/** The fields of Standard Webhooks. `data` has ids, names, verdicts and a link, but never a parameter. */
function messageOf(row: EventRow, base: string): string {
  const { data, approval } = row
  const { changes_requested: changesRequested, expires_at: expiresAt, ...ofApproval } = approval ?? {}
  const fields = {
    organization_id: row.organization_id,
    workflow_id: row.workflow_id,
    workflow_name: row.workflow_name,
    requested_by: row.requested_by,
    ...ofApproval,
    expires_at: expiresAt ? new Date(expiresAt).toISOString() : null,
    ...data,
    changes_requested: changesRequested === true && data.status === 'rejected' ? true : null,
  }
  const link = linkOf(row)
  const shown = { ...fields, link: link === null ? null : base + link }
  return JSON.stringify({
    type: row.type,
    timestamp: row.created_at.toISOString(),
    data: Object.fromEntries(
      Object.entries(shown)
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => [name, typeof value === 'string' ? short(value) : value]),
    ),
  })
}

function linkOf({ data }: EventRow): string | null {
  if (data.approval_id !== undefined) return `/console/approvals/${data.approval_id}`
  if (data.run_id) return `/console/runs/${data.run_id}`
  return data.session_id === undefined ? null : `/console/sessions/${data.session_id}`
}

/** Characters of each text: an agent chooses the names of its tools. */
const mostCharacters = 300

function short(text: string): string {
  const line = inOneLine(text)
  return line.length <= mostCharacters ? line : `${line.slice(0, mostCharacters - 1).toWellFormed()}…`
}
