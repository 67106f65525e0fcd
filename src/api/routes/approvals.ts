import { sql } from 'kysely'
import { z } from 'zod'
import { readCallId } from '../../contract/ids.ts'
import { jsonValue } from '../../contract/json.ts'
import { listApprovals, readApproval } from '../../governance/approvals/read.ts'
import { readDetail } from '../../governance/approvals/detail.ts'
import { listResolutions, readResolution } from '../../governance/approvals/resolutions.ts'
import { readWaitingSummary } from '../../governance/approvals/summary.ts'
import { vote as cast, type VoteRequest } from '../../governance/approvals/vote.ts'
import { withdrawChange } from '../../governance/changes/withdraw.ts'
import { prepareChange } from '../../governance/applying/apply.ts'
import { DomainError } from '../../governance/errors.ts'
import { answerQuestion } from '../../calls/runs/answer.ts'
import { reviseCall } from '../../calls/runs/revise.ts'
import type { JsonObject } from '../../policy/types.ts'
import { formField } from '../../contract/inputs.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { filter, flag } from '../query.ts'
import { ok, tagged, type Call } from '../route.ts'
import type { Inner } from '../subjects.ts'
import {
  listOf,
  listQuery,
  also,
  riskLevel,
  anyJson,
  approver,
  approvers,
  cannotBeGiven,
  destination,
  emptyBody,
  id,
  labels,
  reversible,
  side,
  time,
  named,
  valuesHidden,
} from '../schemas/common.ts'
import { exampleOf, pageWith, story } from '../schemas/example.ts'
import {
  approvalStatus,
  waitingKind,
  itemIndex,
  labelSources,
  resolveWith,
  risk,
  unknownAttempt,
  sought,
  vote,
  voteExample,
  words,
} from '../schemas/runs.ts'

const preview = z
  .strictObject({
    title: z.string().describe('one sentence: what would happen'),
    fields: z.array(
      z.strictObject({
        name: z.string(),
        value: z.string(),
        note: z
          .string()
          .optional()
          .describe(
            'characters of the value that can be overlooked or taken for others, and hosts in punycode',
          ),
        said_by: z
          .string()
          .optional()
          .describe('the host that says this; absent for parameters and for words of Countersign'),
      }),
    ),
    diff: z
      .strictObject({
        before: z.string().nullable().describe('null: there was nothing yet'),
        after: z.string(),
        skipped: z.int().describe('characters at the beginning that are the same, and are left out'),
      })
      .optional()
      .describe('what the call changes, as it was when the approval was made'),
    note: z.string().optional().describe('what could not be shown, and why'),
  })
  .meta({
    id: 'Preview',
    description: 'what the call would do, in plain text; long values are cut. Shown like `params`',
  })

const aPerson = z.strictObject({ user_id: id, email: z.string() })
const person = aPerson.nullable()
const edits = z
  .strictObject({
    written: z.record(z.string(), anyJson).describe('the parameters as in the definition, with templates'),
    changed: z
      .array(z.strictObject({ name: z.string(), before: anyJson.optional(), after: anyJson.optional() }))
      .describe('what differs from the approval that this one replaces; without values that you may not see'),
    asked: z
      .strictObject({ email: z.string(), comment: z.string() })
      .nullable()
      .describe('the approver who asks for changes, if you are to edit the call'),
  })
  .meta({
    id: 'CallEdits',
    description: 'only in `GET /approvals/{id}` of a call of a run, shown like `params`',
  })
const question = z
  .strictObject({
    choices: z.array(z.string()).nullable().describe('the possible answers; null if there is a form'),
    form: z
      .record(z.string(), formField)
      .nullable()
      .describe('the fields of the answer, as in the definition; null if there are choices'),
    otherwise: anyJson.describe(
      'the answer if nobody answers in time; null: the step then ends as `expired`',
    ),
    answered_by: person.describe('null until somebody has answered'),
    answered_for: person.describe('who was away, and by whose right they answered; null: by their own'),
    answer: anyJson.optional().describe('only in `GET /approvals/{id}`, for people who see `params`'),
  })
  .meta({
    id: 'Question',
    description: 'what a step `ask` asks; its title is in `summary`, its values are in `params`',
  })

