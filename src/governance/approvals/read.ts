import type { Sought } from '../../contract/sought.ts'
import { sql, type RawBuilder, type Selectable, type SelectQueryBuilder } from 'kysely'
import type { Db, Database } from '../../db/schema/index.ts'
import { getTool } from '../../tools/index.ts'
import type { Preview } from '../../tools/kit/preview.ts'
import type { Reversible, ToolDeclaration } from '../../tools/kit/tool.ts'
import { publicBase } from '../../shared/config.ts'
import type { UnsealingRuns } from '../context.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import type { ApprovalsTable, LabelSource, Risk } from '../../db/schema/runs.ts'
import type { JsonObject, SideEffect } from '../../policy/types.ts'
import type { ValuesHidden, Viewer } from '../access/viewer.ts'
import { readGovernance } from '../audit/policy-cache.ts'
import { notFound } from '../errors.ts'
import { viewersSeeTheirGroups } from './refusals.ts'
import { pageQuery, readPage, type Page, type PageRequest } from '../page.ts'
import { openState } from './approved-state.ts'
import { changePreview, openChange, shownChange, type ShownChange } from './change.ts'
import { agentPreviewOf, previewOf } from './preview.ts'
import { fieldsOf } from '../../contract/tool-params.ts'
import { mostRevisions, readEdits, type ShownEdits, type ShownRevision } from './edits.ts'
import { inAuthorsOrder, shownQuestion, type ShownQuestion } from './question.ts'
import { openParams } from '../runs/values/sealed-params.ts'
import { agentInputBinding } from '../sealing/bindings.ts'
import { mayDecide, requirementOf, storedSeats, type VoteSettings, type Voter } from './requirement.ts'
import { hiddenByApproval, mayFillOne, seesLikeDeciders, type Deciding, type DecidedTerms } from './sight.ts'
import { shownSeats, type ShownSeat } from '../../policy/seats.ts'
import { rightsOf } from './rights.ts'
import { readVotes, type VoteView } from './votes.ts'
import {
  countingVotesOf,
  hasEditableCall,
  hasSeatFor,
  isDecidedBy,
  isForGroup,
  isFound,
} from '../../db/queries/approvals.ts'
import { isOverSql } from './state.ts'

export interface ApprovalView {
  readonly id: string
  readonly kind: ApprovalKind | 'resolution'
  readonly status: ApprovalStatus
  readonly used_at: string | null
  readonly organization_id: string
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  /** The client's id of the agent session; `agent_session_id` is the service's id. */
  readonly session_id: string | null
  readonly agent_session_id: string | null
  /** Null for a run. */
  readonly agent_name: string | null
  readonly workflow_id: string | null
  /** The current name. */
  readonly workflow_name: string | null
  readonly tool: string | null
  /** The `summary` of the step in its definition; of a change, what it would do; of a question, its title. */
  readonly summary: string | null
  readonly side_effect: SideEffect | null
  /** Is null if the call stays here, for a whole run, and for a call of an agent. */
  readonly destination: string | null
  /** Null for a whole run and for a call of an agent. */
  readonly reversible: Reversible | null
  /** Is absent if the viewer may not see what the approval covers, and so is `preview`. */
  readonly params?: JsonObject
  readonly preview?: Preview
  readonly values_hidden?: ValuesHidden
  /** The newer and the former approval. `held_again` is the reason why the former one was replaced. */
  readonly ask: ShownQuestion | null
  /** Null: nobody has edited what it covers. */
  readonly revision: ShownRevision | null
  /** Names of the parameters that those who decide it may edit. */
  readonly may_edit: readonly string[]
  /** Present only if a single approval of a call of a run is read, with `params`. */
  readonly edits?: ShownEdits
  readonly superseded_by: string | null
  readonly supersedes_id: string | null
  readonly held_again: string | null
  readonly params_hash: string | null
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requested_by: string
  /** The people who wrote the version that runs. Is empty for an agent's call. Their votes do not count. */
  readonly authors: readonly { readonly user_id: string; readonly email: string }[]
  /** Replaces `me` in a run's parameters. For an agent's call, the person for whom the agent asks. */
  readonly requester_email: string | null
  /** Null if only groups decide. */
  readonly approver: 'admin' | 'owner' | null
  /** The number now; for a decided approval, the number when it was created. */
  readonly approvals_needed: number
  /** All of them are needed, by different people. */
  readonly approvers: readonly ShownSeat[]
  readonly votes: readonly VoteView[]
  readonly created_at: string
  readonly expires_at: string | null
  readonly decided_at: string | null
  /** The route that resolves an unknown outcome. Is null for an approval. */
  readonly resolve_with: string | null
  /** The attempt whose outcome is unknown. Is null for an approval. */
  readonly attempt: number | null
  /** What is known about it. Is null for an approval. */
  readonly sought: Sought | null
  /** Is present only if a single approval is read. */
  readonly detail?: ApprovalDetail
  readonly console_url: string
}

