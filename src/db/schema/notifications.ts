import type { ColumnType, Generated, GeneratedAlways } from 'kysely'

/** What a notice or a message is about: an approval, a call whose outcome is unknown, or a run. */
export type NoticeKind = 'approval' | 'call' | 'run'
export type NotificationChannel = 'slack' | 'mail' | 'webhook'
export type NotificationState = 'pending' | 'sent' | 'updated' | 'failed'

/** A change that messages may be about, until the rows of `notifications` are in line with it. */
export interface NoticesTable {
  id: GeneratedAlways<number>
  organization_id: string
  kind: NoticeKind
  /** The id of an approval, `RUN/STEP/ITEM`, or the id of a run. */
  subject: string
  created_at: Generated<Date>
}

/** Where a message is at its service. */
export type NotificationPlace = Readonly<Record<string, string>>

/** One recipient of one message of one channel. */
export interface NotificationsTable {
  id: string
  organization_id: string
  channel: NotificationChannel
  event: string
  kind: NoticeKind
  subject: string
  /** The attempt whose outcome is unknown; 0 for approvals and runs. */
  round: Generated<number>
  /** The id of a person or of a webhook. */
  recipient: string
  /** The row whose state, attempts, place and errors count: its own id, or that of the message that it shares. */
  message_id: string
  /** `RUN/STEP` where several items may share a message. */
  group_key: Generated<string | null>
  state: Generated<NotificationState>
  /** Counts what the message must show, and what it shows. There is work as long as they differ. */
  wanted: Generated<number>
  shown: Generated<number>
  shown_hash: Generated<string | null>
  attempts: Generated<number>
  /** Failed looks and updates since the last success. */
  failures: Generated<number>
  /** Set before a message is sent, and cleared when it was certainly not sent. */
  intent_at: Generated<Date | null>
  next_attempt_at: Generated<Date>
  place: ColumnType<NotificationPlace | null, string | null | undefined, string | null>
  /** A code, such as `slack_forbidden`. */
  last_error: Generated<string | null>
  created_at: Generated<Date>
  sent_at: Generated<Date | null>
}

/** Which process sends an organization's messages of a channel. */
export interface NotificationLanesTable {
  organization_id: string
  channel: NotificationChannel
  turn: string | null
  leased_until: Date | null
  paused_until: Date | null
}

/** What members have chosen about mails; without a row, the defaults hold. */
export interface MailPreferencesTable {
  organization_id: string
  user_id: string
  mail: boolean
  /** A mail leaves if nobody has decided after so many seconds. */
  delay_seconds: number
}
