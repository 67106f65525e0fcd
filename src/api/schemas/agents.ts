import { z } from 'zod'
import { mostUnknownTools } from '../../calls/agents/sessions.ts'
import { sessionStatuses } from '../../db/schema/agents.ts'
import { folderIssue, isFolder } from '../../policy/readers/folders.ts'
import { isOneLine, textField } from '../../policy/text.ts'
import { isAskedName } from '../../policy/tool-names.ts'
import { approvalStatus, labelSource } from './runs.ts'
import { anyJson, id, labels, side, time, verdict } from './common.ts'

const text = (longest: number) =>
  z.string().min(1).max(longest).refine(isOneLine, 'must not contain control characters')

const sessionId = text(200)
const toolInput = z.record(z.string(), anyJson)
const call = {
  session_id: sessionId.describe('The client’s own id for its session.'),
  tool_name: text(200).describe('The client’s name for the tool, or `mcp__<server>__<tool>`.'),
  tool_input: toolInput,
  tool_use_id: text(200)
    .optional()
    .describe('The client’s id for this call. A repeated question with the same id gets the first answer.'),
  annotations: z
    .looseObject({})
    .optional()
    .describe('A protocol tool’s hints: they can only make the decision stricter.'),
}

const folder = z
  .string()
  .refine(isFolder, 'must be an absolute path in one line, with at most 4,096 characters')

/** A file that a word of a command names. */
const script = z.strictObject({
  word: z.string().max(4_096).describe('The word of the command, as written.'),
  path: folder.describe('The file, without symbolic links.'),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable()
    .describe('null if the file was not read, for example because it is too large'),
})

/** The body of the question that an agent asks before each tool call. */
export const authorizeBody = z
  .strictObject({
    agent: z.strictObject({ name: text(100), kind: text(100) }),
    organization_id: text(200).optional(),
    ...call,
    tool_name: call.tool_name.refine(
      isAskedName,
      'must be a plain name without white space, `:`, quotes, or invisible or look-alike characters: rename the tool or its server',
    ),
    cwd: folder
      .optional()
      .describe(
        'The folder in which a shell, or a tool with an unknown name, runs. An approval covers no other folder.',
      ),
    real_folders: z
      .array(folder)
      .max(8)
      .optional()
      .describe('The folders of the call without symbolic links, if they then are other ones.'),
    scripts: z
      .array(script)
      .max(32)
      .optional()
      .describe(
        'Files that a shell’s command names. Those that the command runs are covered by its approval.',
      ),
  })
  .check((context) => {
    const { tool_name, tool_input } = context.value
    const message = folderIssue(tool_name, tool_input)
    if (message !== null)
      context.issues.push({ code: 'custom', input: tool_input, path: ['tool_input'], message })
  })
  .meta({ id: 'AuthorizeRequest' })

export const observeBody = z.strictObject({ ...call, outcome: z.enum(['ok', 'error']).optional() })

export const sessionEndBody = z.strictObject({
  session_id: sessionId,
  reason: z.string().max(200).optional(),
})
export const revokeBody = z.strictObject({ reason: textField(500, 0).default('') })

/** The body that Claude Code sends before a tool call. Unknown fields are ignored. */
export const preToolUse = z
  .looseObject({
    hook_event_name: z.literal('PreToolUse'),
    session_id: z.string(),
    tool_name: z.string(),
    tool_input: z.record(z.string(), anyJson),
    tool_use_id: z.string().optional(),
    cwd: z
      .unknown()
      .optional()
      .describe(
        'The folder that relative paths are resolved against, and in which a shell runs its command, for rules and approvers.',
      ),
  })
  .meta({ id: 'ClaudeCodePreToolUse' })

export const agentDecision = z
  .strictObject({
    decision: verdict,
    reason: z.string().describe('The rule’s name, if a rule decided.'),
    explanation: z.string(),
    decision_id: id,
    session_run_id: z.string().describe('Empty if the request belongs to no session.'),
    labels,
    side_effect: side,
    rule_name: z.string().nullable(),
    approval_id: id.optional(),
    expires_at: time.nullable().optional(),
  })
  .meta({ id: 'Decision' })

export const sessionStatus = z.enum(sessionStatuses)

export const agentApproval = z
  .strictObject({
    approval_id: id,
    status: approvalStatus,
    session_status: sessionStatus.describe('The state of the agent session that made the call.'),
    decided_by: id.nullable(),
    comment: z.string(),
    expires_at: time.nullable(),
  })
  .meta({ id: 'AgentApproval' })

export const agentSession = z
  .strictObject({
    id,
    session_id: z.string(),
    session_run_id: id,
    agent: z.strictObject({ name: z.string(), kind: z.string() }),
    organization_id: id,
    user_id: id,
    user_email: z.string().nullable().describe('null once the account is deleted'),
    status: sessionStatus,
    labels,
    label_sources: z.array(labelSource),
    unclassed_tools: z
      .array(z.string())
      .describe(
        `Tools that the session asked for, that belong to MCP servers or to no known client, and that \`external_tools\` gives no side effect today: at most ${mostUnknownTools}, the first ones.`,
      ),
    decisions: z.strictObject({ allow: z.int(), deny: z.int(), require_approval: z.int() }),
    unapproved_calls: z.int(),
    started_at: time,
    last_seen_at: time,
    ended_at: time.nullable(),
    revoked_by: id.nullable(),
    revoked_by_email: z.string().nullable(),
    revoke_reason: z.string().nullable(),
  })
  .meta({ id: 'AgentSession' })