export interface ApprovalDetail {
  readonly agent: { readonly name: string; readonly kind: string } | null
  /** Explains the decision that held the call; null for a whole run. */
  readonly explanation: string | null
  /** Enforced rules that require an approval. The deciding rule comes first. */
  readonly held_by: readonly string[]
  readonly label_sources: readonly LabelSource[]
  readonly votes_missing: number
  /** How many people fill each seat now. */
  readonly seats: readonly (ShownSeat & { readonly filled: number })[]
  /** The number of people who can still vote, up to 100. */
  readonly voters_left: number
  /** Why these people cannot give it, and what to do. */
  readonly cannot_be_given: string | null
  /** Null if the vote would count. */
  readonly vote_refused: string | null
  /** Whether the call of a run can still be edited: else a request for changes ends it, as any rejection does. */
  readonly can_be_edited: boolean
  /** The person who is away, and by whose right the vote would count. */
  readonly deciding_for: { readonly user_id: string; readonly email: string; readonly until: string } | null
  /** For an agent's call: `ok`, `error`, or `finished` if the client did not say. Null without a report. */
  readonly observed: { readonly outcome: string; readonly at: string } | null
}

export async function listApprovals(
  context: UnsealingRuns,
  viewer: Viewer,
  filters: ApprovalFilters,
  page: PageRequest,
): Promise<Page<ApprovalView>> {
  const { db } = context
  const settings = await readGovernance(db, viewer.organizationId)
  const deciding = await decidingOf(db, viewer)
  const sought = pageQuery(
    filtered(db.selectFrom('approvals').select('id'), deciding, filters, settings),
    'approval',
    page,
  )
  // The index alone says which rows the page has.
  const query = shownColumns(db, mostOpened).where('id', 'in', sought)
  const rows = await readPage(db, query, 'approval', page)
  const votes = await readVotes(
    context,
    rows.data.map((row) => row.id),
  )
  return {
    ...rows,
    data: await Promise.all(
      rows.data.map((row) => approvalView(context, deciding, row, { votes, settings, isSingle: false })),
    ),
  }
}

/** A viewer reads only what they may decide as a member of a group. */
const seesAll = ({ role }: Viewer): boolean => role !== 'viewer'

const decidingOf = async (db: Db, viewer: Viewer): Promise<Deciding> => ({
  ...viewer,
  rights: await rightsOf(db, viewer.organizationId, viewer),
})

