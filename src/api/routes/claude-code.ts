import { z } from 'zod'
import type { AgentDecision } from '../../governance/agents/authorize.ts'
import { readAgentApproval } from '../../governance/agents/waiting.ts'
import { agentBodyLimit, decideQuestion } from '../agent-question.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { readQuery } from '../query.ts'
import { askRoute, ok } from '../route.ts'
import { anyJson } from '../schemas/common.ts'
import { waitForApproval } from '../wait.ts'

/** Kept back for a person's decision unless `?wait` says otherwise; shorter than any client waits by itself. */
const defaultWait = 55
const longestWait = 570

/** What Claude Code sends before a tool call; it may add fields, and of those nothing is read. */
const preToolUse = z
  .looseObject({
    hook_event_name: z.literal('PreToolUse'),
    session_id: z.string(),
    tool_name: z.string(),
    tool_input: z.record(z.string(), anyJson),
    tool_use_id: z.string().optional(),
  })
  .meta({ id: 'ClaudeCodePreToolUse' })

const verdict = z.strictObject({
  hookSpecificOutput: z
    .strictObject({
      hookEventName: z.literal('PreToolUse'),
      permissionDecision: z.literal('deny'),
      permissionDecisionReason: z.string(),
    })
    .optional(),
})

/**
 * For clients with http hooks: takes Claude Code's own PreToolUse body and answers in its schema (contract section 7).
 * An allowed call is answered by an empty object, which leaves the client's own prompts and rules to decide.
 */
export const postClaudeCode = askRoute({
  key: 'POST /hooks/claude-code',
  summary: 'An http hook for Claude Code’s PreToolUse event: allow says nothing, deny blocks and says why',
  description: 'Query: `wait` seconds (0 to 570, default 55) for a person’s decision on a held call.',
  tag: 'Agents',
  body: preToolUse,
  responses: { 200: verdict },
  async ask(question, request) {
    const { context, asker } = question
    let body: unknown
    let wait = 0
    const first = await decideQuestion(context, asker, async () => {
      // In here: what is wrong with the query is a denial too, never an error that a client lets pass.
      wait = readWait(readQuery(request)['wait'])
      body = await readJsonBody(request, agentBodyLimit)
      return questionOf(body)
    })
    if (first.decision !== 'require_approval' || first.approval_id === undefined) return ok(shown(first))
    await waitForApproval(context, asker, first.approval_id, wait, question.signal)
    const { status } = await readAgentApproval(context, asker, first.approval_id)
    if (status === 'pending') return ok(shown(first))
    return ok(shown(await decideQuestion(context, asker, async () => questionOf(body))))
  },
})

/** The question in the service's own words. Throws an ApiError for what is no PreToolUse event. */
function questionOf(body: unknown): unknown {
  const read = preToolUse.safeParse(body)
  if (!read.success)
    throw new ApiError(
      'validation_error',
      'the hook takes the body of a `PreToolUse` event: no other event belongs here, their outputs stay with the caller',
    )
  const { session_id, tool_name, tool_input, tool_use_id } = read.data
  const agent = { name: 'claude-code', kind: 'hook' }
  return { agent, session_id, tool_name, tool_input, ...(tool_use_id === undefined ? {} : { tool_use_id }) }
}

/** What cannot be read as a time to wait is none: the call is held all the same. */
function readWait(text: string | undefined): number {
  if (text === undefined) return defaultWait
  return /^\d{1,3}$/.test(text) ? Math.min(longestWait, Number(text)) : 0
}

function shown(decision: AgentDecision): z.infer<typeof verdict> {
  if (decision.decision === 'allow') return {}
  return {
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'deny',
      permissionDecisionReason: reasonFor(decision),
    },
  }
}

/** Said to the model: the rule, why, and what may be done. The client cuts at 10,000 characters. */
function reasonFor({ decision, reason, explanation, approval_id }: AgentDecision): string {
  if (decision === 'deny') return `Blocked by Countersign: ${reason}. ${explanation}`
  return (
    `Held by Countersign: ${reason}. ${explanation} Approval ${approval_id ?? ''} is still pending: ` +
    'once a person has approved it, make the identical call again.'
  )
}
