import { sql } from 'kysely'

/**
 * The seconds from the request to the decision. `extract` is not used here, because it computes with slow decimal
 * numbers.
 */
export const seconds = sql`date_part('epoch', decided_at - created_at)`

export const isDecided = sql`status in ('approved', 'rejected')`
