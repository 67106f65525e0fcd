import { z } from 'zod'
import { sessionStatuses } from '../../db/schema/agents.ts'
import { isPlainName } from '../../policy/tool-names.ts'
import { approvalStatus } from './runs.ts'
import { anyJson, id, labels, side, time, verdict } from './common.ts'

const text = (longest: number) =>
  z
    .string()
    .min(1)
    .max(longest)
    .refine((value) => !/\p{Cc}/u.test(value), 'must not contain control characters')

export const sessionId = text(200)
const toolInput = z.record(z.string(), anyJson)
const call = {
  session_id: sessionId.describe('The client’s own id of its session.'),
  tool_name: text(200).describe('As the client names it, or `mcp__<server>__<tool>`.'),
  tool_input: toolInput,
  tool_use_id: text(200).optional().describe('The client’s id of this call: a lost answer is given again.'),
  annotations: z.looseObject({}).optional().describe('A protocol tool’s hints: they only make it stricter.'),
}

/** What an agent asks before each tool call (contract section 7). */
export const authorizeBody = z
  .strictObject({
    agent: z.strictObject({ name: text(100), kind: text(100) }),
    organization_id: text(200).optional(),
    ...call,
    tool_name: call.tool_name.refine(
      isPlainName,
      'must be a plain name without invisible or look-alike signs',
    ),
  })
  .meta({ id: 'AuthorizeRequest' })

export const observeBody = z.strictObject({ ...call, outcome: z.enum(['ok', 'error']).optional() })

export const agentDecision = z
  .strictObject({
    decision: verdict,
    reason: z.string().describe('The rule’s name where a rule decided.'),
    explanation: z.string(),
    decision_id: id,
    session_run_id: z.string().describe('Empty where the request belongs to no session.'),
    labels,
    side_effect: side,
    rule_name: z.string().nullable(),
    approval_id: id.optional(),
    expires_at: time.nullable().optional(),
  })
  .meta({ id: 'Decision' })

export const agentApproval = z
  .strictObject({
    approval_id: id,
    status: approvalStatus,
    decided_by: id.nullable(),
    comment: z.string(),
    expires_at: time.nullable(),
  })
  .meta({ id: 'AgentApproval' })

export const sessionStatus = z.enum(sessionStatuses)
export const agentSession = z
  .strictObject({
    id,
    session_id: z.string(),
    session_run_id: id,
    agent: z.strictObject({ name: z.string(), kind: z.string() }),
    organization_id: id,
    user_id: id,
    status: sessionStatus,
    labels,
    label_sources: z.array(z.strictObject({ label: z.string(), from: z.array(z.string()) })),
    decisions: z.strictObject({ allow: z.int(), deny: z.int(), require_approval: z.int() }),
    unapproved_calls: z.int(),
    started_at: time,
    last_seen_at: time,
    ended_at: time.nullable(),
    revoked_by: id.nullable(),
    revoke_reason: z.string().nullable(),
  })
  .meta({ id: 'AgentSession' })
