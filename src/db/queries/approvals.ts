import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind } from '../../contract/status.ts'
import type { Risk } from '../schema/runs.ts'
import type { Role } from '../../policy/types.ts'

/** A group has one kind, rule, requester or risk level, the only field that is set. The total has none. */
export interface WaitingCount {
  readonly kind: ApprovalKind | null
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly requested_by: string | null
  readonly email: string | null
  readonly level: Risk['level'] | null
  readonly count: number
  readonly is_total: boolean
}

/** In total, by kind, rule, requester and risk level: lists of at most `mostEntries` + 1 rows, the largest first. */
export const countWaitingApprovals = (given: {
  readonly organizationId: string
  readonly mostEntries: number
}): RawBuilder<WaitingCount> => sql`
  with counted as (
    select kind, rule_id, max(rule_name) as rule_name, requested_by, level, count(*)::int as count,
      grouping(kind) as k, grouping(rule_id) as r, grouping(requested_by) as p, grouping(level) as l
    from (select kind, rule_id, rule_name, requested_by, risk->>'level' as level from approvals
          where organization_id = ${given.organizationId} and status = 'pending') as waiting
    group by grouping sets ((kind), (rule_id), (requested_by), (level), ()))
  select kind, rule_id, rule_name, requested_by, u.email, level, count, k + r + p + l = 4 as is_total
  from (select *, row_number() over (partition by k, r, p, l order by count desc) as place from counted) as c
    left join users u on u.id = c.requested_by
  where place <= ${given.mostEntries + 1} order by count desc, rule_name, u.email`

/** SQL: whether the vote `v` is by the voter's own right, or an absence covers it (docs/escalation.md). */
const isCovered = (
  organization: RawBuilder<unknown>,
): RawBuilder<boolean> => sql`(v.for_user is null or exists (
  select from absences ab where ab.organization_id = ${organization} and ab.user_id = v.for_user
    and ab.deputy = v.user_id and ab.from_at <= v.at and v.at < ab.until_at))`

/** SQL: the person by whose right the vote `v` was given. */
export const holderOfVote = sql`coalesce(v.for_user, v.user_id)`

/**
 * SQL: names of the groups by which the vote `v` was given. A person who joined a group later did not vote for it, nor
 * one whose group was asked later.
 */
export const groupsOfVote = sql<string[]>`array(
  select distinct asked.who->>'group' from approvals a cross join jsonb_array_elements(a.seats) seat
    cross join lateral (select seat as who union all select l from jsonb_array_elements(seat->'also') l
                        where (l->>'at')::timestamptz <= v.at) as asked
    join group_members m on m.group_id = asked.who->>'id'
  where a.id = v.approval_id and m.user_id = ${holderOfVote} and m.added_at <= v.at order by 1)`

