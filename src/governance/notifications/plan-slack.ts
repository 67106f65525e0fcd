import type { Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Changed, NewNotification, Organization } from './planner.ts'
import { canDecide, mostRecipients, readPeople, type Person } from './recipients.ts'
import type { Subject, SubjectState } from './subjects.ts'

/** A step with more items than this has one message for each person. */
export const mostSingleItems = 5

/** Ends that the requester is told. They withdrew it themselves, or see its successor, where it is missing here. */
const toldEnds: ReadonlySet<SubjectState> = new Set(['approved', 'rejected', 'expired'])

/**
 * Direct messages in Slack: to those who can decide when something waits, and to the requester when it is decided. None
 * while `slack_approval_notifications` is off or the organization has no connection.
 */
export async function planSlack(
  trx: Transaction<Database>,
  { id, settings }: Organization,
  { subjects }: Changed,
): Promise<readonly NewNotification[]> {
  const told = subjects.filter(({ state }) => state === 'waits' || toldEnds.has(state))
  if (told.length === 0 || !settings.slack_approval_notifications || !(await isConnected(trx, id))) return []
  const requesters = [...new Set(told.map(({ requestedBy }) => requestedBy))]
  const linked = (await readPeople(trx, id, requesters)).filter(({ slackAccount }) => slackAccount !== null)
  return told.flatMap((subject) =>
    subject.state === 'waits'
      ? linked
          .filter((person) => canDecide(person, subject, settings))
          .slice(0, mostRecipients)
          .map((person) => rowOf(waitingEvent(subject), subject, person))
      : linked
          .filter(({ userId }) => userId === subject.requestedBy && subject.kind === 'approval')
          .map((person) => rowOf('approval.decided', subject, person)),
  )
}

const waitingEvent = ({ kind }: Subject): string => (kind === 'call' ? 'outcome.unknown' : 'approval.created')

const rowOf = (event: string, subject: Subject, { userId }: Person): NewNotification => ({
  channel: 'slack',
  event,
  kind: subject.kind,
  subject: subject.id,
  round: subject.round,
  recipient: userId,
  groupKey: groupOf(subject),
  afterSeconds: 0,
})

/** The step whose items share a message; null for anything else. */
const groupOf = ({ runId, stepId, itemIndex, itemCount }: Subject): string | null =>
  itemIndex !== null && (itemCount ?? 0) > mostSingleItems ? `${runId}/${stepId}` : null

/** An expired connection counts: its messages fail, which the list of messages shows. */
async function isConnected(trx: Transaction<Database>, organizationId: string): Promise<boolean> {
  const row = await trx
    .selectFrom('connections')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('integration', '=', 'slack')
    .where('owner_id', 'is', null)
    .where('status', '<>', 'revoked')
    .executeTakeFirst()
  return row !== undefined
}
