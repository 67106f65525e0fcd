import { sql, type Transaction } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { dropUnsentMails, insertNotifications } from '../../db/queries/notifications.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { NoticeKind } from '../../db/schema/notifications.ts'
import { readSettings } from '../../policy/settings.ts'
import type { SparseLog } from '../../shared/sparse-log.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import type { Changed, NewNotification, Planner } from './planner.ts'
import { shareMessages } from './share.ts'
import { readApprovalSubjects, readCallSubjects, type Subject } from './subjects.ts'

/*
 * Turns notices into messages. A transaction that changes an approval, an unknown outcome or a run inserts a notice.
 * One later transaction deletes the notices and inserts the missing rows of `notifications`. So even after a crash, no
 * row is missing and no row exists twice. Each recipient has one row for each channel, subject and event. If the
 * subject is a call, each attempt of the call has its own row.
 */

/** One pass handles at most `mostOrganizations` organizations, and at most `mostNotices` notices of each. */
const mostOrganizations = 50
const mostNotices = 200
/** One statement inserts at most this many rows. */
const rowsAtOnce = 1_000

/**
 * Turns the notices into rows of `notifications` (commit point `notification.plan`). Returns the number of notices. A
 * failure for one organization does not stop the planning for other organizations.
 */
export async function planNotifications(
  context: { readonly db: Db; readonly sparseLog: SparseLog },
  planners: readonly Planner[],
): Promise<number> {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from notices limit ${mostOrganizations}`.execute(context.db)
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
      // One process at a time plans for an organization, so that no two processes insert the same row.
      await sql`select pg_advisory_xact_lock(hashtextextended(${`notices ${organizationId}`}, 0))`.execute(
        trx,
      )
      const { rows: notices } = await sql<{ kind: NoticeKind; subject: string }>`
        delete from notices where id in (
          select id from notices where organization_id = ${organizationId} order by id limit ${mostNotices})
        returning kind, subject`.execute(trx)
      if (notices.length === 0) return 0
      const changed = await readChanged(trx, organizationId, notices)
      const { settings } = await trx
        .selectFrom('organizations')
        .select('settings')
        .where('id', '=', organizationId)
        .executeTakeFirstOrThrow()
      const organization = { id: organizationId, settings: readSettings(settings) }
      const wanted = []
      for (const planner of planners) wanted.push(...(await planner(trx, organization, changed)))
      await touchSent(trx, organizationId, changed.subjects)
      await dropMails(trx, organizationId, changed.subjects)
      await insertMissing(trx, organizationId, wanted)
      return notices.length
    }),
  )
}

async function readChanged(
  trx: Transaction<Database>,
  organizationId: string,
  notices: readonly { readonly kind: NoticeKind; readonly subject: string }[],
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
  const approvals = await readApprovalSubjects(trx, organizationId, ids('approval'))
  return { subjects: [...approvals, ...onceEach(callSubjects)], runs }
}

/**
 * Removes duplicates. A call with an unknown outcome is read twice if messages about its newest attempt already exist.
 */
const onceEach = (subjects: readonly Subject[]): readonly Subject[] => [
  ...new Map(subjects.map((subject) => [`${subject.id} ${subject.round}`, subject])).values(),
]

/**
 * Requests an edit of the sent Slack messages about changed subjects. Mails and webhook deliveries cannot be edited.
 */
async function touchSent(
  trx: Transaction<Database>,
  organizationId: string,
  subjects: readonly Subject[],
): Promise<void> {
  await sql`
    update notifications set wanted = wanted + 1 where id in (
      select n.message_id from notifications n
        join unnest(${subjects.map(({ id }) => id)}::text[], ${subjects.map(({ round }) => round)}::int[])
          as s(subject, round) on s.subject = n.subject and s.round = n.round
      where n.organization_id = ${organizationId} and n.channel = 'slack')`.execute(trx)
}

/** Removes mails that wait to be sent about approvals that have ended. Nobody would get them, and the list shows them. */
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