/** SQL: left joins the membership `m` of this person. None if the vote counts no more. */
export const joinHolder = (organization: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  left join memberships m on m.organization_id = ${organization} and m.user_id = ${holderOfVote}
    and ${isCovered(organization)}`

/** SQL: JSON of the rights by which a person can vote for those who are away at this time. */
export const rightsOfAbsent = (
  organization: RawBuilder<unknown>,
  person: RawBuilder<unknown>,
  at: RawBuilder<Date>,
): RawBuilder<Rights[]> => sql`
  coalesce((select json_agg(json_build_object('for_user', ab.user_id, 'role', am.role,
                                              'groups', ${groupsOfPerson(sql`am.organization_id`, sql`am.user_id`)})
                            order by ab.user_id)
            from absences ab
              join memberships am on am.organization_id = ab.organization_id and am.user_id = ab.user_id
            where ab.organization_id = ${organization} and ab.deputy = ${person}
              and ab.from_at <= ${at} and ${at} < ab.until_at), '[]')`

interface Rights {
  readonly for_user: string | null
  readonly role: Role | null
  readonly groups: readonly string[]
}

/** Of `approvals`, with the votes, and the decision that required the approval. */
export const approvalColumns = sql`id, kind, run_id, workflow_id, step_id, item_index, session_id, requested_by, authors, params_hash, labels,
  rule_name, supersedes_id, held_again, state_changes, approver, approvals_needed, seats, created_at, remind_at, expires_at, status, decided_at, used_at, used_by, superseded_by, answered_by, answered_for, revision, typed_by, may_edit,
  (select d.id from decisions d where d.approval_id = approvals.id order by d.decided_at limit 1) as decision_id,
  coalesce((select json_agg(json_build_object('user_id', v.user_id, 'for_user', v.for_user, 'is_covered', ${isCovered(sql`approvals.organization_id`)},
                                              'at', v.at, 'email', u.email, 'decision', v.decision, 'comment', v.comment, 'changes_requested', v.changes_requested))
            from approval_votes v join users u on u.id = v.user_id where v.approval_id = approvals.id), '[]') as votes`

/** JSON: ids of groups by the ids of `people`, a list in SQL; null if none is in a group. */
export const groupsByPerson = (
  organizationId: string,
  people: RawBuilder<unknown>,
): RawBuilder<Record<string, string[]> | null> => sql`(
  select json_object_agg(user_id, ids)
  from (select user_id, json_agg(group_id) as ids from group_members
        where organization_id = ${organizationId} and user_id in (${people}) group by user_id) as g)`

/** SQL: ids of the groups of a person. */
export const groupsOfPerson = (
  organization: RawBuilder<unknown>,
  person: RawBuilder<unknown>,
): RawBuilder<string[]> => sql`
  array(select group_id from group_members where organization_id = ${organization} and user_id = ${person})`

/** SQL: a list of the votes on an approval, with the roles and groups that the voters have now. */
export const votesWithStandings = (
  approval: RawBuilder<unknown>,
  organization: RawBuilder<unknown>,
): RawBuilder<VoteWithStanding[]> => sql`
  coalesce((select json_agg(json_build_object('user_id', v.user_id, 'for_user', v.for_user, 'at', v.at,
                                              'decision', v.decision, 'role', m.role,
                                              'groups', ${groupsOfPerson(sql`m.organization_id`, sql`m.user_id`)}))
            from approval_votes v ${joinHolder(organization)}
            where v.approval_id = ${approval}), '[]')`

interface VoteWithStanding extends Rights {
  readonly user_id: string
  readonly at: string
  readonly decision: 'approve' | 'reject'
}

/** With the present roles and groups of its voters. */
export const newestApproval = <Approval>(
  organizationId: string,
  where: RawBuilder<unknown>,
): RawBuilder<{
  readonly approval: Approval
  readonly tool: string | null
  readonly roles: Record<string, Role> | null
  readonly groups: Record<string, string[]> | null
}> => sql`
  select to_json(a) as approval, a.tool, (
      select json_object_agg(user_id, role) from memberships
      where organization_id = ${organizationId}
        and user_id in (select ${holderOfVote} from approval_votes v where v.approval_id = a.id)
    ) as roles, ${groupsByPerson(organizationId, sql`select ${holderOfVote} from approval_votes v where v.approval_id = a.id`)} as groups
  from (select ${approvalColumns}, tool from approvals where ${where} order by id desc limit 1) as a`

/** What decides whether a person sees the values of these runs. A question holds no call, so it hides nothing. */
export const readSightFacts = <Facts>(runIds: readonly string[], userId: string): RawBuilder<Facts> => sql`
  select r.id, r.requester_email, o.settings, clock_timestamp() as at,
    ${groupsOfPerson(sql`r.organization_id`, sql`${userId}`)} as groups,
    ${rightsOfAbsent(sql`r.organization_id`, sql`${userId}`, sql`clock_timestamp()`)} as for_absent,
    (select coalesce(jsonb_agg(jsonb_build_object('id', g.id, 'name', g.name) order by g.name), '[]') from groups g
     where g.id = any(r.readers)) as readers,
    (select coalesce(jsonb_agg(distinct jsonb_build_object('kind', a.kind, 'approver', a.approver,
       'approvals_needed', a.approvals_needed, 'seats', a.seats, 'decided_at', a.decided_at)), '[]') from approvals a
     -- A run that was made again has values of the earlier ones.
     where a.kind not in ('ask', 'repeat', 'revision') and (a.run_id = r.id or a.run_id in (select c.id from runs c where r.chain is not null and (c.id = r.chain or c.chain = r.chain)))) as approvals
  from runs r join organizations o on o.id = r.organization_id
  where r.id = any(${[...runIds]}::text[])`

/** On pending approvals of these runs, with the roles and groups that the voters have now. */
export const pendingVotes = <Vote>(runIds: readonly string[]): RawBuilder<Vote> => sql`
  select a.id as approval_id, a.run_id, a.step_id, a.kind, a.typed_by, a.rule_name, a.approver, a.approvals_needed, a.seats, a.requested_by,
         a.authors, v.user_id, v.for_user, v.at, v.decision, m.role,
         ${groupsOfPerson(sql`m.organization_id`, sql`m.user_id`)} as groups
  from approvals a join approval_votes v on v.approval_id = a.id ${joinHolder(sql`a.organization_id`)}
  where a.run_id = any(${[...runIds]}::text[]) and a.status = 'pending'`

/** Organizations take turns: the first of each, then the second of each, and so on. */
export const readDueApprovals = (
  isOver: RawBuilder<boolean>,
  most: number,
): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select id, organization_id, expires_at,
      row_number() over (partition by organization_id order by expires_at, id) as turn
    from approvals where status = 'pending' and ${isOver}) due
  order by turn, expires_at limit ${most}`

/** SQL: whether a person with one of these roles, or one of these ids (theirs and of their groups), can fill one of the seats of `approvals`. */
export const hasSeatFor = (
  roles: readonly string[],
  ids: readonly string[],
): RawBuilder<boolean> => sql<boolean>`(
  approver = any(${[...roles]}::text[])
  or exists (select from jsonb_array_elements(coalesce(seats, '[]')) as s
             where s->>'id' = any(${[...ids]}::text[])
               or exists (select from jsonb_array_elements(coalesce(s->'also', '[]')) as l
                          where (l->>'at')::timestamptz <= coalesce(decided_at, clock_timestamp())
                            and (l->>'role' = any(${[...roles]}::text[]) or l->>'id' = any(${[...ids]}::text[])))))`

const partOf = (text: string) => sql`lower(${`%${text.replaceAll(/[\\%_]/g, '\\$&')}%`})`

/** SQL: whether a row of `approvals` has this text in what everybody sees of it, or is named by it. */
export const isFound = (organizationId: string, text: string): RawBuilder<boolean> => sql<boolean>`(
  lower(tool) like ${partOf(text)} or lower(title) like ${partOf(text)} or approvals.id = ${text} or run_id = ${text}
  or workflow_id in (select w.id from workflows w where w.organization_id = ${organizationId}
                     and position(lower(${text}) in lower(w.name)) > 0)
  or requested_by in (select u.id from memberships m join users u on u.id = m.user_id
                      where m.organization_id = ${organizationId} and position(lower(${text}) in lower(u.email)) > 0))`

/** SQL: whether the person has voted on a row of `approvals`, or answered it. */
export const isDecidedBy = (userId: string): RawBuilder<boolean> => sql<boolean>`approvals.id in (
  select v.approval_id from approval_votes v where v.user_id = ${userId}
  union all select a.id from approvals a where a.answered_by = ${userId})`

/** SQL: whether a row of `approvals` asks this group, from the beginning or later. */
export const isForGroup = (name: string): RawBuilder<boolean> => sql<boolean>`(seats is not null and exists (
  select from jsonb_array_elements(seats) as s
  where s->>'group' = ${name}
    or exists (select from jsonb_array_elements(coalesce(s->'also', '[]')) as l where l->>'group' = ${name})))`

/** SQL: whether the held call of this approval has begun no attempt, and was edited fewer times than `most`. */
export const hasEditableCall = (
  { runId, id }: { readonly runId: RawBuilder<unknown>; readonly id: RawBuilder<unknown> },
  most: number,
): RawBuilder<boolean> => sql<boolean>`exists (
  select from effects e where e.run_id = ${runId} and e.approval_id = ${id} and e.state = 'held' and e.attempt = 0
    and e.tool is not null and coalesce((e.revision->>'count')::int, 0) < ${most})`

/** Only where no group decides: the approving votes that count now, as in `countingVotes` of src/governance/approvals/requirement.ts. */
export const countingVotesOf = (allowsOwn: boolean): RawBuilder<number> => sql<number>`(
  select count(distinct m.user_id) from approval_votes v ${joinHolder(sql`approvals.organization_id`)}
  where v.approval_id = approvals.id and v.decision = 'approve'
    and (m.role = 'owner' or (m.role = 'admin' and approvals.approver = 'admin'))
    and (${allowsOwn} or (v.user_id <> all(approvals.authors || approvals.requested_by)
      and m.user_id <> all(approvals.authors || approvals.requested_by))))`

/** With votes, decision, agent and settings. */
export const readApprovalDetail = <Row>(given: {
  readonly approvalId: string
  readonly organizationId: string
  readonly isOver: RawBuilder<boolean>
  readonly mostEdits: number
}): RawBuilder<Row> => sql`
  select a.kind, a.status, a.requested_by, a.authors, a.expires_at, a.approver, a.approvals_needed, a.seats, a.typed_by,
    ${given.isOver} as is_over, ${hasEditableCall({ runId: sql`a.run_id`, id: sql`a.id` }, given.mostEdits)} as can_be_edited, s.agent_name, s.agent_kind,
    a.rule_name, d.explanation, d.matched_rules, d.label_sources, o.settings, r.outcome as observed_outcome,
    r.at as observed_at,
    ${votesWithStandings(sql`a.id`, sql`a.organization_id`)} as votes
  from approvals a join organizations o on o.id = a.organization_id
    left join agent_sessions s on s.id = a.session_id
    left join lateral (select explanation, matched_rules, label_sources from decisions where approval_id = a.id
                       order by decided_at limit 1) d on true
    left join lateral (select o.outcome, o.at from decisions used join agent_observations o on o.decision_id = used.id
                       where used.approval_id = a.id and used.verdict = 'allow'
                       order by o.at limit 1) r on a.kind = 'agent_call'
  where a.id = ${given.approvalId} and a.organization_id = ${given.organizationId}`

/** As JSON text for `json_to_recordset`, numbered from 1 in the field `n`. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))

/** CTE. One binary value for each row, in their order. */
export const insertNewApprovals = (given: {
  readonly organizationId: string
  readonly now: Date
  readonly rows: readonly object[]
  readonly sealed: readonly (Buffer | null)[]
  readonly states: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_approvals as (
    insert into approvals (organization_id, id, kind, status, run_id, step_id, item_index, session_id, workflow_id, tool,
      side_effect, destination, params_hash, rule_id, rule_name, labels, risk, requested_by, authors, approver, approvals_needed, seats, created_at,
      remind_at, expires_at, supersedes_id, held_again, state_changes, title, typed_by, may_edit, touches, params_sealed, state_sealed)
    select ${given.organizationId}, r.id, r.kind, r.status, r.run_id, r.step_id, r.item_index, r.session_id, r.workflow_id, r.tool,
      r.side_effect, r.destination, r.params_hash, r.rule_id, r.rule_name, r.labels, r.risk, r.requested_by, r.authors, r.approver,
      r.approvals_needed, r.seats, ${given.now}::timestamptz, r.remind_at, r.expires_at, r.supersedes_id, r.held_again, r.state_changes, r.title, r.typed_by, r.may_edit, r.touches, o.sealed, o.state
    from json_to_recordset(${numbered(given.rows)}::json) as r(n int, id text, kind text, status text, run_id text,
      step_id text, item_index int, session_id text, workflow_id text, tool text, side_effect text, destination text, params_hash text, rule_id text,
      rule_name text, labels text[], risk jsonb, requested_by text, authors text[], approver text, approvals_needed int, seats jsonb,
      remind_at timestamptz, expires_at timestamptz, supersedes_id text, held_again text, state_changes int, title text, typed_by text[], may_edit text[], touches text[])
    join unnest(${given.sealed}::bytea[], ${given.states}::bytea[]) with ordinality as o(sealed, state, n) on o.n = r.n
  )`

/** CTE. `decisions` is the JSON text of a list. */
export const insertNewDecisions = (decisions: string): RawBuilder<unknown> => sql`new_decisions as (
    insert into decisions (id, organization_id, run_id, seq, step_id, item_index, attempt, tool, side_effect, destination, verdict,
      rule_id, rule_name, matched_rules, reason, explanation, labels, label_sources, params_hash, approval_id,
      policy_version, decided_at, session_id, tool_use_id, requested_by, input_hash, bytes)
    select * from json_to_recordset(${decisions}::json) as r(id text, organization_id text,
      run_id text, seq int, step_id text, item_index int, attempt int, tool text, side_effect text, destination text, verdict text,
      rule_id text, rule_name text, matched_rules jsonb, reason text, explanation text, labels text[],
      label_sources jsonb, params_hash text, approval_id text, policy_version bigint, decided_at timestamptz,
      session_id text, tool_use_id text, requested_by text, input_hash text, bytes int)
  )`

/** CTE, in the statement that inserts their approvals. */
export const insertVotes = (votes: readonly object[], at: Date): RawBuilder<unknown> => sql`new_votes as (
    insert into approval_votes (approval_id, user_id, for_user, decision, comment, at)
    select r.approval_id, r.user_id, r.for_user, 'approve', r.comment, ${at}::timestamptz
    from json_to_recordset(${JSON.stringify(votes)}::json) as r(approval_id text, user_id text, for_user text, comment text)
  )`

export const updateApprovals = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_approvals as (
    update approvals set status = r.status, decided_at = r.decided_at, used_at = r.used_at, used_by = r.used_by,
      superseded_by = r.superseded_by, answered_by = r.answered_by, answered_for = r.answered_for, revision = r.revision
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      decided_at timestamptz, used_at timestamptz, used_by text, superseded_by text, answered_by text, answered_for text, revision jsonb)
    where approvals.id = r.id
  )`