export const approval = named('Approval', {
  id,
  kind: waitingKind,
  status: approvalStatus,
  used_at: time.nullable(),
  organization_id: id,
  run_id: id.nullable(),
  step_id: z.string().nullable(),
  item_index: itemIndex,
  session_id: z.string().nullable(),
  agent_session_id: id.nullable(),
  agent_name: z.string().nullable().describe('the name of the agent whose call it is'),
  workflow_id: id.nullable(),
  workflow_name: z.string().nullable().describe('the name that the workflow has now'),
  tool: z.string().nullable(),
  summary: z
    .string()
    .nullable()
    .describe(
      'the `summary` of the step in its definition; of a change, what it would do; of a question, its title',
    ),
  side_effect: side.nullable(),
  destination,
  reversible: reversible.nullable().describe('null for a whole run and for a call of an agent'),
  params: z
    .record(z.string(), anyJson)
    .optional()
    .describe(
      'only for those who may decide it, and for the person who asked; of a change, `title`, `object` (the id of the rule or group), `before`, `after`, `why` and `example`, in lists only if it is below 128 KiB; of a question, the values of `show`',
    ),
  preview: preview.optional(),
  values_hidden: valuesHidden.optional().describe('in place of `params` and `preview`'),
  ask: question.nullable().describe('null for any other kind'),
  revision: z
    .strictObject({ by: aPerson, for: person, params: z.array(z.string()), comment: z.string() })
    .nullable()
    .describe('who edited which parameters, so that another approval replaced this one'),
  may_edit: z
    .array(z.string())
    .describe('the parameters that those who decide it may change with `POST /approvals/{id}/revise`'),
  edits: edits.optional(),
  superseded_by: id.nullable().describe('the approval that replaced this one'),
  supersedes_id: id.nullable().describe('the approval that this one replaces; its votes do not count here'),
  held_again: z.string().nullable().describe('why it replaces it, in one sentence'),
  params_hash: z.string().nullable(),
  rule_id: id.nullable(),
  rule_name: z.string().nullable(),
  labels,
  risk,
  requested_by: id,
  authors: z
    .array(z.strictObject({ user_id: id, email: z.string() }))
    .describe('who wrote the version that runs; their votes do not count, unless `allow_self_approval`'),
  requester_email: z
    .string()
    .nullable()
    .describe(
      'the address that `me` in the parameters stands for; for an agent’s call, the person it acts for',
    ),
  approver: approver.nullable().describe('the lowest role that may decide; null if only groups decide'),
  approvals_needed: z.int().describe('the least number of different people'),
  approvers,
  votes: z.array(vote),
  created_at: time,
  expires_at: time.nullable(),
  decided_at: time.nullable(),
  resolve_with: resolveWith,
  attempt: unknownAttempt,
  sought,
  detail: z
    .strictObject({
      agent: z.strictObject({ name: z.string(), kind: z.string() }).nullable(),
      explanation: z.string().nullable().describe('why the call was held; null for a whole run'),
      held_by: z.array(z.string()).describe('names of all rules that hold the call, the deciding one first'),
      label_sources: labelSources,
      votes_missing: z.int().describe('approving votes that are missing now'),
      seats: z
        .array(
          z.union([
            z.strictObject({ role: approver, count: z.int(), also, filled: z.int() }),
            z.strictObject({ group: z.string(), count: z.int(), also, filled: z.int() }),
            z.strictObject({ person: z.string(), count: z.int(), also, filled: z.int() }),
          ]),
        )
        .describe('`approvers`, with the number of people who fill each of them now'),
      voters_left: z.int().describe('the number of people who can still vote, up to 100'),
      cannot_be_given: cannotBeGiven,
      vote_refused: z
        .string()
        .nullable()
        .describe('why your vote would be refused now; null if it would count'),
      can_be_edited: z
        .boolean()
        .describe('for a held call of a run; if false, `request_changes` ends it as any rejection does'),
      deciding_for: z
        .strictObject({ user_id: id, email: z.string(), until: time })
        .nullable()
        .describe('who is away until then, and by whose right your vote would count; null: by your own'),
      observed: z
        .strictObject({
          outcome: z.string().describe('`ok`, `error`, or `finished` if the client does not know'),
          at: time,
        })
        .nullable()
        .describe('what the client reported of an agent’s call; null for any other call'),
    })
    .optional()
    .describe('only in `GET /approvals/{id}`, and not for a `resolution`'),
  console_url: z.string(),
})

