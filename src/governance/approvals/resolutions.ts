import type { Db } from '../../db/schema/index.ts'
import { getTool } from '../../tools/index.ts'
import { callId, readCallId } from '../../contract/ids.ts'
import { oneAdmin } from '../../policy/seats.ts'
import { assessRisk } from '../../policy/risk.ts'
import { publicBase } from '../../shared/config.ts'
import type { Unsealing } from '../context.ts'
import type { Viewer } from '../access/viewer.ts'
import { notFound } from '../errors.ts'
import { pageOf, readCursor, type Page, type PageRequest } from '../page.ts'
import { pageOfCall, soughtOf } from './unknown.ts'
import { openParams } from '../runs/values/sealed-params.ts'
import type { ApprovalView } from './read.ts'
import { previewOf } from './preview.ts'
import { viewersSeeTheirGroups } from './refusals.ts'
import { mayDecide } from './requirement.ts'
import { sightsOf, type Sight } from './sight.ts'

/* The list also has calls with an unknown outcome: rows of `effects`, which a route of the run resolves. */

export const resolveRoute = (runId: string, stepId: string): string =>
  `POST /api/v1/runs/${runId}/steps/${encodeURIComponent(stepId)}/resolve`

/** One query reads at most this many rows. */
const pageSize = 500

export type UnresolvedRow = Awaited<ReturnType<typeof unresolvedPage>>[number]

/** By step and item, after `stepId` and `item`. Is empty for an ended run. */
export const unresolvedPage = (db: Db, runId: string, stepId = '', item = -2) =>
  unresolved(db)
    .where('e.run_id', '=', runId)
    .where((eb) => eb(eb.refTuple('e.step_id', 'e.item_index'), '>', eb.tuple(stepId, item)))
    .orderBy('e.step_id')
    .orderBy('e.item_index')
    .limit(pageSize)
    .execute()

/** `first` is the first page, if the caller has already read it. */
export async function* unresolvedOf(
  db: Db,
  runId: string,
  first?: readonly UnresolvedRow[],
): AsyncGenerator<UnresolvedRow> {
  for (let rows = first ?? (await unresolvedPage(db, runId)); ;) {
    yield* rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < pageSize) return
    rows = await unresolvedPage(db, runId, last.step_id, last.item_index)
  }
}

const unresolved = (db: Db) =>
  db
    .selectFrom('effects as e')
    .innerJoin('runs as r', 'r.id', 'e.run_id')
    .leftJoin('run_steps as s', (join) =>
      join.onRef('s.run_id', '=', 'e.run_id').onRef('s.step_id', '=', 'e.step_id'),
    )
    .select(['e.run_id', 'e.step_id', 'e.item_index', 'e.tool', 'e.attempt', 'e.sent_at', 'r.created_at'])
    .where('e.state', '=', 'unknown_outcome')
    .where('e.resolved_outcome', 'is', null)
    .where('r.finished_at', 'is', null)

/** The newest run first, and within a run by step and item. */
export async function listResolutions(
  context: Unsealing,
  viewer: Viewer,
  filters: {
    readonly run_id?: string | undefined
    readonly mine?: boolean | undefined
    readonly requested_by?: string | undefined
  },
  { limit, cursor }: PageRequest,
): Promise<Page<ApprovalView>> {
  const after = readCallId(readCursor(cursor, /^[\x21-\x7e]{1,200}\/[^\0]{1,400}\/-?\d{1,6}$/))
  const seesThem = filters.mine === true ? mayDecide(viewer.role, 'admin') : viewer.role !== 'viewer'
  if (!seesThem) return { data: [], next_cursor: null }
  let query = unknownOutcomes(context.db).where('e.organization_id', '=', viewer.organizationId)
  if (filters.run_id !== undefined) query = query.where('e.run_id', '=', filters.run_id)
  if (filters.requested_by !== undefined) query = query.where('r.requested_by', '=', filters.requested_by)
  if (after !== null)
    query = query.where((eb) =>
      eb.or([
        eb('e.run_id', '<', after.runId),
        eb.and([
          eb('e.run_id', '=', after.runId),
          eb(eb.refTuple('e.step_id', 'e.item_index'), '>', eb.tuple(after.stepId, after.itemIndex)),
        ]),
      ]),
    )
  const rows = await query
    .orderBy('e.run_id', 'desc')
    .orderBy('e.step_id')
    .orderBy('e.item_index')
    .limit(limit + 1)
    .execute()
  const page = pageOf(rows, limit, callId, (row) => row)
  return { ...page, data: await resolutionViews(context, viewer, page.data) }
}

