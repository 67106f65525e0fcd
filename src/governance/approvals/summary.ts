import type { ApprovalKind } from '../../contract/status.ts'
import { countWaitingApprovals } from '../../db/queries/approvals.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { readBounded } from '../page.ts'

/** In each list, the largest number comes first. */
export interface WaitingSummary {
  readonly total: number
  readonly kinds: readonly { readonly kind: ApprovalKind; readonly count: number }[]
  readonly rules: readonly {
    readonly rule_id: string
    readonly rule_name: string
    readonly count: number
  }[]
  readonly requesters: readonly {
    readonly user_id: string
    readonly email: string
    readonly count: number
  }[]
  readonly risks: readonly { readonly level: Risk['level']; readonly count: number }[]
}

/** Each list has at most this many entries. */
const mostEntries = 100

export async function readWaitingSummary(db: Db, organizationId: string): Promise<WaitingSummary> {
  const { rows } = await readBounded(db, (trx) =>
    countWaitingApprovals({ organizationId, mostEntries }).execute(trx),
  )
  return {
    total: rows.find(({ is_total }) => is_total)?.count ?? 0,
    kinds: rows.flatMap(({ kind, count }) => (kind === null ? [] : [{ kind, count }])),
    rules: rows
      .flatMap(({ rule_id, rule_name, count }) =>
        rule_id === null ? [] : [{ rule_id, rule_name: rule_name ?? rule_id, count }],
      )
      .slice(0, mostEntries),
    requesters: rows
      .flatMap(({ requested_by: user_id, email, count }) =>
        user_id === null ? [] : [{ user_id, email: email ?? user_id, count }],
      )
      .slice(0, mostEntries),
    risks: rows.flatMap(({ level, count }) => (level === null ? [] : [{ level, count }])),
  }
}
