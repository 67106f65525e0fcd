import { sql, type RawBuilder } from 'kysely'

/** Records the result of sending a mail. If the state stays `pending`, the mail is sent again after a minute. */
export const settleMail = ({
  id,
  state,
  error,
}: {
  readonly id: string
  readonly state: 'sent' | 'failed' | 'pending'
  readonly error: string | null
}): RawBuilder<unknown> => sql`
  update notifications set state = ${state}, last_error = ${error}::text,
    sent_at = case when ${state} = 'sent' then clock_timestamp() end,
    shown = case when ${state} = 'pending' then shown else wanted end,
    intent_at = case when ${state} = 'pending' then null else intent_at end,
    next_attempt_at = clock_timestamp() + interval '1 minute'
  where id = ${id}`
