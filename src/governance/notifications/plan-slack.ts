import type { Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Changed, NewNotification, Organization } from './plan.ts'
import { isReminded, isTold, mostRecipients, namedIn, readPeople, type Person } from './recipients.ts'
import type { Subject, SubjectState } from './subjects.ts'

/** More items of a step share one message for each person. */
export const mostSingleItems = 5

/** The requester is told of these. One who withdrew, or whose approval was replaced, needs no message. */
const toldEnds: ReadonlySet<SubjectState> = new Set(['approved', 'rejected', 'expired'])

/** Deciders hear of what waits, requesters of its end. None if `slack_approval_notifications` is off. */
export async function planSlack(
  trx: Transaction<Database>,
  { id, settings }: Organization,
  { subjects }: Changed,
): Promise<readonly NewNotification[]> {
  const told = subjects.filter(({ state }) => state === 'waits' || toldEnds.has(state))
  if (told.length === 0 || !settings.slack_approval_notifications || !(await hasSlack(trx, id))) return []
  const requesters = [...new Set(told.map(({ requestedBy }) => requestedBy))]
  const others = [...requesters, ...namedIn(told)]
  const linked = (await readPeople(trx, id, others)).filter(({ slackAccount }) => slackAccount !== null)
  return told.flatMap((subject) =>
    subject.state === 'waits'
      ? linked
          .filter((person) => isTold(person, subject, settings))
          .slice(0, mostRecipients)
          .flatMap((person) => [
            rowOf(waitingEvent(subject), subject, person),
            ...(isReminded(person, subject, settings)
              ? [rowOf('approval.asked_again', subject, person)]
              : []),
          ])
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

/** The step whose items share one message. */
const groupOf = ({ runId, stepId, itemIndex, itemCount }: Subject): string | null =>
  itemIndex !== null && (itemCount ?? 0) > mostSingleItems ? `${runId}/${stepId}` : null

/** Connections of persons do not count. With an expired one, messages fail, and the list shows that. */
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
