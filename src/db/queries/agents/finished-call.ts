import { sql } from 'kysely'

/** A call that an agent reports as finished. */
export interface FinishedCall {
  readonly userId: string
  /** The client's session. */
  readonly sessionId: string
  readonly paramsHash: string
  readonly outcome: string | null
}

/** What is read of the decision that allowed it. */
export interface DecidedCall {
  readonly run_id: string
  readonly labels: string[]
}

/** Persons who may still ask in the organization of session `s`. */
export const askers = sql`memberships m on m.organization_id = s.organization_id and m.user_id = s.user_id and m.role <> 'viewer'`
