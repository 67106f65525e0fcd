import { sql } from 'kysely'
import { groupsOfPerson } from '../../db/queries/approvals.ts'
import type { Db } from '../../db/schema/index.ts'
import type { NotificationPlace, NotificationState } from '../../db/schema/notifications.ts'
import { readSettings, type GovernanceSettings } from '../../policy/settings.ts'
import { codeEvent, readClaim, testEvent, type SentClaim } from './claims.ts'
import { forAbsent, isTold, type Person } from './recipients.ts'
import { readApprovalSubjects, readCallSubjects, type Subject } from './subjects.ts'

/** With its subjects, as they were when it was read. */
export interface SentMessage {
  readonly id: string
  readonly organizationId: string
  readonly event: string
  readonly state: NotificationState
  /** Changes of the content when the row was read. A text of the subjects below shows all of them. */
  readonly wanted: number
  readonly attempts: number
  readonly failures: number
  /** Since the last attempt, if it may have succeeded. */
  readonly sentSecondsAgo: number | null
  readonly place: NotificationPlace | null
  readonly shownHash: string | null
  /** With the present role and account; null if the recipient has left. */
  readonly person: Person | null
  readonly settings: GovernanceSettings
  /** Those that wait come first. Empty for a message with a code. */
  readonly subjects: readonly Subject[]
  /** The code's claim; null for other messages, or if it was deleted. */
  readonly claim: SentClaim | null
}

/** null if the message was removed. */
export async function readSentMessage(db: Db, id: string): Promise<SentMessage | null> {
  // If a subject changes after `wanted` was read, the message shows the change before `wanted` counts it. It is only
  // checked once more then.
  const row = await db
    .selectFrom('notifications as n')
    .innerJoin('organizations as o', 'o.id', 'n.organization_id')
    .leftJoin('memberships as m', (join) =>
      join.onRef('m.organization_id', '=', 'n.organization_id').onRef('m.user_id', '=', 'n.recipient'),
    )
    .leftJoin('users as u', 'u.id', 'm.user_id')
    .select([
      'n.id',
      'n.organization_id',
      'n.event',
      'n.kind',
      'n.state',
      'n.wanted',
      'n.attempts',
      'n.failures',
    ])
    .select(['n.place', 'n.shown_hash', 'n.recipient', 'o.settings', 'm.role', 'm.slack_account', 'u.email'])
    .select(groupsOfPerson(sql`m.organization_id`, sql`m.user_id`).as('groups'))
    .select(forAbsent.as('for_absent'))
    .select(sql<number | null>`extract(epoch from clock_timestamp() - n.intent_at)::float8`.as('ago'))
    .where('n.id', '=', id)
    .executeTakeFirst()
  if (row === undefined) return null
  const about = await db
    .selectFrom('notifications')
    .select(['subject as id', 'round'])
    .where('message_id', '=', id)
    .execute()
  const claim = row.kind === 'claim' ? await readClaim(db, id) : null
  const subjects =
    row.kind === 'call'
      ? await readCallSubjects(db, row.organization_id, about)
      : await readApprovalSubjects(db, row.organization_id, about.map((each) => each.id)) // prettier-ignore
  return {
    id: row.id,
    organizationId: row.organization_id,
    event: row.event,
    state: row.state,
    wanted: row.wanted,
    attempts: row.attempts,
    failures: row.failures,
    sentSecondsAgo: row.ago,
    place: row.place,
    shownHash: row.shown_hash,
    person:
      row.role === null || row.email === null
        ? null
        : {
            userId: row.recipient,
            email: row.email,
            role: row.role,
            groups: row.groups,
            forAbsent: row.for_absent,
            slackAccount: row.slack_account,
          },
    settings: readSettings(row.settings),
    claim,
    subjects: subjects.toSorted((a, b) => Number(b.state === 'waits') - Number(a.state === 'waits')),
  }
}

/** For an unsent message. */
export function isOfUse({ event, person, settings, subjects, claim }: SentMessage): boolean {
  if (person === null) return false
  if (event === codeEvent || event === testEvent) return claim?.state === 'open'
  if (!settings.slack_approval_notifications) return false
  if (event === 'approval.decided') return subjects.some(({ state }) => state !== 'waits')
  return subjects.some((subject) => subject.state === 'waits' && isTold(person, subject, settings))
}
