import type { Transaction } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { MessageKind, NotificationChannel } from '../../db/schema/notifications.ts'
import type { GovernanceSettings } from '../../policy/settings.ts'
import type { Subject } from './subjects.ts'

/** A row of `notifications` before it is written: one event of one subject, for one recipient. */
export interface NewNotification {
  readonly channel: NotificationChannel
  /** `approval.created`, `approval.decided`, `outcome.unknown`, … */
  readonly event: string
  readonly kind: MessageKind
  readonly subject: string
  readonly round: number
  /** The id of the person who gets the message. */
  readonly recipient: string
  /** Rows with the same channel, event, recipient and group share a message. Is null if the row has its own message. */
  readonly groupKey: string | null
  /** The message is not sent before this many seconds from now. */
  readonly afterSeconds: number
}

export interface Organization {
  readonly id: string
  readonly settings: GovernanceSettings
}

/** The changed subjects in their present state, and the ended runs. */
export interface Changed {
  readonly subjects: readonly Subject[]
  /** Ids of runs that have ended. */
  readonly runs: readonly string[]
}

/**
 * Returns the messages of one channel with their recipients. The result may include messages that exist already. The
 * existing messages do not change.
 */
export type Planner = (
  trx: Transaction<Database>,
  organization: Organization,
  changed: Changed,
) => Promise<readonly NewNotification[]>
