import { sql, type Selectable, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { dropUnsentMails } from '../../db/queries/notifications/mails.ts'
import {
  insertNotifications,
  newestMessagesOf,
  touchMessages,
} from '../../db/queries/notifications/messages.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type {
  NoticeKind,
  NoticesTable,
  MessageKind,
  NotificationChannel,
} from '../../db/schema/notifications.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import { readGovernance } from '../audit/policy-cache.ts'
import type { SparseLog } from '../../shared/log.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { readApprovalSubjects, readCallSubjects, type Subject } from './subjects.ts'

/*
 * Turns notices into messages. The transaction that changes an approval, an unknown outcome or a run inserts a notice.
 * A later one deletes it and inserts the missing rows of `notifications`, so after a crash no row is missing, and none
 * exists twice. Each recipient has one row for each channel, subject and event; for a call, for each of its attempts.
 */

/** In one pass, and for each organization in it. */
const mostOrganizations = 50
const mostNotices = 200
/** In one statement. */
const rowsAtOnce = 1_000

/** Commit point `notification.plan`. Returns the number of notices. One failing organization does not stop others. */
export async function planNotifications(
  context: { readonly db: Db; readonly sparseLog: SparseLog },
  planners: readonly Planner[],
): Promise<number> {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from notices where ${isDue} limit ${mostOrganizations}`.execute(
    context.db,
  )
  let planned = 0
  for (const { organization_id: id } of rows)
    planned += await planFor(context.db, id, planners).catch((error: unknown) => {
      context.sparseLog.warn(
        `notices ${id}`,
        { err: error as Error, organization_id: id },
        'the notices of an organization could not be turned into messages',
      )
      return 0
    })
  return planned
}

function planFor(db: Db, organizationId: string, planners: readonly Planner[]): Promise<number> {
  return atCommitPoint('notification.plan', () =>
    db.transaction().execute(async (trx) => {
      // So that no two processes insert the same row.
      await sql`select pg_advisory_xact_lock(hashtextextended(${`notices ${organizationId}`}, 0))`.execute(
        trx,
      )
      const { rows: notices } = await sql<Notice>`
        delete from notices where id in (
          select id from notices where organization_id = ${organizationId} and ${isDue} order by id limit ${mostNotices})
        returning kind, subject, due_at`.execute(trx)
      if (notices.length === 0) return 0
      await noticeAllWaiting(trx, organizationId, notices)
      const changed = await readChanged(trx, organizationId, notices)
      const organization = { id: organizationId, settings: await readGovernance(trx, organizationId) }
      const wanted = []
      for (const planner of planners) wanted.push(...(await planner(trx, organization, changed)))
      await touchSent(trx, organizationId, changed.subjects)
      await dropMails(trx, organizationId, changed.subjects)
      await insertMissing(trx, organizationId, wanted)
      return notices.length
    }),
  )
}

/** When an absence has begun, the deputy is asked for everything that waits. Later passes do it. */
async function noticeAllWaiting(
  trx: Transaction<Database>,
  organizationId: string,
  notices: readonly Notice[],
): Promise<void> {
  if (!notices.some(({ kind }) => kind === 'absence')) return
  await sql`
    insert into notices (organization_id, kind, subject)
    select organization_id, 'approval', id from approvals
    where organization_id = ${organizationId} and status = 'pending'`.execute(trx)
}

type Notice = Pick<Selectable<NoticesTable>, 'kind' | 'subject' | 'due_at'>

const isDue = sql<boolean>`(due_at is null or due_at <= clock_timestamp())`

/** What was planned ahead is of use only while the approval waits: its end was told when it came. */
const isOfUse = (subject: Subject, notices: readonly Notice[]): boolean =>
  subject.state === 'waits' ||
  notices.some((notice) => notice.subject === subject.id && notice.due_at === null)

async function readChanged(
  trx: Transaction<Database>,
  organizationId: string,
  notices: readonly Notice[],
): Promise<Changed> {
  const ids = (kind: NoticeKind): string[] => [
    ...new Set(notices.filter((notice) => notice.kind === kind).map(({ subject }) => subject)),
  ]
  const runs = ids('run')
  const calls = ids('call')
  const told = await trx
    .selectFrom('notifications')
    .select(['subject', 'round'])
    .distinct()
    .where('organization_id', '=', organizationId)
    .where('kind', '=', 'call')
    .where((eb) =>
      eb.or([
        eb('subject', 'in', ['', ...calls]),
        ...runs.map((run) => eb('subject', 'like', `${run.replaceAll('_', '\\_')}/%`)),
      ]),
    )
    .execute()
  const wanted = new Map<string, { id: string; round: number | null }>()
  for (const id of calls) wanted.set(id, { id, round: null })
  for (const { subject: id, round } of told) wanted.set(`${id} ${round}`, { id, round })
  const callSubjects = await readCallSubjects(trx, organizationId, [...wanted.values()])
  const approvals = (await readApprovalSubjects(trx, organizationId, ids('approval'))).filter((subject) =>
    isOfUse(subject, notices),
  )
  return { subjects: [...approvals, ...onceEach(callSubjects)], runs }
}

/** A call with an unknown outcome is read twice if there are messages about its newest attempt. */
const onceEach = (subjects: readonly Subject[]): readonly Subject[] => [
  ...new Map(subjects.map((subject) => [`${subject.id} ${subject.round}`, subject])).values(),
]

/** Mails and webhook deliveries cannot be edited. */
async function touchSent(
  trx: Transaction<Database>,
  organizationId: string,
  subjects: readonly Subject[],
): Promise<void> {
  await touchMessages(sql`id in (
      select n.message_id from notifications n
        join unnest(${subjects.map(({ id }) => id)}::text[], ${subjects.map(({ round }) => round)}::int[])
          as s(subject, round) on s.subject = n.subject and s.round = n.round
      where n.organization_id = ${organizationId} and n.channel = 'slack')`).execute(trx)
}

/** About approvals that have ended: nobody would get them, and the list shows them. */
async function dropMails(
  trx: Transaction<Database>,
  organizationId: string,
  subjects: readonly Subject[],
): Promise<void> {
  const ended = subjects.filter(({ kind, state }) => kind === 'approval' && state !== 'waits')
  if (ended.length === 0) return
  await dropUnsentMails(
    organizationId,
    ended.map(({ id }) => id),
  ).execute(trx)
}

async function insertMissing(
  trx: Transaction<Database>,
  organizationId: string,
  wanted: readonly NewNotification[],
): Promise<void> {
  if (wanted.length === 0) return
  const known = await trx
    .selectFrom('notifications')
    .select(['subject', 'round', 'event', 'channel', 'recipient'])
    .where('organization_id', '=', organizationId)
    .where('subject', 'in', [...new Set(wanted.map(({ subject }) => subject))])
    .execute()
  const seen = new Set(known.map(keyOf))
  const missing = wanted.filter((each) => !seen.has(keyOf(each)) && seen.add(keyOf(each)))
  const rows = await shareMessages(
    trx,
    organizationId,
    missing.map((each) => ({ ...each, id: newId('notification') })),
  )
  for (let from = 0; from < rows.length; from += rowsAtOnce)
    await insertNotifications(organizationId, rows.slice(from, from + rowsAtOnce)).execute(trx)
}

const keyOf = (row: Pick<NewNotification, 'subject' | 'round' | 'event' | 'channel' | 'recipient'>): string =>
  JSON.stringify([row.channel, row.event, row.subject, row.round, row.recipient])

/** One event of one subject, for one recipient, before it is written to `notifications`. */
export interface NewNotification {
  readonly channel: NotificationChannel
  /** `approval.created`, `approval.decided`, `outcome.unknown`, … */
  readonly event: string
  readonly kind: MessageKind
  readonly subject: string
  readonly round: number
  readonly recipient: string
  /** Rows of one channel, event, recipient and group share a message. null: it has its own. */
  readonly groupKey: string | null
  /** From now, at the earliest. */
  readonly afterSeconds: number
}

export interface Organization {
  readonly id: string
  readonly settings: GovernanceSettings
}

/** Subjects in their present state. */
export interface Changed {
  readonly subjects: readonly Subject[]
  /** Those that have ended. */
  readonly runs: readonly string[]
}

/** Plans the messages of one channel. Some may exist already: these do not change. */
export type Planner = (
  trx: Transaction<Database>,
  organization: Organization,
  changed: Changed,
) => Promise<readonly NewNotification[]>

type Unplaced = NewNotification & { readonly id: string }
type Group = Pick<NewNotification, 'channel' | 'event' | 'kind' | 'groupKey'>

/**
 * Gives each new row a message: a new one, or the newest of its group, while at least one item of it waits. After that,
 * the next item starts a new one, so that people notice it. So it does if the newest is a mail that is being sent or
 * was sent, is `failed`, or went to a Slack account that is no longer linked.
 */
async function shareMessages(
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

/** The newest message of the group that takes further items, locked so that it is not removed. */
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