const params = { to: story.mail, subject: 'Third quarter', text: story.report }
const pendingExample = exampleOf(approval, {
  id: story.approval,
  kind: 'step',
  status: 'pending',
  organization_id: story.organization,
  run_id: story.run,
  step_id: 'send',
  workflow_id: story.workflow,
  workflow_name: 'weekly report',
  tool: 'mail_send',
  side_effect: 'egress',
  reversible: 'no',
  params,
  preview: {
    title: `Send a mail to ${story.mail}`,
    fields: Object.entries(params).map(([name, value]) => ({ name, value })),
  },
  params_hash: story.paramsHash,
  rule_id: story.rule,
  rule_name: story.ruleName,
  labels: ['internal'],
  risk: { level: 'high', reasons: ['delivers content to people or places'] },
  requested_by: story.requester,
  requester_email: 'admin@countersign.test',
  approver: 'admin',
  approvals_needed: 1,
  approvers: [{ role: 'admin', count: 1 }],
  created_at: story.held,
  expires_at: story.expires,
  console_url: `http://127.0.0.1:8080/console/approvals/${story.approval}`,
})
const decidedExample = (status: 'approved' | 'rejected', given: object) => ({
  ...pendingExample,
  status,
  votes: [{ ...voteExample, ...given }],
  decided_at: story.voted,
})

const withdrawnExample = {
  ...pendingExample,
  kind: 'change',
  status: 'cancelled',
  run_id: null,
  step_id: null,
  workflow_id: null,
  workflow_name: null,
  tool: null,
  summary: 'Delete the rule `Internal data to outsiders needs approval`',
  side_effect: null,
  reversible: null,
  params: undefined,
  preview: undefined,
  rule_id: null,
  rule_name: null,
  labels: [],
  risk: { level: 'high', reasons: [] },
  decided_at: story.voted,
}

const revisedExample = {
  ...pendingExample,
  kind: 'revision',
  status: 'revised',
  may_edit: [],
  revision: {
    by: { user_id: story.requester, email: 'admin@countersign.test' },
    for: null,
    params: ['subject'],
    comment: 'the quarter was wrong',
  },
  held_again: '`approver@countersign.test` asks for changes',
  decided_at: story.voted,
}

const count = z.int().min(1)

const waitingSummary = named('WaitingSummary', {
  total: z.int().min(0),
  kinds: z.array(z.strictObject({ kind: waitingKind.exclude(['resolution']), count })),
  rules: z.array(z.strictObject({ rule_id: id, rule_name: z.string(), count })),
  requesters: z.array(z.strictObject({ user_id: id, email: z.string(), count })),
  risks: z.array(z.strictObject({ level: riskLevel, count })),
})

const questionExample = {
  ...pendingExample,
  kind: 'ask',
  status: 'answered',
  step_id: 'decide',
  tool: null,
  summary: 'Refund this order?',
  side_effect: null,
  reversible: null,
  params: { order: '4711' },
  preview: undefined,
  ask: {
    choices: ['refund', 'refuse'],
    form: null,
    otherwise: null,
    answered_by: { user_id: story.requester, email: 'admin@countersign.test' },
    answered_for: null,
    answer: 'refund',
  },
  params_hash: null,
  rule_id: null,
  rule_name: null,
  risk: { level: 'low', reasons: [] },
  approver: null,
  approvers: [{ group: 'sales', count: 1 }],
  decided_at: story.voted,
}

export const approveBody = named('ApproveRequest', { comment: words.default('') })
export const rejectBody = z
  .strictObject({
    comment: words.optional(),
    reason: words.optional().describe('another name of `comment`'),
    request_changes: z
      .boolean()
      .default(false)
      .describe(
        'the requester reads in `comment` what else is wanted; of a call of a run, they edit it and ask again',
      ),
  })
  .refine(
    ({ comment, reason }) => comment === undefined || reason === undefined || comment === reason,
    'give `comment` or `reason`: they mean the same',
  )
  .refine(
    ({ comment, reason, request_changes }) => !request_changes || (comment ?? reason ?? '').trim() !== '',
    { path: ['comment'], message: 'say in `comment` what should change' },
  )
  .meta({ id: 'RejectRequest' })

export const answerBody = named('AnswerRequest', {
  answer: jsonValue.meta({ description: 'a text of `choices`, or an object with the fields of `form`' }),
})

export const reviseBody = named('ReviseRequest', {
  params: z
    .record(z.string(), jsonValue)
    .meta({ description: 'new values of whole parameters; those that are left out stay' }),
  comment: words.default(''),
})

const { route } = tagged('Approvals')

/** `RUN/STEP/ITEM`. The id of an approval contains no `/`. */
const isResolution = (id: string): boolean => id.includes('/')

