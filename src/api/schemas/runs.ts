import { z } from 'zod'
import {
  approvalKinds,
  approvalStatuses,
  effectStates,
  runStatuses,
  stepStatuses,
} from '../../contract/status.ts'
import { mostReused } from '../../governance/runs/read/receipt.ts'
import { exampleOf, story } from './example.ts'
import { faults } from '../../tools/kit/errors.ts'
import { textField } from '../../policy/text.ts'
import {
  approver,
  approvers,
  called,
  cannotBeGiven,
  anyJson,
  destination,
  id,
  labels,
  riskLevel,
  time,
  verdict,
  matchedRule,
  side,
  named,
  valuesHidden,
} from './common.ts'

export const runStatus = called('RunStatus', z.enum(runStatuses))
export const approvalStatus = called('ApprovalStatus', z.enum(approvalStatuses))
const milliseconds = z.int().min(0)
export const itemIndex = z.int().min(0).nullable()
export const risk = called('Risk', z.strictObject({ level: riskLevel, reasons: z.array(z.string()) }))
const stepError = called(
  'StepError',
  z.strictObject({
    code: z.string(),
    message: z.string(),
    fault: z
      .enum(faults)
      .optional()
      .describe(
        'Whose fault the error is, so who can change something. Absent if the error code is not known.',
      ),
    retryable: z.boolean().optional().describe('Whether the same call could succeed later.'),
    detail: z
      .record(z.string(), anyJson)
      .optional()
      .describe('Values that belong to the error. Absent for people who may not see values.'),
  }),
)
export const vote = called(
  'Vote',
  z.strictObject({
    user_id: id,
    email: z.string(),
    groups: z
      .array(z.string())
      .describe('those that the approval asks, and that the voter is in since before the vote'),
    decision: z.enum(['approve', 'reject']),
    comment: z.string(),
    changes_requested: z.boolean().describe('the rejection asks for something else instead'),
    for: z
      .strictObject({ user_id: id, email: z.string() })
      .nullable()
      .describe('the person who was away, and by whose right they voted; null: by their own'),
    at: time,
  }),
)

const briefShape = {
  id,
  status: approvalStatus,
  approvers,
  votes: z.array(vote),
  revision: z
    .strictObject({ by: z.string(), params: z.array(z.string()), comment: z.string() })
    .nullable()
    .describe('who edited which parameters of the call; another approval replaced this one'),
}
const brief = called('ApprovalBrief', z.strictObject(briefShape))

const headShape = {
  id,
  execution_id: id,
  workflow_id: id,
  workflow_name: z.string().nullable().describe('the workflow’s present name; null for an agent session'),
  workflow_version: z.int(),
  organization_id: id,
  status: runStatus,
  status_reason: z.string(),
  waiting_since: time
    .nullable()
    .describe('since when a person must decide or resolve something; null if nothing waits for a person'),
  requested_by: id,
  requester_email: z.string().describe('the address at the time when the run was accepted'),
  trigger: z
    .strictObject({ id, name: z.string(), workflow_id: id })
    .nullable()
    .describe(
      'what started it; null for a start by a person or program, and when its firing is no longer kept',
    ),
  rerun_of: id.nullable().describe('the run from which this one was made again'),
  made_again_as: id.nullable().describe('the newest run that was made again from this one'),
  risk,
  created_at: time,
  started_at: time.nullable(),
  finished_at: time.nullable(),
  data_removed_at: time.nullable(),
  duration_ms: milliseconds.nullable(),
  nodes_executed: z.int(),
  nodes_failed: z.int(),
  cost: z.number(),
}

/** By another person, since the caller's last run. */
export const versionChange = z
  .strictObject({
    version: z.int(),
    author: z.string().describe('the mail address of the person who saved it'),
    others: z
      .array(z.string())
      .describe('mail addresses of the other people who wrote text of it, without the requester'),
    deployed_at: time,
    message: z.string().describe('what the author wrote about the version'),
  })
  .nullable()

export const runSummary = z.strictObject(headShape).meta({ id: 'RunSummary' })

export const waitingKind = called(
  'ApprovalKind',
  z
    .enum([...approvalKinds, 'resolution'])
    .describe('`resolution`: a call whose outcome is unknown, which has no approval'),
)
export const resolveWith = z
  .string()
  .nullable()
  .describe(
    'only for a `resolution`: the route that resolves it, e.g. `POST /api/v1/runs/RUN/steps/STEP/resolve`',
  )
export const unknownAttempt = z
  .int()
  .nullable()
  .describe('only for a `resolution`: the attempt whose outcome is unknown; send it to that route')

