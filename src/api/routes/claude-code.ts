import { z } from 'zod'
import type { AgentDecision } from '../../calls/agents/call.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import { DomainError } from '../../governance/errors.ts'
import { readAgentApproval, withdrawOwn } from '../../governance/agents/waiting.ts'
import { runsInFolder } from '../../policy/agent-tools.ts'
import { resolvedIn } from '../../policy/readers/file-paths.ts'
import type { JsonObject } from '../../policy/types.ts'
import { agentBodyLimit, decideQuestion, mostAgentValues } from '../agent-question.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { readQuery, refuseRepeated, wholeNumber } from '../query.ts'
import { askRoute, clientGone, ok } from '../route.ts'
import { preToolUse } from '../schemas/agents.ts'
import { waitForApproval } from '../wait.ts'

/**
 * A held call waits this many seconds for a person, unless the request has `?wait`. Every client has a longer timeout.
 */
const defaultWait = 55
const longestWait = 570

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
 * The route for clients with HTTP hooks. It takes the PreToolUse body of Claude Code and answers in the schema of
 * Claude Code. For an allowed call the answer is an empty object, so that the client still applies its own prompts and
 * rules.
 */
export const postClaudeCode = askRoute({
  key: 'POST /hooks/claude-code',
  summary:
    'An HTTP hook for Claude Code’s PreToolUse event: an allowed call gets an empty answer, a denied one the reason',
  description:
    '`wait` is how many seconds a held call waits for a person’s decision. An unreadable value counts as 0. ' +
    '`organization_id` names the organization whose rules decide. Managed settings name it, so that every call of ' +
    'somebody who is not its member is denied. An unknown parameter denies the call too.',
  tag: 'Agents',
  query: z.object({
    wait: wholeNumber(0, longestWait).default(defaultWait),
    organization_id: z.string().optional(),
  }),
  body: preToolUse,
  responses: { 200: verdict },
  async ask(question, request) {
    const { context, asker } = question
    let body: unknown
    let wait = 0
    let organization: string | undefined
    const first = await decideQuestion(question, async (admit) => {
      // The query is read here, so that a wrong query also becomes a denial. After an HTTP error, a client would make
      // the call.
      const { query: named, repeated } = readQuery(request)
      refuseRepeated(repeated)
      refuseUnknown(named)
      wait = readWait(named['wait'])
      organization = named['organization_id']
      body = await readJsonBody(request, agentBodyLimit, mostAgentValues, admit)
      return questionOf(body, organization)
    })
    const { decision, approval_id } = first
    if (decision !== 'require_approval' || approval_id === undefined) return ok(verdictView(first))
    const signal = question.signal()
    try {
      await waitForApproval(context, asker, approval_id, wait, signal)
      const { status, session_status } = await readAgentApproval(context, asker, approval_id)
      if (status === 'pending' && signal.reason === clientGone) {
        await withdrawOwn(context, asker, approval_id, null)
        return ok(verdictView(first, 'cancelled'))
      }
      // Ask again only if the approval was decided and the client still waits. Otherwise a new question could reopen an
      // ended session of the agent, or use up the approval of a client that has disconnected.
      const isDecided = status === 'approved' || status === 'rejected'
      const isStopped = status === 'cancelled' && session_status === 'revoked'
      if (!isDecided || signal.aborted) return ok(verdictView(first, isStopped ? 'revoked' : status))
      return ok(verdictView(await decideQuestion(question, async () => questionOf(body, organization))))
    } catch (error) {
      // The code is `not_found` if the person has left the organization. This has cancelled the approval. The code is
      // `approval_already_decided` if somebody decided the approval just before it was withdrawn.
      if (error instanceof DomainError && ['not_found', 'approval_already_decided'].includes(error.code))
        return ok(verdictView(first, 'cancelled'))
      // The call stays held. The failed wait must not become an HTTP error, because after an error a client would make
      // the call.
      context.log.warn({ err: error }, 'waiting for the approval of a held call failed')
      return ok(verdictView(first))
    }
  },
})

/** Converts the hook's body to a question. Throws an ApiError if the body is not a PreToolUse event. */
function questionOf(body: unknown, organization: string | undefined): unknown {
  const read = preToolUse.safeParse(body)
  if (!read.success)
    throw new ApiError(
      'validation_error',
      'send the body of a `PreToolUse` event: the hook reads no other event, so that outputs stay with the caller',
    )
  const { session_id, tool_name, tool_use_id, cwd } = read.data
  const tool_input = resolvedIn(cwd, tool_name, read.data.tool_input as JsonObject)
  const agent = { name: 'claude-code', kind: 'hook' }
  return {
    agent,
    session_id,
    tool_name,
    tool_input,
    ...(runsInFolder(tool_name) && cwd !== undefined ? { cwd } : {}),
    ...(tool_use_id === undefined ? {} : { tool_use_id }),
    ...(organization === undefined ? {} : { organization_id: organization }),
  }
}

/**
 * Throws for an unknown parameter. If a misspelt `organization_id` were ignored, the hook would no longer refuse the
 * keys of other organizations.
 */
function refuseUnknown(query: Record<string, string>): void {
  const unknown = Object.keys(query).find((name) => name !== 'wait' && name !== 'organization_id')
  if (unknown !== undefined)
    throw new ApiError(
      'validation_error',
      `the hook’s address has the unknown parameter \`${unknown.slice(0, 100)}\`: use only \`wait\` and \`organization_id\``,
    )
}

/**
 * Returns the seconds to wait. A value that is not a whole number of at most three digits counts as 0: the call is
 * held, but the answer does not wait for a person.
 */
function readWait(text: string | undefined): number {
  if (text === undefined) return defaultWait
  return /^\d{1,3}$/.test(text) ? Math.min(longestWait, Number(text)) : 0
}

/** The state of a held call's approval. `revoked` means that the approval was cancelled with its revoked session. */
type HeldState = ApprovalStatus | 'revoked'

function verdictView(decision: AgentDecision, status: HeldState = 'pending'): z.infer<typeof verdict> {
  if (decision.decision === 'allow') return {}
  return {
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'deny',
      permissionDecisionReason: reasonFor(decision, status),
    },
  }
}

/**
 * Returns the text that the language model reads. It contains the reason (for example, the name of a rule), an
 * explanation and, for a held call, the next step. The client cuts the text at 10,000 characters.
 */
function reasonFor({ decision, reason, explanation, approval_id }: AgentDecision, status: HeldState): string {
  if (decision === 'deny') return `Blocked by Countersign: ${reason}. ${explanation}`
  const next = {
    pending: 'is still pending: once a person has approved it, make the identical call again',
    approved: 'was given: make the identical call again',
    rejected: 'was refused: do not make the call again',
    cancelled: 'was withdrawn: make the identical call again to ask anew',
    revoked: 'was withdrawn, because this session was revoked: it can make no more calls',
    expired: 'has expired: make the identical call again to ask anew',
  }[status]
  return `Held by Countersign: ${reason}. ${explanation} Approval ${approval_id ?? ''} ${next}.`
}