/** The subject of an approval's id is the approval itself, that of a resolution the run. */
const oneResolution: Inner = {
  word: 'approval',
  param: 'id',
  exists({ params: { id = '' } }) {
    if (!isResolution(id)) return sql`true`
    const call = readCallId(id)
    return sql`exists (select from effects where run_id = ${call?.runId ?? null}
      and step_id = ${call?.stepId ?? null} and item_index = ${call?.itemIndex ?? null})`
  },
}

async function notByVote(...read: Parameters<typeof readResolution>): Promise<DomainError> {
  const { resolve_with } = await readResolution(...read)
  return new DomainError(
    'bad_transition',
    `an unknown outcome has no votes: resolve it with \`${resolve_with}\``,
  )
}

async function decide(
  {
    context,
    caller,
    params,
    once,
  }: Pick<Call<'POST /approvals/{id}'>, 'context' | 'caller' | 'params' | 'once'>,
  given: Pick<VoteRequest, 'decision' | 'comment' | 'changesRequested'>,
) {
  if (isResolution(params.id)) throw await notByVote(context, caller, params.id)
  const request = { caller, approvalId: params.id, once, prepareChange: prepareChange(context), ...given }
  await actOnce(once, () => cast(context, request))
  return ok(await readApproval(context, caller, params.id))
}

