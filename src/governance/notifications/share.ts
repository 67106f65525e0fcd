import { sql, type Transaction } from 'kysely'
import { newestMessagesOf } from '../../db/queries/notifications.ts'
import type { Database } from '../../db/schema/index.ts'
import type { NewNotification } from './planner.ts'

type Unplaced = NewNotification & { readonly id: string }
type Group = Pick<NewNotification, 'channel' | 'event' | 'kind' | 'groupKey'>

/**
 * Gives each new row a message: a new message, or the newest message of the row's group. If a message asks people to
 * decide, further items are added while at least one item of the message waits. After that, the next item starts a new
 * message, so that people notice this item.
 *
 * An item also starts a new message if the newest message can no longer be extended:
 * - The newest message is a mail that is being sent or was sent.
 * - The newest message is `failed`.
 * - The newest message went to a Slack account that is no longer linked.
 */
export async function shareMessages(
  trx: Transaction<Database>,
  organizationId: string,
  rows: readonly Unplaced[],
): Promise<readonly (Unplaced & { readonly messageId: string })[]> {
  const messageOf = new Map<string, string>()
  const open = new Map<string, Map<string, string>>()
  const older = new Set<string>()
  for (const row of rows) {
    if (row.groupKey === null) continue
    const group = JSON.stringify([row.channel, row.event, row.groupKey])
    let messages = open.get(group)
    if (messages === undefined) {
      messages = await openMessages(trx, organizationId, row)
      open.set(group, messages)
      for (const id of messages.values()) older.add(id)
    }
    const message = messages.get(row.recipient) ?? row.id
    messages.set(row.recipient, message)
    messageOf.set(row.id, message)
  }
  const grown = [...new Set(messageOf.values())].filter((id) => older.has(id))
  if (grown.length > 0)
    await sql`update notifications set wanted = wanted + 1 where id = any(${grown}::text[])`.execute(trx)
  return rows.map((row) => ({ ...row, messageId: messageOf.get(row.id) ?? row.id }))
}

/**
 * Returns the newest message of the group for each recipient, if this message takes further items. Locks the messages,
 * so that no other transaction removes them.
 */
async function openMessages(
  trx: Transaction<Database>,
  organizationId: string,
  { channel, event, kind, groupKey }: Group,
): Promise<Map<string, string>> {
  const { rows } = await newestMessagesOf({ organizationId, channel, event, kind, groupKey }).execute(trx)
  const isNewest = ({ waits }: { readonly waits: boolean }) => waits || event === 'approval.decided'
  return new Map(
    rows.filter((row) => row.is_open && isNewest(row)).map(({ recipient, id }) => [recipient, id]),
  )
}
