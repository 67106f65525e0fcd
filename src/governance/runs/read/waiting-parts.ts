import { soughtOf } from '../../approvals/unknown.ts'
import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import {
  resolveRoute,
  unresolvedOf,
  unresolvedPage,
  type UnresolvedRow,
} from '../../approvals/resolutions.ts'
import { votesWithStandings } from '../../../db/queries/approvals.ts'
import { oneAdmin, shownSeats } from '../../../policy/seats.ts'
import { Chances, type Chance } from '../../approvals/voters.ts'
import type { Reading } from '../../context.ts'
import { listInParts, type JsonParts } from '../../../shared/json-parts.ts'
import type { WaitingView } from './read.ts'

export interface FirstWaiting {
  readonly pending: readonly PendingRow[]
  readonly unresolved: readonly UnresolvedRow[]
}

export const firstWaiting = async (db: Db, runId: string): Promise<FirstWaiting> => ({
  pending: await pendingPage(db, { column: 'run_id', value: runId }),
  unresolved: await unresolvedPage(db, runId),
})

/** One read returns at most this many approvals. */
const mostApprovals = 500

interface Waiting {
  readonly column: 'run_id' | 'session_id'
  readonly value: string
}

type PendingRow = Awaited<ReturnType<typeof pendingPage>>[number]

const changesRequested = sql<WaitingView['changes_requested']>`(
  select json_build_object('email', u.email, 'comment', v.comment) from approval_votes v join users u on u.id = v.user_id
  where approvals.kind = 'revision' and v.approval_id = approvals.supersedes_id and v.changes_requested limit 1)`

const pendingPage = (db: Db, of: Waiting, after = '') =>
  db
    .selectFrom('approvals')
    .select(changesRequested.as('changes_requested'))
    .select(votesWithStandings(sql`approvals.id`, sql`approvals.organization_id`).as('votes'))
    .select([
      'id',
      'kind',
      'step_id',
      'item_index',
      'tool',
      'rule_name',
      'approver',
      'approvals_needed',
      'seats',
      'typed_by',
      'organization_id',
      'requested_by',
      'authors',
      'created_at',
      'expires_at',
    ])
    .where(of.column, '=', of.value)
    .where('status', '=', 'pending')
    .where('id', '>', after)
    .orderBy('id')
    .limit(mostApprovals)
    .execute()

/** First the pending approvals, then the unknown outcomes. `first` has pages that were read already. */
export function pendingInParts({ db }: Reading, of: Waiting, first?: FirstWaiting): JsonParts {
  return listInParts(async function* (): AsyncGenerator<WaitingView> {
    for (let rows = first?.pending ?? (await pendingPage(db, of)); ;) {
      const chances = new Chances(db)
      for (const row of rows) yield pendingView(row, await chances.of(row))
      const last = rows.at(-1)
      if (last === undefined || rows.length < mostApprovals) break
      rows = await pendingPage(db, of, last.id)
    }
    if (of.column === 'run_id') yield* unresolved(db, of.value, first?.unresolved)
  })
}

const pendingView = (row: PendingRow, { required, cannotBeGiven }: Chance): WaitingView => ({
  kind: row.kind,
  changes_requested: row.changes_requested,
  approval_id: row.id,
  step_id: row.step_id,
  item_index: row.item_index,
  tool: row.tool,
  rule_name: row.rule_name,
  approver: row.approver,
  approvers: shownSeats(required.seats),
  cannot_be_given: cannotBeGiven,
  since: row.created_at.toISOString(),
  expires_at: row.expires_at?.toISOString() ?? null,
  resolve_with: null,
  attempt: null,
  sought: null,
})

async function* unresolved(
  db: Db,
  runId: string,
  first?: readonly UnresolvedRow[],
): AsyncGenerator<WaitingView> {
  for await (const row of unresolvedOf(db, runId, first))
    yield {
      kind: 'resolution',
      changes_requested: null,
      approval_id: null,
      step_id: row.step_id,
      item_index: row.item_index < 0 ? null : row.item_index,
      tool: row.tool,
      rule_name: null,
      approver: 'admin',
      approvers: oneAdmin,
      cannot_be_given: null,
      since: (row.sent_at ?? row.created_at).toISOString(),
      expires_at: null,
      resolve_with: resolveRoute(runId, row.step_id),
      attempt: row.attempt,
      sought: soughtOf({ runId, stepId: row.step_id, itemIndex: row.item_index }, row.tool, row.sent_at),
    }
}