const soughtShape = called(
  'SoughtCall',
  z
    .strictObject({
      service: z.string().describe('such as `GitHub`, or `the mail server`'),
      sent_at: time.nullable(),
      where: z.string().nullable().describe('what the call leaves there; null: nothing'),
      mark: z.string().nullable().describe('its text'),
      url: z
        .string()
        .nullable()
        .describe('the page where a person looks, for those who see the parameters; only in the approval'),
    })
    .describe('what is known about a call that was sent and got no answer'),
)
export const sought = soughtShape.nullable().describe('only for a `resolution`')
const resolution = called(
  'Resolution',
  z.strictObject({
    item_index: itemIndex,
    attempt: z.int(),
    outcome: z.enum(['retry', 'done', 'fail']),
    by: id,
    by_email: z.string(),
    at: time,
  }),
)

const waiting = called(
  'WaitingFor',
  z.strictObject({
    kind: waitingKind,
    changes_requested: z
      .strictObject({ email: z.string(), comment: z.string() })
      .nullable()
      .describe('the approver who asks the requester to edit the call'),
    approval_id: id.nullable().describe('null for a `resolution`'),
    step_id: z.string().nullable(),
    item_index: itemIndex,
    tool: z.string().nullable(),
    rule_name: z.string().nullable(),
    approver: approver.nullable().describe('the lowest role that may decide; null if only groups decide'),
    approvers,
    cannot_be_given: cannotBeGiven,
    since: time,
    expires_at: time.nullable(),
    resolve_with: resolveWith,
    attempt: unknownAttempt,
    sought,
  }),
)

const failedItem = z.strictObject({
  item_index: z.int(),
  status: z.enum(effectStates),
  error: stepError,
  value: anyJson
    .optional()
    .describe('The item. Absent for people who may not see values, and if the call has large parameters.'),
})

const bodies = z.int().describe('How often the body of the tool began.')

export const stepCall = named('StepCall', {
  item_index: itemIndex,
  status: z.enum(effectStates),
  attempts: bodies,
  params: z.record(z.string(), anyJson).optional(),
  item: anyJson.optional().describe('The item of a `for_each`.'),
  values_hidden: valuesHidden.optional().describe('in place of `params`, `item` and `error.detail`'),
  params_hash: z.string().nullable(),
  labels,
  destination,
  error: stepError.nullable(),
  waits_until: time.nullable().describe('the time for which a step `wait` waits'),
  decision_id: id.nullable(),
  approval_id: id.nullable(),
  approval: brief.nullable().describe('who decided it, for everybody who sees the run'),
  started_at: time.nullable(),
  finished_at: time.nullable(),
  duration_ms: milliseconds.nullable(),
})

const step = called(
  'RunStep',
  z.strictObject({
    id: z.string(),
    kind: z.string().describe('`tool`, or another kind of step, such as `wait` or `compute`'),
    tool: z.string().nullable().describe('null: the step calls no tool'),
    summary: z.string().nullable().describe('the `summary` of the step in its definition'),
    status: called('StepStatus', z.enum(stepStatuses)),
    depends_on: z
      .array(z.string())
      .describe('the steps that it waits for: those it names and those it refers to'),
    items: z
      .strictObject({ total: z.int(), states: z.partialRecord(z.enum(effectStates), z.int()) })
      .nullable()
      .describe(
        'The number of items of a `for_each` step, and how many are in which state; null before they are known.',
      ),
    unresolved_items: z
      .array(z.int())
      .describe('Items of a `for_each` step whose outcome is unknown; `resolve` takes one as `item_index`.'),
    waits_until: time
      .nullable()
      .describe('the time for which the step waits, or the first of these times of its items'),
    verdict: verdict.nullable(),
    attempts: bodies,
    labels,
    started_at: time.nullable(),
    finished_at: time.nullable(),
    duration_ms: milliseconds.nullable(),
    error: stepError.nullable().describe('Of the last attempt, also while the call is tried again.'),
    failed_items: z
      .array(failedItem)
      .describe('The first 20 items of a `for_each` that ended badly or are tried again.'),
    more_failed_items: z.int().describe('The number of further such items.'),
    approval_ids: z.array(id),
    looking: soughtShape
      .nullable()
      .describe('a call of the step got no answer, and is looked for now; of several items, the first'),
    resolutions: z
      .array(resolution)
      .describe('what people said about calls with an unknown outcome: the newest 20'),
    reused_from: id
      .nullable()
      .describe('the earlier run whose outcome the step, or an item of it, took without being made again'),
    repeats: z
      .string()
      .nullable()
      .describe(
        'the call of an earlier run with the same parameters, as `RUN/STEP/ITEM`; ITEM is -1 without `for_each`',
      ),
  }),
)

