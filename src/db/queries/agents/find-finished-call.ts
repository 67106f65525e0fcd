import { sql } from 'kysely'

/** A call that an agent reports as finished. */
export interface FinishedCall {
  readonly userId: string
  /** The client's own id of the agent session. */
  readonly sessionId: string
  /** The hash of the tool and its arguments, without the folder of a shell. */
  readonly paramsHash: string
  readonly outcome: string | null
}

/** The columns of the decision on a finished call. */
export interface DecidedCall {
  readonly run_id: string
  readonly labels: string[]
}

/**
 * SQL that joins the membership of session `s`'s person. Finds no row if this person may no longer ask for decisions in
 * the session's organization.
 */
export const askers = sql`memberships m on m.organization_id = s.organization_id and m.user_id = s.user_id and m.role <> 'viewer'`
