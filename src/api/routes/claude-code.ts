import { z } from 'zod'
import type { AgentDecision } from '../../governance/agents/unrecorded.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import { DomainError } from '../../governance/errors.ts'
import { readAgentApproval } from '../../governance/agents/waiting.ts'
import { resolvedIn } from '../../policy/file-paths.ts'
import type { JsonObject } from '../../policy/types.ts'
import { agentBodyLimit, decideQuestion, mostAgentValues } from '../agent-question.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { readQuery, wholeNumber } from '../query.ts'
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
    cwd: z
      .unknown()
      .optional()
      .describe('The folder that relative paths are resolved against, for rules and approvers.'),
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
  description:
    '`wait` is for how many seconds a held call waits for a person’s decision; what cannot be read is 0.',
  tag: 'Agents',
  query: z.object({ wait: wholeNumber(0, longestWait).default(defaultWait) }),
  body: preToolUse,
  responses: { 200: verdict },
  async ask(question, request) {
    const { context, asker } = question
    let body: unknown
    let wait = 0
    const first = await decideQuestion(question, async (admit) => {
      // In here: what is wrong with the query is a denial too, never an error that a client lets pass.
      wait = readWait(readQuery(request)['wait'])
      body = await readJsonBody(request, agentBodyLimit, mostAgentValues, admit)
      return questionOf(body)
    })
    const { decision, approval_id } = first
    if (decision !== 'require_approval' || approval_id === undefined) return ok(shown(first))
    const signal = question.signal()
    try {
      await waitForApproval(context, asker, approval_id, wait, signal)
      const { status } = await readAgentApproval(context, asker, approval_id)
      // Asking anew would open an ended session again, or use the approval up for a client that has gone.
      const isDecided = status === 'approved' || status === 'rejected'
      if (!isDecided || signal.aborted) return ok(shown(first, status))
      return ok(shown(await decideQuestion(question, async () => questionOf(body))))
    } catch (error) {
      // Its person has left: what waited was withdrawn.
      if (error instanceof DomainError && error.code === 'not_found') return ok(shown(first, 'cancelled'))
      // It is held: that it can no longer be waited for must not become an error that a client lets pass.
      context.log.warn({ err: error }, 'a held call can no longer be waited for')
      return ok(shown(first))
    }
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
  const { session_id, tool_name, tool_use_id, cwd } = read.data
  const tool_input = resolvedIn(cwd, tool_name, read.data.tool_input as JsonObject)
  const agent = { name: 'claude-code', kind: 'hook' }
  return { agent, session_id, tool_name, tool_input, ...(tool_use_id === undefined ? {} : { tool_use_id }) }
}

/** What cannot be read as a time to wait is none: the call is held all the same. */
function readWait(text: string | undefined): number {
  if (text === undefined) return defaultWait
  return /^\d{1,3}$/.test(text) ? Math.min(longestWait, Number(text)) : 0
}

/** `status`: what became of the approval of a held call. */
function shown(decision: AgentDecision, status: ApprovalStatus = 'pending'): z.infer<typeof verdict> {
  if (decision.decision === 'allow') return {}
  return {
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'deny',
      permissionDecisionReason: reasonFor(decision, status),
    },
  }
}

/** Said to the model: the rule, why, and what may be done. The client cuts at 10,000 characters. */
function reasonFor(
  { decision, reason, explanation, approval_id }: AgentDecision,
  status: ApprovalStatus,
): string {
  if (decision === 'deny') return `Blocked by Countersign: ${reason}. ${explanation}`
  const next = {
    pending: 'is still pending: once a person has approved it, make the identical call again',
    approved: 'is given: make the identical call again',
    rejected: 'is refused: do not make the call again',
    cancelled: 'was withdrawn: make the identical call again to ask anew',
    expired: 'has expired: make the identical call again to ask anew',
  }[status]
  return `Held by Countersign: ${reason}. ${explanation} Approval ${approval_id ?? ''} ${next}.`
}