export const labelSource = called(
  'LabelSource',
  z.strictObject({ label: z.string(), from: z.array(z.string()) }),
)
export const labelSources = z
  .array(labelSource)
  .describe(
    '`from` names steps, inputs as `input.NAME`, steps of other runs as `RUN/STEP`, and what people typed into a held call as `typed.values`',
  )
const outputs = z
  .record(z.string(), anyJson)
  .describe(
    'The outputs of the steps that have ended; null for a step without an output. The list of a `for_each` step has a place for each item.',
  )

export const run = named('Run', {
  ...headShape,
  workflow_id: id.nullable().describe('null: the record of an agent session'),
  workflow_version: z.int().nullable(),
  agent_session_id: id.optional().describe('only for the record of an agent session'),
  waiting_for: z.array(waiting),
  inputs: z.record(z.string(), anyJson).optional(),
  input_labels: z
    .record(z.string(), labelSources)
    .describe('labels of inputs; inputs without labels are left out'),
  outputs: outputs.optional(),
  result: anyJson.optional(),
  values_hidden: valuesHidden
    .optional()
    .describe('in place of `inputs`, `outputs`, `result`, and the items and error details of steps'),
  steps: z.array(step),
  changed_since_your_last_run: versionChange.describe(
    'only for the requester: set if this is their first run after another person changed the workflow',
  ),
  next_cursor: z
    .string()
    .nullable()
    .optional()
    .describe('only with `limit` or `cursor`: leads to the next steps, null after the last'),
})

/** Whether the run has ended or not. */
export const execution = named('Execution', {
  execution_id: id,
  status: runStatus,
  status_reason: z.string(),
  waiting_for: z.array(waiting),
  outputs,
  result: anyJson,
  duration_ms: milliseconds,
  nodes_executed: z.int(),
  nodes_failed: z.int(),
  changed_since_your_last_run: versionChange.describe(
    'set if this is your first run after another person changed the workflow',
  ),
})

export const words = textField(2000, 0)

const decision = called(
  'RunDecision',
  z.strictObject({
    decision_id: id,
    seq: z.int(),
    step_id: z.string().nullable(),
    item_index: itemIndex,
    tool_use_id: z.string().nullable(),
    tool: z.string(),
    side_effect: side,
    destination,
    verdict,
    rule_id: id.nullable(),
    rule_name: z.string().nullable(),
    matched_rules: z.array(matchedRule),
    reason: z.string(),
    explanation: z.string(),
    labels,
    label_sources: labelSources,
    params_hash: z.string(),
    approval: z
      .strictObject({
        ...briefShape,
        supersedes_id: id.nullable().describe('the approval that it replaces'),
        held_again: z.string().nullable().describe('why it replaces it'),
      })
      .nullable(),
    held_at: time.nullable().describe('When the call was held for this approval.'),
    executed_at: time.nullable(),
    outcome: z.string().nullable(),
    decided_at: time,
  }),
)

export const receipt = named('Receipt', {
  run_id: id,
  workflow_id: id.nullable(),
  workflow_version: z.int().nullable(),
  run_approvals: z.array(brief).describe('the newest 20 approvals of the whole run'),
  decisions: z.array(decision),
  reused: z
    .array(z.strictObject({ step_id: z.string(), item_index: itemIndex, run_id: id }))
    .describe(
      `steps that took their outcome from an earlier run, whose receipt has the decision; at most ${mostReused.toLocaleString('en-US')}`,
    ),
  resolutions: z
    .array(resolution.extend({ step_id: z.string() }))
    .describe('what people said about calls with an unknown outcome; at most 1,000'),
  rules_version: z.int(),
  audit_head: z.strictObject({ seq: z.int(), hash: z.string() }),
  next_cursor: z
    .string()
    .nullable()
    .optional()
    .describe('only with `limit` or `cursor`: leads to the next decisions, null after the last'),
})

/* The run of the examples in openapi.json: it has read a report, and its mail waits for an approval. */

