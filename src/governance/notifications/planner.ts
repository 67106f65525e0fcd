import type { Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { NoticeKind, NotificationChannel } from '../../db/schema/notifications.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import type { Subject } from './subjects.ts'

/** A message to one recipient, before its row is written. */
export interface NewNotification {
  readonly channel: NotificationChannel
  /** `approval.created`, `approval.decided`, `outcome.unknown`, … */
  readonly event: string
  readonly kind: NoticeKind
  readonly subject: string
  readonly round: number
  /** The id of a person or of a webhook. */
  readonly recipient: string
  /** Rows of one channel, event, recipient and group share a message. */
  readonly groupKey: string | null
  /** Not before so many seconds from now. */
  readonly afterSeconds: number
}

export interface Organization {
  readonly id: string
  readonly settings: GovernanceSettings
}

/** What has changed, as it is now. */
export interface Changed {
  readonly subjects: readonly Subject[]
  /** Ids of runs that have ended. */
  readonly runs: readonly string[]
}

/** Says who gets which messages of a channel. It may name rows that exist: they stay as they are. */
export type Planner = (
  trx: Transaction<Database>,
  organization: Organization,
  changed: Changed,
) => Promise<readonly NewNotification[]>
