import { sql, type Transaction } from 'kysely'
import { usualMailDelay } from '../../contract/mail-delay.ts'
import { groupsOfPerson } from '../../db/queries/approvals.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import type { NewNotification, Planner } from './plan.ts'
import {
  forAbsent,
  isReminded,
  isTold,
  mayBeAsked,
  mostRecipients,
  namedIn,
  type Person,
} from './recipients.ts'
import type { Subject } from './subjects.ts'

/** Can get mails, after the chosen delay. */
export interface Reader extends Omit<Person, 'slackAccount'> {
  readonly delaySeconds: number
  /** null for UTC. */
  readonly timeZone: string | null
}

/** People who may be asked, and the members in `others`, with a confirmed address, who have not turned mails off. */
export async function readReaders(
  db: Db,
  organizationId: string,
  others: readonly string[],
): Promise<readonly Reader[]> {
  const rows = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .leftJoin('mail_preferences as p', (join) =>
      join.onRef('p.organization_id', '=', 'm.organization_id').onRef('p.user_id', '=', 'm.user_id'),
    )
    .select(['m.user_id as userId', 'u.email', 'm.role', 'u.time_zone as timeZone'])
    .select(groupsOfPerson(sql`m.organization_id`, sql`m.user_id`).as('groups'))
    .select(forAbsent.as('forAbsent'))
    .select(sql<number>`coalesce(p.delay_seconds, ${usualMailDelay})`.as('delaySeconds'))
    .where('m.organization_id', '=', organizationId)
    .where((eb) => eb.or([mayBeAsked, eb('m.user_id', 'in', ['', ...others])]))
    .where('u.email_verified', '=', true)
    .where(sql<boolean>`coalesce(p.mail, true)`)
    .orderBy('m.user_id')
    .execute()
  return rows
}

/** With a quarter of the subject's life left, at most an hour: after two hours, 30 minutes before the expiry. */
const reminderAt = ({ createdAt, expiresAt }: Subject): number | null =>
  expiresAt === null
    ? null
    : expiresAt.getTime() - Math.min((expiresAt.getTime() - createdAt.getTime()) / 4, 3_600_000)

/**
 * A first mail after the chosen delay, and reminders when the rule says so and before the expiry, to each person who can decide, and to owners if nobody can. None without a
 * mail server, or with `mail_approval_notifications` off. A due mail is sent only if its subject still waits
 * (send-mail.ts).
 */
export const planMail =
  ({ tools }: Pick<Config, 'tools'>): Planner =>
  async (trx: Transaction<Database>, { id, settings }, { subjects }) => {
    const waiting = subjects.filter(({ state }) => state === 'waits')
    if (tools.smtpUrl === null || waiting.length === 0 || !settings.mail_approval_notifications) return []
    const readers = await readReaders(trx, id, namedIn(waiting))
    const now = Date.now()
    return waiting.flatMap((subject) =>
      readers
        .filter((reader) => isTold(reader, subject, settings))
        .slice(0, mostRecipients)
        .flatMap((reader) => mailsTo(reader, subject, now, isReminded(reader, subject, settings))),
    )
  }

function mailsTo(
  { userId, delaySeconds }: Reader,
  subject: Subject,
  now: number,
  isReminded: boolean,
): NewNotification[] {
  const first = subject.createdAt.getTime() + delaySeconds * 1_000
  const reminder = reminderAt(subject)
  const row = (event: string, at: number): NewNotification => ({
    channel: 'mail',
    event,
    kind: subject.kind,
    subject: subject.id,
    round: subject.round,
    recipient: userId,
    // All items of one step share a mail. In Slack, only many items share a message (plan-slack.ts).
    groupKey: subject.itemIndex === null ? null : `${subject.runId}/${subject.stepId}`,
    afterSeconds: Math.max(0, (at - now) / 1_000),
  })
  const news = row(subject.kind === 'call' ? 'outcome.unknown' : 'approval.created', first)
  // Whose first mail comes later than the rule's reminder needs no reminder.
  const again =
    isReminded && first <= (subject.remindAt?.getTime() ?? 0) ? [row('approval.asked_again', now)] : []
  if (reminder === null) return [news, ...again]
  const last = row('approval.reminder', reminder)
  // A reminder that is due no later replaces the first mail.
  return first < reminder ? [news, ...again, last] : [last]
}
