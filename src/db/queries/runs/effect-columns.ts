import { sql } from 'kysely'

/**
 * The columns of JSON rows of calls, with their types. The rows are numbered (`n`), and have no sealed values. If
 * `sets_detail` is true, an update also replaces `error_detail_sealed`.
 */
export const effectColumns = sql`n int, run_id text, step_id text, item_index int, tool text, state text, attempt int,
  failures int, resolved_outcome text, params_hash text, labels text[], label_sources jsonb, decision_id text,
  approval_id text, output_labels text[], error jsonb, past_outcomes jsonb, intent_at timestamptz, sent_at timestamptz,
  sent_with text, finished_at timestamptz, duration_ms int, wants_slot boolean, bodies int, body_counted boolean, until timestamptz, sets_detail boolean`
