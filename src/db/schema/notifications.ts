import type { ColumnType, Generated, GeneratedAlways } from 'kysely'

/** `call` means a call with an unknown outcome, `absence` that the absence of a person has begun. */
export type NoticeKind = 'approval' | 'call' | 'run' | 'absence'
/** A claim says that a Slack account belongs to a member, who types in the code of its message. */
export type MessageKind = Exclude<NoticeKind, 'absence'> | 'claim'
export type NotificationChannel = 'slack' | 'mail' | 'webhook'
export type NotificationState = 'pending' | 'sent' | 'updated' | 'failed'

/** The row exists until the rows of `notifications` reflect the change. */
export interface NoticesTable {
  id: GeneratedAlways<number>
  organization_id: string
  kind: NoticeKind
  /** The id of an approval, run or person. For a call it is `RUN/STEP/ITEM`. */
  subject: string
  /** Null: at once. */
  due_at: Date | null
  created_at: Generated<Date>
}

export type NotificationPlace = Readonly<Record<string, string>>

/** One recipient of one message in one channel. */
export interface NotificationsTable {
  id: string
  organization_id: string
  channel: NotificationChannel
  event: string
  kind: MessageKind
  subject: string
  /** Is the number of the attempt whose outcome is unknown. Is 0 if the message is not about a call. */
  round: Generated<number>
  /** The id of a person or of a webhook. */
  recipient: string
  /** Several rows can share one message. Only the state, attempts, `place` and errors of this row count. */
  message_id: string
  /** Is `RUN/STEP` if one message may be about several items of a step. Otherwise it is null. */
  group_key: Generated<string | null>
  state: Generated<NotificationState>
  /** The number of changes that the message must show. The message is sent or edited until `shown` equals `wanted`. */
  wanted: Generated<number>
  shown: Generated<number>
  shown_hash: Generated<string | null>
  attempts: Generated<number>
  failures: Generated<number>
  /** Is set before a message is sent. Is cleared if the message was certainly not sent. */
  intent_at: Generated<Date | null>
  next_attempt_at: Generated<Date>
  place: ColumnType<NotificationPlace | null, string | null | undefined, string | null>
  last_error: Generated<string | null>
  created_at: Generated<Date>
  sent_at: Generated<Date | null>
}

/** A member without a row has the default settings. */
export interface MailPreferencesTable {
  organization_id: string
  user_id: string
  mail: boolean
  /** A mail is sent if nobody has decided after this many seconds. */
  delay_seconds: number
}

export interface NotificationsTables {
  notices: NoticesTable
  notifications: NotificationsTable
  mail_preferences: MailPreferencesTable
}