/** Throws `not_found` also if the outcome was resolved, or if its run has ended. */
export async function readResolution(context: Unsealing, viewer: Viewer, id: string): Promise<ApprovalView> {
  const call = readCallId(id)
  if (call === null) throw notFound('approval', id)
  if (viewer.role === 'viewer') throw viewersSeeTheirGroups()
  const row = await unknownOutcomes(context.db)
    .where('e.organization_id', '=', viewer.organizationId)
    .where('e.run_id', '=', call.runId)
    .where('e.step_id', '=', call.stepId)
    .where('e.item_index', '=', call.itemIndex)
    .executeTakeFirst()
  const [view] = row === undefined ? [] : await resolutionViews(context, viewer, [row])
  if (view === undefined) throw notFound('approval', id)
  return view
}

const unknownOutcomes = (db: Db) =>
  unresolved(db)
    .leftJoin('workflows as w', 'w.id', 'r.workflow_id')
    .leftJoin('decisions as d', 'd.id', 'e.decision_id')
    .select([
      'd.side_effect',
      'd.destination',
      's.summary',
      'w.name as workflow_name',
      'e.params_sealed',
      'e.params_hash',
      'e.labels',
      'r.organization_id',
      'r.workflow_id',
      'r.requested_by',
      'r.requester_email',
    ])
type Row = Awaited<ReturnType<ReturnType<typeof unknownOutcomes>['execute']>>[number]

async function resolutionViews(
  context: Unsealing,
  viewer: Viewer,
  rows: readonly Row[],
): Promise<ApprovalView[]> {
  const runs = rows.map(({ run_id: id, requested_by }) => ({ id, requested_by }))
  const sights = await sightsOf(context.db, viewer, runs)
  return Promise.all(rows.map((row) => resolutionView(context, row, sights.get(row.run_id))))
}

async function resolutionView(context: Unsealing, row: Row, sight: Sight | undefined): Promise<ApprovalView> {
  const tool = getTool(row.tool ?? '')
  const sideEffect = row.side_effect ?? tool?.sideEffect ?? 'write'
  const key = { runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index }
  const params =
    row.params_sealed !== null && sight?.hidden === null
      ? (await openParams(context.sealer, key, row.params_sealed)).params
      : undefined
  return {
    id: callId(row),
    kind: 'resolution',
    status: 'pending',
    used_at: null,
    organization_id: row.organization_id,
    run_id: row.run_id,
    step_id: row.step_id,
    item_index: row.item_index < 0 ? null : row.item_index,
    session_id: null,
    agent_session_id: null,
    agent_name: null,
    workflow_id: row.workflow_id,
    workflow_name: row.workflow_name,
    tool: row.tool,
    summary: row.summary,
    side_effect: sideEffect,
    destination: row.destination,
    reversible: tool?.reversible ?? null,
    ...(params === undefined ? {} : { params }),
    ...(params === undefined || tool === undefined
      ? {}
      : { preview: previewOf(tool, params, row.requester_email) }),
    ...(sight === undefined || sight.hidden === null ? {} : { values_hidden: sight.hidden }),
    ask: null,
    revision: null,
    may_edit: [],
    superseded_by: null,
    supersedes_id: null,
    held_again: null,
    params_hash: row.params_hash,
    rule_id: null,
    rule_name: null,
    labels: row.labels,
    risk: assessRisk([{ sideEffect, risk: tool?.risk ?? 'high', labels: row.labels }]),
    requested_by: row.requested_by,
    authors: [],
    requester_email: row.requester_email,
    approver: 'admin',
    approvals_needed: 1,
    approvers: oneAdmin,
    votes: [],
    created_at: (row.sent_at ?? row.created_at).toISOString(),
    expires_at: null,
    decided_at: null,
    resolve_with: resolveRoute(row.run_id, row.step_id),
    attempt: row.attempt,
    sought: {
      ...soughtOf(key, row.tool, row.sent_at),
      url: params === undefined || tool === undefined ? null : pageOfCall(tool, params, row.destination),
    },
    console_url: `${publicBase(context.config)}/console/runs/${row.run_id}`,
  }
}
