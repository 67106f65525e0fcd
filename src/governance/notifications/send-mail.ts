import { sql } from 'kysely'
import { settleMail, leaseDueMails, type LeasedMail } from '../../db/queries/notifications.ts'
import type { Db } from '../../db/schema/index.ts'
import { readSettings } from '../../policy/settings.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import type { SparseLog } from '../../shared/sparse-log.ts'
import type { ServiceMail } from '../service-mail.ts'
import { mailAbout } from './mail-text.ts'
import { canDecide } from './recipients.ts'
import { readReaders } from './plan-mail.ts'
import { readApprovalSubjects, readCallSubjects, type Subject } from './subjects.ts'

/**
 * Sends one mail. Awaits `beforeDot` before it sends the final dot of SMTP, because the mail may arrive as soon as the
 * dot is sent. Resolves only if the mail server has certainly accepted the mail, and rejects otherwise.
 */
export type SendReminder = (mail: ServiceMail, beforeDot: () => Promise<void>) => Promise<unknown>

interface Sending {
  readonly config: Config
  readonly db: Db
  readonly sparseLog: SparseLog
}

/**
 * A round sends at most `mostOfRound` mails, and at most `mostOfOrganization` mails of one organization. One
 * organization sends at most `mostOfHour` mails in an hour.
 */
const mostOfRound = 20
const mostOfOrganization = 5
export const mostOfHour = 300
/**
 * For this many seconds, only one worker may send a mail. Sending takes less time. If the worker dies before the final
 * dot of SMTP, another worker sends the mail after this time.
 */
const leaseSeconds = 300
/**
 * Each mail gets at most this many attempts. There is another attempt only if the last attempt certainly did not send
 * the mail.
 */
export const mostAttempts = 5

/**
 * Sends the due mails. Removes a mail if none of its subjects still waits, or if the recipient can decide about none of
 * them (for example after a vote). Also removes a mail if the recipient or the organization has turned mails off.
 *
 * `intent_at` is committed before the final dot of SMTP. A mail with `intent_at` is sent again only if the server has
 * certainly refused it. So each mail arrives at most once. If the server's answer is lost, the mail becomes `failed`
 * with `mail_outcome_unknown`.
 */
export async function sendMails(context: Sending, send: SendReminder): Promise<void> {
  const due = await leaseMails(context.db)
  await Promise.all(
    due.map((mail) =>
      sendOne(context, mail, send).catch((error: unknown) =>
        context.sparseLog.warn(
          'mails',
          { err: error as Error, organization_id: mail.organization_id, notification_id: mail.id },
          'a mail about an approval could not be sent',
        ),
      ),
    ),
  )
}

async function leaseMails(db: Db): Promise<readonly LeasedMail[]> {
  // The workers of these mails died after the intent and before the answer of the mail server. So it is unknown whether
  // the mails have arrived, and they are not sent again.
  await sql`
    update notifications set state = 'failed', last_error = 'mail_outcome_unknown', shown = wanted
    where channel = 'mail' and state = 'pending' and id = message_id and intent_at is not null
      and next_attempt_at <= clock_timestamp()`.execute(db)
  const { rows } = await leaseDueMails({ leaseSeconds, mostOfOrganization, mostOfHour, mostOfRound }).execute(
    db,
  )
  return rows
}

async function sendOne({ config, db }: Sending, mail: LeasedMail, send: SendReminder): Promise<void> {
  const waiting = await waitingSubjects(db, mail)
  const reader = (await readReaders(db, mail.organization_id)).find(({ userId }) => userId === mail.recipient)
  const { settings } = await db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', mail.organization_id)
    .executeTakeFirstOrThrow()
  const present = readSettings(settings)
  const asked = waiting.filter((subject) => reader !== undefined && canDecide(reader, subject, present))
  const [first] = asked
  if (first === undefined || reader === undefined || !present.mail_approval_notifications) {
    await db
      .deleteFrom('notifications')
      .where('message_id', '=', mail.id)
      .where('sent_at', 'is', null)
      .execute()
    return
  }
  const later = first.createdAt.getTime() + reader.delaySeconds * 1_000
  if (mail.event !== 'approval.reminder' && later > Date.now()) return postpone(db, mail, later)
  const text = mailAbout(first, {
    count: asked.length,
    isReminder: mail.event === 'approval.reminder',
    base: publicBase(config),
    settings: present,
  })
  let mayLeave = true
  try {
    await send({ ...text, to: reader.email }, async () => {
      mayLeave = await markIntent(db, mail)
      if (!mayLeave) throw new Error('another worker sends this mail')
    })
  } catch (error) {
    // This worker's lease had ended, and another worker records the mail's outcome.
    if (!mayLeave) return
    await settle(db, mail, await afterFailure(db, mail, error))
    throw error
  }
  await atCommitPoint('mail.sent', () => settle(db, mail, { state: 'sent', error: null }))
}

/**
 * Commits that the mail may be sent from now on (commit point `mail.intent`). Returns false if another worker sends the
 * mail.
 */
function markIntent(db: Db, { id }: LeasedMail): Promise<boolean> {
  return atCommitPoint('mail.intent', async () => {
    const { numAffectedRows = 0n } = await sql`
      update notifications set intent_at = clock_timestamp()
      where id = ${id} and state = 'pending' and intent_at is null`.execute(db)
    return numAffectedRows === 1n
  })
}

/** Returns the subjects of the mail that still wait. */
async function waitingSubjects(db: Db, { id, organization_id }: LeasedMail): Promise<readonly Subject[]> {
  const rows = await db
    .selectFrom('notifications')
    .select(['kind', 'subject', 'round'])
    .where('message_id', '=', id)
    .orderBy('id')
    .limit(1_000)
    .execute()
  const approvals = rows.filter(({ kind }) => kind === 'approval').map(({ subject }) => subject)
  const calls = rows
    .filter(({ kind }) => kind === 'call')
    .map(({ subject, round }) => ({ id: subject, round }))
  const subjects = [
    ...(await readApprovalSubjects(db, organization_id, approvals)),
    ...(await readCallSubjects(db, organization_id, calls)),
  ]
  return subjects.filter(({ state }) => state === 'waits')
}

async function postpone(db: Db, { id }: LeasedMail, at: number): Promise<void> {
  await db
    .updateTable('notifications')
    .set({ next_attempt_at: new Date(at), attempts: sql<number>`attempts - 1` })
    .where('id', '=', id)
    .execute()
}

type Settled = { readonly state: 'sent' | 'failed' | 'pending'; readonly error: string | null }

async function afterFailure(db: Db, { id, attempts }: LeasedMail, error: unknown): Promise<Settled> {
  const row = await db.selectFrom('notifications').select('intent_at').where('id', '=', id).executeTakeFirst()
  const { code, retryable } = error as { code?: unknown; retryable?: unknown }
  const isRefused = typeof code === 'string' && code.startsWith('mail_')
  // After the intent, the mail may have arrived, unless the server has definitely refused it.
  if (row?.intent_at != null && !isRefused) return { state: 'failed', error: 'mail_outcome_unknown' }
  const name = isRefused ? code : 'mail_not_sent'
  return { state: attempts >= mostAttempts || retryable === false ? 'failed' : 'pending', error: name }
}

async function settle(db: Db, { id }: LeasedMail, { state, error }: Settled): Promise<void> {
  await settleMail({ id, state, error }).execute(db)
}
