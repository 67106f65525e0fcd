import { z } from 'zod'
import { anyJson, approver, destination, id, labels, reversible, riskLevel, side, time } from './common.ts'
import {
  approvalStatus,
  itemIndex,
  labelSources,
  resolveWith,
  risk,
  unknownAttempt,
  vote,
  waitingKind,
  words,
} from './runs.ts'

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

export const approval = z
  .strictObject({
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
    summary: z.string().nullable().describe('the `summary` of the step in its definition'),
    side_effect: side.nullable(),
    destination,
    reversible: reversible.nullable().describe('null for a whole run and for a call of an agent'),
    params: z
      .record(z.string(), anyJson)
      .optional()
      .meta({ description: 'only for those who may decide it' }),
    preview: preview.optional(),
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
    requester_email: z.string().nullable().meta({
      description:
        'the address that `me` in the parameters stands for; for an agent’s call, the person it acts for',
    }),
    approver,
    approvals_needed: z.int(),
    votes: z.array(vote),
    created_at: time,
    expires_at: time.nullable(),
    decided_at: time.nullable(),
    resolve_with: resolveWith,
    attempt: unknownAttempt,
    detail: z
      .strictObject({
        agent: z.strictObject({ name: z.string(), kind: z.string() }).nullable(),
        explanation: z.string().nullable().describe('why the call was held; null for a whole run'),
        held_by: z
          .array(z.string())
          .describe('names of all rules that hold the call, the deciding one first'),
        label_sources: labelSources,
        votes_missing: z.int().describe('approving votes that are missing now'),
        voters_left: z
          .int()
          .describe(
            'the number of people who can still vote, up to 100; if it is less than `votes_missing`, the approval cannot be given now',
          ),
        vote_refused: z
          .string()
          .nullable()
          .describe('why your vote would be refused now; null if it would count'),
        observed: z
          .strictObject({
            outcome: z.string().describe('`ok`, `error`, or `finished` if the client does not know'),
            at: time,
          })
          .nullable()
          .describe('what the client reported of an agent’s call; null for any other call'),
      })
      .optional()
      .meta({ description: 'only in `GET /approvals/{id}`, and not for a `resolution`' }),
    console_url: z.string(),
  })
  .meta({ id: 'Approval' })

const count = z.int().min(1)

export const waitingSummary = z
  .strictObject({
    total: z.int().min(0),
    kinds: z.array(z.strictObject({ kind: waitingKind.exclude(['resolution']), count })),
    rules: z.array(z.strictObject({ rule_id: id, rule_name: z.string(), count })),
    requesters: z.array(z.strictObject({ user_id: id, email: z.string(), count })),
    risks: z.array(z.strictObject({ level: riskLevel, count })),
  })
  .meta({ id: 'WaitingSummary' })

export const approveBody = z.strictObject({ comment: words.default('') })
export const rejectBody = z
  .strictObject({
    comment: words.optional(),
    reason: words.optional().describe('another name of `comment`'),
    request_changes: z
      .boolean()
      .default(false)
      .describe('the requester reads that something else is wanted; `comment` says what'),
  })
  .refine(
    ({ comment, reason }) => comment === undefined || reason === undefined || comment === reason,
    'give `comment` or `reason`: they mean the same',
  )
  .refine(
    ({ comment, reason, request_changes }) => !request_changes || (comment ?? reason ?? '').trim() !== '',
    {
      path: ['comment'],
      message: 'say in `comment` what should change',
    },
  )