/** Throws `not_found` also for an approval of another organization, and `not_an_approver` for a viewer. */
export async function readApproval(
  context: UnsealingRuns,
  viewer: Viewer,
  approvalId: string,
): Promise<ApprovalView> {
  const row = await shownColumns(context.db, null)
    .where('id', '=', approvalId)
    .where('organization_id', '=', viewer.organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('approval', approvalId)
  const [votes, settings, deciding] = await Promise.all([
    readVotes(context, [approvalId]),
    readGovernance(context.db, viewer.organizationId),
    decidingOf(context.db, viewer),
  ])
  // Who asked for a change can read and withdraw it, also after they have lost their role.
  const isOwn = row.kind === 'change' && row.requested_by === viewer.userId
  if (!seesAll(viewer) && !isOwn && !mayFillOne(deciding, row)) throw viewersSeeTheirGroups()
  return approvalView(context, deciding, row, { votes, settings, isSingle: true })
}

/** Bytes of a change. A list shows larger ones without what they would change, which alone can take megabytes. */
const mostOpened = 128 * 1_024

const columns = [
  'id',
  'organization_id',
  'kind',
  'status',
  'run_id',
  'step_id',
  'item_index',
  'session_id',
  'workflow_id',
  'tool',
  'side_effect',
  'destination',
  'params_hash',
  'rule_id',
  'rule_name',
  'labels',
  'risk',
  'requested_by',
  'authors',
  'approver',
  'approvals_needed',
  'seats',
  'created_at',
  'expires_at',
  'decided_at',
  'used_at',
  'superseded_by',
  'state_sealed',
  'supersedes_id',
  'held_again',
  'title',
  'revision',
  'typed_by',
  'may_edit',
] as const
type Row = Pick<Selectable<ApprovalsTable>, (typeof columns)[number] | 'params_sealed'>

/** `most`: bytes of a change; null: any. */
function shownColumns(db: Db, most: number | null) {
  return db
    .selectFrom('approvals')
    .select(columns)
    .select(
      sql<Buffer | null>`case when kind <> 'change' or octet_length(params_sealed) <= ${most ?? 2 ** 31 - 1}::int
        then params_sealed end`.as('params_sealed'),
    )
    .select((eb) =>
      eb
        .selectFrom('workflows as w')
        .select('w.name')
        .whereRef('w.id', '=', 'approvals.workflow_id')
        .as('workflow_name'),
    )
    .select((eb) =>
      eb
        .selectFrom('runs')
        .select('requester_email')
        .whereRef('runs.id', '=', 'approvals.run_id')
        .unionAll(
          eb
            .selectFrom('users')
            .select('email as requester_email')
            .whereRef('users.id', '=', 'approvals.requested_by')
            .where('approvals.kind', 'in', ['agent_call', 'change']),
        )
        .as('requester_email'),
    )
    .select(
      sql<ApprovalView['authors'] | null>`(
        select json_agg(json_build_object('user_id', u.id, 'email', u.email) order by u.email)
        from users u where u.id = any(approvals.authors))`.as('written_by'),
    )
    .select((eb) =>
      eb
        .selectFrom('runs')
        .select('runs.workflow_version')
        .whereRef('runs.id', '=', 'approvals.run_id')
        .as('workflow_version'),
    )
    .select(
      sql<Pick<ShownQuestion, 'answered_by' | 'answered_for'> | null>`(
        select json_build_object('answered_by', json_build_object('user_id', u.id, 'email', u.email),
          'answered_for', (select json_build_object('user_id', f.id, 'email', f.email) from users f where f.id = approvals.answered_for))
        from users u where u.id = approvals.answered_by)`.as('answered'),
    )
    .select(
      hasEditableCall({ runId: sql`approvals.run_id`, id: sql`approvals.id` }, mostRevisions).as(
        'can_be_edited',
      ),
    )
    .select((eb) =>
      eb
        .selectFrom('run_steps as s')
        .select('s.summary')
        .whereRef('s.run_id', '=', 'approvals.run_id')
        .whereRef('s.step_id', '=', 'approvals.step_id')
        .as('summary'),
    )
    .select((eb) =>
      eb
        .selectFrom('agent_sessions')
        .select(['agent_sessions.session_id'])
        .whereRef('agent_sessions.id', '=', 'approvals.session_id')
        .as('client_session_id'),
    )
    .select((eb) =>
      eb
        .selectFrom('agent_sessions')
        .select(['agent_sessions.agent_name'])
        .whereRef('agent_sessions.id', '=', 'approvals.session_id')
        .as('agent_name'),
    )
}

async function approvalView(
  context: UnsealingRuns,
  viewer: Deciding,
  row: Row & {
    requester_email: string | null
    client_session_id: string | null
    agent_name: string | null
    can_be_edited: boolean
    summary: string | null
    workflow_name: string | null
    written_by: ApprovalView['authors'] | null
    workflow_version: number | null
    answered: Pick<ShownQuestion, 'answered_by' | 'answered_for'> | null
  },
  {
    votes,
    settings,
    isSingle,
  }: {
    readonly votes: Awaited<ReturnType<typeof readVotes>>
    readonly settings: VoteSettings
    readonly isSingle: boolean
  },
): Promise<ApprovalView> {
  const hidden = hiddenByApproval(viewer, row)
  const params = hidden === null ? await shownParams(context, row) : undefined
  const required =
    row.status === 'pending'
      ? requirementOf(row, settings)
      : { seats: storedSeats(row), needed: row.approvals_needed }
  const isStep = ['step', 'repeat', 'revision', 'edit'].includes(row.kind)
  const tool = isStep && row.tool !== null ? getTool(row.tool) : undefined
  const edits =
    isSingle && isStep && params !== undefined ? await readEdits(context, viewer, row, params) : null
  return {
    id: row.id,
    kind: row.kind,
    status: row.status,
    used_at: row.used_at?.toISOString() ?? null,
    organization_id: row.organization_id,
    run_id: row.run_id,
    step_id: row.step_id,
    item_index: row.item_index,
    session_id: row.client_session_id,
    agent_session_id: row.session_id,
    agent_name: row.agent_name,
    workflow_id: row.workflow_id,
    workflow_name: row.workflow_name,
    tool: row.tool,
    summary: row.title ?? row.summary,
    side_effect: row.side_effect,
    destination: row.destination,
    reversible: tool?.reversible ?? null,
    ...(params === undefined ? {} : { params }),
    ...(params === undefined ? {} : await shownPreview(context, viewer, row, tool, params)),
    ...(hidden === null ? {} : { values_hidden: hidden }),
    ask: await shownQuestion(context, row, { withAnswer: isSingle && hidden === null }),
    revision: revisionOf(row),
    may_edit: mayEditOf(row),
    ...(edits === null ? {} : { edits }),
    superseded_by: row.superseded_by,
    supersedes_id: row.supersedes_id,
    held_again: row.held_again,
    params_hash: row.params_hash,
    rule_id: row.rule_id,
    rule_name: row.rule_name,
    labels: row.labels,
    risk: row.risk,
    requested_by: row.requested_by,
    authors: row.written_by ?? [],
    requester_email: row.requester_email,
    approver: row.approver,
    approvals_needed: required.needed,
    approvers: shownSeats(required.seats),
    votes: votes.get(row.id) ?? [],
    created_at: row.created_at.toISOString(),
    expires_at: row.expires_at?.toISOString() ?? null,
    decided_at: row.decided_at?.toISOString() ?? null,
    resolve_with: null,
    attempt: null,
    sought: null,
    console_url: `${publicBase(context.config)}/console/approvals/${row.id}`,
  }
}

const revisionOf = ({
  revision,
  answered,
}: Pick<Selectable<ApprovalsTable>, 'revision'> & Answered): ShownRevision | null =>
  revision === null || answered?.answered_by == null
    ? null
    : { by: answered.answered_by, for: answered.answered_for, ...revision }

interface Answered {
  readonly answered: Pick<ShownQuestion, 'answered_by' | 'answered_for'> | null
}

/** The requester may edit every parameter that the tool has. */
function mayEditOf({
  kind,
  status,
  tool,
  may_edit,
  can_be_edited,
}: Pick<Selectable<ApprovalsTable>, 'kind' | 'status' | 'tool' | 'may_edit'> & {
  readonly can_be_edited: boolean
}): readonly string[] {
  if (status !== 'pending' || !can_be_edited) return []
  const declared = tool === null ? undefined : getTool(tool)
  return kind === 'revision' && declared !== undefined ? Object.keys(fieldsOf(declared)) : may_edit
}

/** What the call would change is shown only to people who may decide: the requester may not be able to read it. */
async function shownPreview(
  { sealer }: UnsealingRuns,
  viewer: Deciding,
  row: Pick<Selectable<ApprovalsTable>, 'id' | 'kind' | 'tool' | 'state_sealed' | keyof DecidedTerms> & {
    requester_email: string | null
  },
  tool: ToolDeclaration | undefined,
  params: JsonObject,
): Promise<{ readonly preview?: Preview }> {
  if (row.kind === 'agent_call') return { preview: agentPreviewOf(row.tool, params) }
  if (row.kind === 'change') return { preview: changePreview(params as unknown as ShownChange) }
  if (tool === undefined) return {}
  const state = seesLikeDeciders(viewer, row) ? await openState(sealer, row.id, row.state_sealed) : null
  return { preview: previewOf(tool, params, row.requester_email ?? '', state) }
}

async function shownParams(
  context: UnsealingRuns,
  row: Row & { workflow_version: number | null },
): Promise<JsonObject | undefined> {
  if (row.params_sealed === null) return undefined
  if (row.kind === 'agent_call')
    return JSON.parse(await context.sealer.open(agentInputBinding(row.id), row.params_sealed)) as JsonObject
  if (row.kind === 'change')
    return shownChange(await openChange(context.sealer, row.id, row.params_sealed)) as unknown as JsonObject
  if (row.run_id === null || row.step_id === null) return undefined
  const key = { runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index ?? -1 }
  const { params } = await openParams(context.sealer, key, row.params_sealed)
  return inAuthorsOrder(context, row, params)
}

export interface ApprovalFilters {
  readonly status?: ApprovalStatus | undefined
  readonly kind?: ApprovalKind | undefined
  readonly run_id?: string | undefined
  /** Only approvals that the viewer may decide now. */
  readonly mine?: boolean | undefined
  readonly rule_id?: string | undefined
  readonly requested_by?: string | undefined
  readonly risk?: Risk['level'] | undefined
  /** Part of the tool, of the title, of the workflow's name or of the requester's address, or the id of it or its run. */
  readonly search?: string | undefined
  /** Only what is decided or ended, or only what waits. */
  readonly decided?: boolean | undefined
  /** Who voted, or answered. */
  readonly decided_by?: string | undefined
  /** The name that a group of its approvers had when it was asked for. */
  readonly group?: string | undefined
}

export function filtered<O>(
  all: SelectQueryBuilder<Database, 'approvals', O>,
  viewer: Deciding,
  filters: ApprovalFilters,
  settings: VoteSettings,
): SelectQueryBuilder<Database, 'approvals', O> {
  let query = all.where('organization_id', '=', viewer.organizationId)
  if (filters.status !== undefined) query = query.where('status', '=', filters.status)
  if (filters.kind !== undefined) query = query.where('kind', '=', filters.kind)
  if (filters.run_id !== undefined) query = query.where('run_id', '=', filters.run_id)
  if (filters.rule_id !== undefined) query = query.where('rule_id', '=', filters.rule_id)
  if (filters.requested_by !== undefined) query = query.where('requested_by', '=', filters.requested_by)
  if (filters.risk !== undefined) query = query.where(sql<boolean>`risk->>'level' = ${filters.risk}`)
  if (filters.decided !== undefined) query = query.where('status', filters.decided ? '<>' : '=', 'pending')
  if (filters.search !== undefined) query = query.where(isFound(viewer.organizationId, filters.search))
  if (filters.decided_by !== undefined) query = query.where(isDecidedBy(filters.decided_by))
  if (filters.group !== undefined) query = query.where(isForGroup(filters.group))
  if (filters.mine === true) return decidable(query, viewer, settings)
  return seesAll(viewer) ? query : query.where(anyOf(viewer.rights.map(hasSeat)))
}

/** SQL, as `canFillOne`. */
const hasSeat = ({ role, groups, user_id, for_user }: Voter): RawBuilder<boolean> =>
  hasSeatFor(
    (['admin', 'owner'] as const).filter((approver) => mayDecide(role, approver)),
    [...groups, for_user ?? user_id],
  )

/** SQL: one of the conditions. */
const anyOf = (conditions: readonly RawBuilder<boolean>[]): RawBuilder<boolean> =>
  sql<boolean>`(${sql.join(conditions, sql` or `)})`

/**
 * Pending, not expired, and the viewer can decide (`decisionRefusal`). Who has voted sees it again only if enough votes
 * count, which is not said of approvals by groups.
 */
function decidable<O>(
  query: SelectQueryBuilder<Database, 'approvals', O>,
  viewer: Deciding,
  { allow_self_approval: allowsOwn, approval_threshold: threshold }: VoteSettings,
): SelectQueryBuilder<Database, 'approvals', O> {
  const { userId } = viewer
  // A change needs a second person, and a question none, whatever the settings are (`requirementOf`).
  const isOthers = (person: string): RawBuilder<boolean> =>
    sql<boolean>`(((${allowsOwn} and kind <> 'change') or kind in ('ask', 'repeat', 'revision')
        or (kind = 'edit' and seats @> ${JSON.stringify([{ id: person }])}::jsonb)
        or ${person} <> all(approvals.authors || approvals.requested_by))
      and (kind = 'edit' or ${person} <> all(typed_by)))`
  const can = (voter: Voter): RawBuilder<boolean> =>
    sql<boolean>`(${hasSeat(voter)} and ${isOthers(voter.for_user ?? userId)})`
  return query
    .where('status', '=', 'pending')
    .where(anyOf(viewer.rights.map(can)))
    .where(isOthers(userId))
    .where(sql<boolean>`not ${isOverSql(sql<Date>`clock_timestamp()`)}`)
    .where(
      sql<boolean>`(not exists (select from approval_votes v where v.approval_id = approvals.id and v.user_id = ${userId})
        or (seats is null and ${countingVotesOf(allowsOwn)} >= greatest(approvals_needed, ${threshold})))`,
    )
}
