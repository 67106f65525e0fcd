import type { Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Changed, NewNotification, Organization } from './plan.ts'
import { canDecide, mostRecipients, readPeople, type Person } from './recipients.ts'
import type { Subject, SubjectState } from './subjects.ts'

/** If a step has more items than this, its items share one message for each person. */
export const mostSingleItems = 5

/**
 * The requester gets a message if an approval ends in one of these states. The requester needs no message if the
 * approval was withdrawn, or if a new approval has replaced it.
 */
const toldEnds: ReadonlySet<SubjectState> = new Set(['approved', 'rejected', 'expired'])

/**
 * Plans direct messages in Slack. People who can decide get a message when an approval or call waits. The requester
 * gets a message when an approval ends. No messages are planned while `slack_approval_notifications` is off, or while
 * the organization has no Slack connection.
 */
export async function planSlack(
  trx: Transaction<Database>,
  { id, settings }: Organization,
  { subjects }: Changed,
): Promise<readonly NewNotification[]> {
  const told = subjects.filter(({ state }) => state === 'waits' || toldEnds.has(state))
  if (told.length === 0 || !settings.slack_approval_notifications || !(await hasSlack(trx, id))) return []
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

/** Returns the step whose items share one message. Returns null if the subject has its own message. */
const groupOf = ({ runId, stepId, itemIndex, itemCount }: Subject): string | null =>
  itemIndex !== null && (itemCount ?? 0) > mostSingleItems ? `${runId}/${stepId}` : null

/**
 * Returns whether the organization has a connection for Slack. Connections of persons do not count. An expired
 * connection counts. Then messages are planned and fail, and the list of messages shows the failures.
 */
export async function hasSlack(trx: Transaction<Database>, organizationId: string): Promise<boolean> {
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