const runHead = {
  id: story.run,
  execution_id: story.run,
  workflow_id: story.workflow,
  workflow_name: story.workflowName,
  workflow_version: 1,
  organization_id: story.organization,
  status: 'paused',
  status_reason: `step \`send\` waits for approval by an admin or owner (rule \`${story.ruleName}\`): 0 of 1 vote given, 1 missing`,
  requested_by: story.requester,
  requester_email: 'member@countersign.test',
  risk: {
    level: 'high',
    reasons: ['`mail_send` delivers content to people or places', '`file_read` reads company data'],
  },
  created_at: story.accepted,
  started_at: story.started,
  nodes_executed: 1,
  nodes_failed: 0,
  cost: 0,
} as const
export const summaryExample = exampleOf(runSummary, {
  ...runHead,
  risk: { ...runHead.risk, reasons: [...runHead.risk.reasons] },
})

const waitingExample = exampleOf(waiting, {
  kind: 'step',
  approval_id: story.approval,
  step_id: 'send',
  tool: 'mail_send',
  rule_name: story.ruleName,
  approver: 'admin',
  approvers: [{ role: 'admin', count: 1 }],
  cannot_be_given: null,
  since: story.held,
  expires_at: story.expires,
})
const outputsExample = {
  read: { path: 'reports/q3-summary.md', text: story.report, media_type: 'text/markdown', size: 47 },
}
const tools = { kind: 'tool', labels: ['internal'], more_failed_items: 0, resolutions: [] }
const readExample = exampleOf(step, {
  ...tools,
  id: 'read',
  tool: 'file_read',
  status: 'completed',
  verdict: 'allow',
  attempts: 1,
  started_at: story.started,
  finished_at: '2026-11-23T00:37:45.764Z',
  duration_ms: 49,
})
const sendExample = exampleOf(step, {
  ...tools,
  id: 'send',
  tool: 'mail_send',
  status: 'held',
  depends_on: ['read'],
  verdict: 'require_approval',
  attempts: 0,
  started_at: story.held,
  approval_ids: [story.approval],
  reused_from: null,
  repeats: null,
})

export const runExample = exampleOf(run, {
  ...summaryExample,
  waiting_for: [waitingExample],
  waiting_since: story.held,
  inputs: { to: story.mail },
  input_labels: {},
  outputs: outputsExample,
  result: null,
  steps: [readExample, sendExample],
})

export const cancelledExample = {
  ...runExample,
  status: 'cancelled',
  status_reason: 'the run was cancelled by `admin@countersign.test` with the reason `wrong customer`',
  waiting_for: [],
  waiting_since: null,
  finished_at: story.cancelled,
  duration_ms: 4628,
  steps: [readExample, { ...sendExample, status: 'cancelled', finished_at: story.cancelled }],
}

export const executionExample = exampleOf(execution, {
  execution_id: story.run,
  status: 'paused',
  status_reason: runHead.status_reason,
  waiting_for: [waitingExample],
  outputs: outputsExample,
  result: null,
  duration_ms: 4297,
  nodes_executed: 1,
  nodes_failed: 0,
})

export const voteExample = {
  user_id: story.approver,
  email: 'approver@countersign.test',
  groups: [],
  decision: 'approve' as const,
  comment: 'fine',
  changes_requested: false,
  for: null,
  at: story.voted,
}

export const receiptExample = exampleOf(receipt, {
  run_id: story.run,
  workflow_id: story.workflow,
  workflow_version: 1,
  run_approvals: [],
  reused: [],
  resolutions: [],
  decisions: [
    exampleOf(decision, {
      decision_id: 'dec_01M82XCWY3YY36GJV2CDYJXTPB',
      seq: 3,
      step_id: 'send',
      tool: 'mail_send',
      side_effect: 'egress',
      verdict: 'require_approval',
      rule_id: story.rule,
      rule_name: story.ruleName,
      matched_rules: [{ id: story.rule, name: story.ruleName, verdict: 'require_approval', shadow: false }],
      reason: story.ruleName,
      explanation: `Rule \`${story.ruleName}\` holds \`mail_send\` because it sends data out and the data is labelled internal. Its approval \`${story.approval}\` lets this one call through.`,
      labels: ['internal'],
      label_sources: [{ label: 'internal', from: ['read'] }],
      params_hash: story.paramsHash,
      approval: {
        id: story.approval,
        status: 'approved',
        approvers: [{ role: 'admin', count: 1 }],
        votes: [voteExample],
        revision: null,
        supersedes_id: null,
        held_again: null,
      },
      held_at: story.held,
      executed_at: '2026-11-23T00:37:50.144Z',
      outcome: 'completed',
      decided_at: '2026-11-23T00:37:50.144Z',
    }),
  ],
  rules_version: 4,
  audit_head: { seq: 19, hash: '6c16ec465a6cb2c8de4f341d5552ac6cf370b35bf8d9aac7f4ef7cb423a181d9' },
})