export const approvalRoutes = [
  route({
    key: 'GET /approvals',
    needs: { scope: 'approvals:read', role: 'viewer', subject: 'own' },
    summary: 'Approvals; with `mine=true` those that you may decide',
    description:
      'A viewer gets only those that a group of theirs decides. `kind=resolution` lists the calls of open runs whose outcome is unknown, by run, with the route that resolves each. No other list has them.',
    query: z.object({
      ...listQuery.shape,
      status: approvalStatus.optional(),
      kind: waitingKind.optional(),
      run_id: filter.optional(),
      mine: flag.optional(),
      rule_id: filter.optional(),
      requested_by: filter.optional(),
      // Without the message of the setting `approval_required_from`, which may also be null.
      risk: z.enum(riskLevel.options).optional(),
      search: filter
        .optional()
        .describe(
          'part of the tool, of `summary` of a change or question, of the workflow’s name or of the requester’s address, or a whole id of an approval or run',
        ),
      decided: flag.optional().describe('true: only what waits no more; false: only what waits'),
      decided_by: filter.optional().describe('the id of a person who voted on it, or answered it'),
      group: filter.optional().describe('the name of a group that is asked, now or later'),
      order: z
        .enum(['newest', 'oldest'])
        .default('newest')
        .describe('what was asked first or last comes first'),
    }),
    example: { answers: { 200: pageWith(pendingExample) } },
    responses: { 200: listOf(approval) },
    async handle({ context, caller, query }) {
      const { limit, cursor = null, order, organization_id: _, ...filters } = query
      const page = { limit, cursor, order }
      if (filters.kind !== 'resolution')
        return ok(await listApprovals(context, caller, { ...filters, kind: filters.kind }, page))
      // A call with an unknown outcome is always pending, has no rule, and its risk is not stored.
      const isEmpty =
        [filters.search, filters.decided_by, filters.group].some((given) => given !== undefined) ||
        filters.decided === true ||
        (filters.status !== undefined && filters.status !== 'pending') ||
        filters.rule_id !== undefined ||
        filters.risk !== undefined
      return ok(
        isEmpty ? { data: [], next_cursor: null } : await listResolutions(context, caller, filters, page),
      )
    },
  }),
  route({
    key: 'GET /organizations/{id}/approvals/summary',
    needs: { scope: 'approvals:read', role: 'member', subject: 'organization' },
    summary: 'How many approvals wait, by kind, rule, requester and risk',
    description:
      'Each list has the values that `GET /approvals?status=pending` can be filtered by, at most 100, the most frequent first.',
    example: {
      answers: {
        200: {
          total: 3,
          kinds: [
            { kind: 'step', count: 2 },
            { kind: 'agent_call', count: 1 },
          ],
          rules: [
            {
              rule_id: 'rule_01M82XC49JT4FSC3EKQ16VJJDQ',
              rule_name: 'Mail outside needs a person',
              count: 3,
            },
          ],
          requesters: [{ user_id: 'usr_01M82XC49JT4FSC3EKQ16VJJDB', email: 'member@example.com', count: 3 }],
          risks: [{ level: 'high', count: 3 }],
        },
      },
    },
    responses: { 200: waitingSummary },
    handle: async ({ context, caller }) => ok(await readWaitingSummary(context.db, caller.organizationId)),
  }),
  route({
    key: 'GET /approvals/{id}',
    needs: { scope: 'approvals:read', role: 'viewer', subject: 'approval' },
    inner: [oneResolution],
    summary: 'One approval; reading it decides nothing',
    example: { answers: { 200: pendingExample } },
    responses: { 200: approval },
    async handle({ context, caller, params }) {
      if (isResolution(params.id)) return ok(await readResolution(context, caller, params.id))
      const read = await readApproval(context, caller, params.id)
      return ok({ ...read, detail: await readDetail(context, caller, params.id) })
    },
  }),
  route({
    key: 'POST /approvals/{id}/approve',
    needs: { scope: 'approvals:decide', role: 'viewer', subject: 'approval' },
    inner: [oneResolution],
    audit: ['approval.granted', 'approval.voted'],
    summary: 'Approve this exact call',
    description: 'A role or a group decides, as the rule says: others get 403 `not_an_approver`.',
    body: approveBody,
    example: { body: { comment: 'fine' }, answers: { 200: decidedExample('approved', {}) } },
    responses: { 200: approval },
    handle: ({ body, ...call }) => decide(call, { decision: 'approve', comment: body.comment }),
  }),
  route({
    key: 'POST /approvals/{id}/reject',
    needs: { scope: 'approvals:decide', role: 'viewer', subject: 'approval' },
    inner: [oneResolution],
    audit: ['approval.rejected'],
    summary: 'Reject this call; one rejection decides',
    body: rejectBody,
    example: {
      body: { comment: 'wrong quarter' },
      answers: { 200: decidedExample('rejected', { decision: 'reject', comment: 'wrong quarter' }) },
    },
    responses: { 200: approval },
    handle: ({ body, ...call }) =>
      decide(call, {
        decision: 'reject',
        comment: body.comment ?? body.reason ?? '',
        changesRequested: body.request_changes,
      }),
  }),
  route({
    key: 'POST /approvals/{id}/answer',
    needs: { scope: 'approvals:decide', role: 'viewer', subject: 'approval' },
    inner: [oneResolution],
    audit: ['approval.answered', 'step.completed'],
    summary: 'Answer the question of a run',
    description:
      'The answer is one of the `choices`, or an object with the fields of the `form`. It becomes the output of the step. Only the people who are asked may answer: others get 403 `not_an_approver`.',
    body: answerBody,
    example: { body: { answer: 'refund' }, answers: { 200: questionExample } },
    responses: { 200: approval },
    async handle({ context, caller, params, body, once }) {
      if (isResolution(params.id)) throw await notByVote(context, caller, params.id)
      await actOnce(once, () =>
        answerQuestion(context, { caller, approvalId: params.id, answer: body.answer, once }),
      )
      return ok(await readApproval(context, caller, params.id))
    },
  }),
  route({
    key: 'POST /approvals/{id}/revise',
    needs: { scope: 'approvals:decide', role: 'member', subject: 'approval' },
    inner: [oneResolution],
    audit: ['approval.revised'],
    summary: 'Edit the parameters of a held call, which is then decided anew',
    description:
      'If an approver asked for changes (kind `revision`), the requester edits any parameter of the call. If the rule has `approver_may_edit`, an approver edits those that it names, and another person confirms it (kind `edit`). See docs/revise.md.',
    body: reviseBody,
    example: {
      body: { params: { subject: 'Fourth quarter' }, comment: 'the quarter was wrong' },
      answers: { 200: revisedExample },
    },
    responses: { 200: approval },
    async handle({ context, caller, params, body, once }) {
      if (isResolution(params.id)) throw await notByVote(context, caller, params.id)
      const given = { params: body.params as JsonObject, comment: body.comment }
      await actOnce(once, () => reviseCall(context, { caller, approvalId: params.id, ...given, once }))
      return ok(await readApproval(context, caller, params.id))
    },
  }),
  route({
    key: 'POST /approvals/{id}/withdraw',
    needs: { scope: 'approvals:decide', role: 'viewer', subject: 'approval' },
    inner: [oneResolution],
    audit: ['approval.withdrawn'],
    summary: 'Withdraw your own change that waits for a second person',
    body: emptyBody,
    example: { body: {}, answers: { 200: withdrawnExample } },
    responses: { 200: approval },
    async handle({ context, caller, params, once }) {
      if (isResolution(params.id)) throw await notByVote(context, caller, params.id)
      await actOnce(once, () => withdrawChange(context, caller, params.id, once))
      return ok(await readApproval(context, caller, params.id))
    },
  }),
]
