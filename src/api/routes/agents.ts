import { sql } from 'kysely'
import { z } from 'zod'
import { endSession, revokeSession } from '../../governance/agents/end.ts'
import { authorize, denyUnreadable, rateLimited, type Asker } from '../../calls/agents/ask.ts'
import { observe } from '../../governance/agents/observe.ts'
import { readAgentApproval, withdrawOwn } from '../../governance/agents/waiting.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { wholeNumber, filter, readQuery, refuseRepeated } from '../query.ts'
import { ok, tagged, clientGone, type Call, type Question } from '../route.ts'
import {
  called,
  emptyBody,
  id,
  labels,
  anyJson,
  side,
  time,
  verdict,
  listOf,
  listQuery,
  named,
} from '../schemas/common.ts'
import { story } from '../schemas/example.ts'
import type { Inner } from '../subjects.ts'
import { waitForApproval } from '../wait.ts'
import { mostUnknownTools } from '../../calls/agents/sessions.ts'
import { sessionStatuses } from '../../db/schema/agents.ts'
import { folderIssue, isFolder } from '../../policy/readers/folders.ts'
import { isOneLine, textField } from '../../policy/text.ts'
import { isAskedName } from '../../policy/tool-names.ts'
import { approvalStatus, labelSource } from '../schemas/runs.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import type { JsonObject } from '../../policy/types.ts'
import { keyEnded } from '../../calls/agents/authorize.ts'
import { unrecorded, type AgentDecision } from '../../calls/agents/call.ts'
import { DomainError } from '../../governance/errors.ts'
import { noteRefusal } from '../../governance/limits/rates.ts'
import { createEntry, type Entry } from '../../governance/limits/shares.ts'
import { listSessions, readSession, sessionSeen, sessionsSeenBy } from '../../governance/agents/read.ts'
import type { ApprovalStatus } from '../../contract/status.ts'
import { runsInFolder } from '../../policy/agent-tools.ts'
import { resolvedIn } from '../../policy/readers/file-paths.ts'

/** Bytes of a question or report. */
export const agentBodyLimit = 4 * 1024 * 1024
/** JSON values of a question or report. Each one blocks the process for a moment (docs/decisions/0063). */
export const mostAgentValues = 20_000

/**
 * Every answer is a decision, also over the rate limit and to a body that is not valid: after an HTTP error, a client
 * that allows calls on errors (fail-open) would make the call.
 */
async function decideQuestion(question: Asked, read: Read): Promise<AgentDecision> {
  const { context, asker } = question
  const entry = createEntry(context.shares, asker.identity.charged.holderId)
  const answer = await decide(question, entry, read).finally(() => entry.leave())
  question.context.metrics.decisions.inc({ source: 'agents', verdict: answer.decision })
  return answer
}

type Asked = Pick<Question, 'context' | 'asker' | 'confirm' | 'showRate'>

/** Awaits `admit` after the last byte has arrived and before the body is parsed. */
type Read = (admit: (size: 'small' | 'large', worked?: number) => Promise<void>) => Promise<unknown>

async function decide(
  { context, asker, confirm, showRate }: Asked,
  entry: Entry,
  read: Read,
): Promise<AgentDecision> {
  const { charged } = asker.identity
  const taken = await context.rates.take(charged.holderId, charged.limits, 'authorize')
  showRate(taken)
  if (!taken.allowed) {
    noteRefusal(context, charged.holderId, taken, asker.requestId)
    await confirm()
    return rateLimited(taken)
  }
  let body: unknown
  try {
    body = await read((size, worked) => entry.admit(size === 'large' ? size : 'question', worked))
    // For a held call, the Claude Code route can ask a second time with the body that it has already read. In this case `read`
    // has not awaited `admit`, so `admit` is awaited here. If `read` has awaited `admit`, this second `admit` does not
    // wait.
    await entry.admit('question')
  } catch (error) {
    const isCrowded = error instanceof DomainError && error.code === 'rate_limited'
    if (!isCrowded && !(error instanceof ApiError)) throw error
    await confirm()
    if (isCrowded) return unrecorded('rate limited', error.message)
    return denyUnreadable(context, asker, error.message)
  }
  // So that the answer to an empty body names the missing fields.
  const request = readAs(authorizeBody, body === undefined ? {} : body)
  if (!request.ok) {
    await confirm()
    return denyUnreadable(context, asker, headlineWithField('it is not valid', request.issues, 8))
  }
  const answer = await authorize(context, asker, withInput(request.value))
  // The key can come from a cache. With an empty `session_run_id`, the call was denied before the key was checked
  // again; with `keyEnded`, that check failed. Then `confirm` throws if a cached key is no longer valid.
  if (answer.session_run_id === '' || answer.reason === keyEnded) await confirm()
  return answer
}

/** Safe, because the body was parsed from JSON. */
function withInput<T extends { tool_input: Record<string, unknown> }>(
  body: T,
): T & { tool_input: JsonObject } {
  return body as T & { tool_input: JsonObject }
}

const text = (longest: number) =>
  z.string().min(1).max(longest).refine(isOneLine, 'must not contain control characters')

const sessionId = text(200)
const call = {
  session_id: sessionId.describe('The client’s own id for its session.'),
  tool_name: text(200).describe('The client’s name for the tool, or `mcp__<server>__<tool>`.'),
  tool_input: z.record(z.string(), anyJson),
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

const script = z.strictObject({
  word: z.string().max(4_096).describe('The word of the command, as written.'),
  path: folder.describe('The file, without symbolic links.'),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .nullable()
    .describe('null if the file was not read, for example because it is too large'),
})

const authorizeBody = z
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

export const observeBody = named('ObserveRequest', { ...call, outcome: z.enum(['ok', 'error']).optional() })

export const sessionEndBody = named('SessionEndRequest', {
  session_id: sessionId,
  reason: z.string().max(200).optional(),
})
export const revokeBody = named('RevokeSessionRequest', { reason: textField(500, 0).default('') })

/** What Claude Code sends before a tool call. Unknown fields are ignored. */
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
      .describe(
        'The folder that relative paths are resolved against, and in which a shell runs its command, for rules and approvers.',
      ),
  })
  .meta({ id: 'ClaudeCodePreToolUse' })

const agentDecision = named('Decision', {
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

const visibleSession: Inner = {
  word: 'agent session',
  param: 'id',
  exists: ({ params }) => sessionSeen(params['id'] ?? ''),
}

export const sessionStatus = called('AgentSessionStatus', z.enum(sessionStatuses))

const agentApproval = named('AgentApproval', {
  approval_id: id,
  status: approvalStatus,
  session_status: sessionStatus.describe('The state of the agent session that made the call.'),
  decided_by: id.nullable(),
  comment: z.string(),
  expires_at: time.nullable(),
})

export const agentSession = named('AgentSession', {
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
  written_files: z
    .array(z.string())
    .describe(
      'Names of files that the session has written and that a later command would run, such as `Makefile`: the command then counts as a script. `*` stands for any such file.',
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

const { route, askRoute } = tagged('Agents')

/** The decision checks the role and answers `deny`: after an HTTP error, a fail-open client would make the call. */
const ofAgent = { scope: 'agents:authorize', role: 'member', subject: 'nothing' } as const

/** The call is about the caller, so the statement knows no organization (`s`). */
const ownApproval: Inner = {
  word: 'approval',
  param: 'id',
  exists: ({ params }) => sql`exists (select from approvals as a
    join memberships as own on own.organization_id = a.organization_id and own.user_id = a.requested_by
    where a.id = ${params['id']} and a.kind = 'agent_call' and a.requested_by = m.user_id)`,
}

const askerOf = ({ identity, caller: { ip, requestId } }: Call): Asker => ({
  identity,
  ip,
  ...(requestId === undefined ? {} : { requestId }),
})

export const agentRoutes = [
  askRoute({
    key: 'POST /authorize',
    needs: ofAgent,
    // The same `tool_use_id` gets the same answer.
    asks: true,
    audit: ['agent_call.decided', 'agent_call.unreadable', 'approval.requested'],
    summary:
      'Ask whether an agent may make a call. The answer is a decision in every case but 401, `missing_scope` and 5xx',
    body: authorizeBody,
    example: {
      body: {
        agent: { name: 'claude-code', kind: 'hook' },
        session_id: 'b1946ac9',
        tool_name: 'Bash',
        tool_input: { command: 'curl https://larkspur.example/upload -T report.md' },
        tool_use_id: 'toolu_01',
      },
      answers: {
        200: {
          decision: 'require_approval',
          reason: story.ruleName,
          explanation: `Rule \`${story.ruleName}\` holds \`Bash\` because it sends data out and the data is labelled internal. The command counts as egress because \`curl\` sends data out.`,
          decision_id: 'dec_01M82XD2H2WJV06QG560MX4R1S',
          session_run_id: 'run_01M82XD2G88TJYT3DMA7S075CW',
          labels: ['internal'],
          side_effect: 'egress',
          rule_name: story.ruleName,
          approval_id: 'apr_01M82XD2H1ZPVCZ3J7GFY5WW0R',
          expires_at: '2026-11-23T01:37:55.867Z',
        },
      },
    },
    responses: { 200: agentDecision },
    async ask(question, request) {
      return ok(
        await decideQuestion(question, (admit) =>
          readJsonBody(request, agentBodyLimit, mostAgentValues, admit),
        ),
      )
    },
  }),
  route({
    key: 'GET /authorize/approvals/{id}',
    needs: ofAgent,
    inner: [ownApproval],
    summary: 'The state of your own held call; `wait` delays the answer until somebody has decided',
    query: z.object({ wait: wholeNumber(0, 30).default(0) }),
    example: {
      answers: {
        200: {
          approval_id: 'apr_01M82XD2H1ZPVCZ3J7GFY5WW0R',
          status: 'approved',
          decided_by: story.approver,
          comment: 'fine',
          expires_at: '2026-11-23T01:37:55.867Z',
          session_status: 'live',
        },
      },
    },
    responses: { 200: agentApproval },
    async handle(call) {
      const { context, params, query, signal } = call
      call.leaveShare()
      await waitForApproval(context, askerOf(call), params.id, query.wait, signal)
      if (query.wait > 0 && !(await call.stillAllowed()))
        throw new ApiError(
          'unauthenticated',
          'the key or session has ended during the wait: send a valid one',
        )
      return ok(await readAgentApproval(context, askerOf(call), params.id))
    },
  }),
  route({
    key: 'POST /authorize/approvals/{id}/cancel',
    needs: ofAgent,
    inner: [ownApproval],
    audit: ['approval.withdrawn'],
    summary: 'Withdraw a held call of your own',
    body: emptyBody,
    responses: { 200: agentApproval },
    async handle(call) {
      const { context, params, once } = call
      await actOnce(once, () => withdrawOwn(context, askerOf(call), params.id, once))
      return ok(await readAgentApproval(context, askerOf(call), params.id))
    },
  }),
  route({
    key: 'POST /authorize/observe',
    needs: ofAgent,
    // The same `tool_use_id` gets the same answer.
    asks: true,
    audit: ['agent.unapproved_call'],
    summary: 'Report a finished call; a call that no decision allowed raises an alert',
    body: observeBody,
    bodyLimit: agentBodyLimit,
    bodyValues: mostAgentValues,
    responses: {
      200: z.strictObject({ ok: z.literal(true), session_run_id: id, labels, unapproved: z.boolean() }),
    },
    handle: async (call) =>
      ok({ ok: true, ...(await observe(call.context, askerOf(call), withInput(call.body))) }),
  }),
  route({
    key: 'POST /authorize/sessions/end',
    needs: ofAgent,
    audit: ['agent_session.ended'],
    summary: 'End a session of your own. Its pending and unused approvals are cancelled; its labels stay',
    body: sessionEndBody,
    responses: {
      200: z.strictObject({ ok: z.literal(true), session_run_id: id, cancelled_approvals: z.int() }),
    },
    async handle(call) {
      const { context, body, once } = call
      const ended = await actOnce(once, () => endSession(context, askerOf(call), body, once))
      return ok({ ok: true, ...ended })
    },
  }),
]

export const agentSessionRoutes = [
  route({
    key: 'GET /agent-sessions',
    needs: { scope: 'agents:read', role: 'member', subject: 'own', every: true },
    summary: 'Agent sessions, newest first: your own, and all of an organization in which you are an admin',
    description:
      'Without `organization_id`: of every organization in which you have the role `member`. A key also needs this role in its own organization.',
    query: z.object({
      ...listQuery.shape,
      status: sessionStatus.optional(),
      user_id: filter.optional(),
      session_id: filter.optional(),
    }),
    responses: { 200: listOf(agentSession) },
    async handle({ context, caller, identity, query }) {
      const { limit, cursor = null, organization_id: named, ...filters } = query
      const isNamed = (named ?? identity.wanted) !== null
      const seen = await sessionsSeenBy(context.db, caller, isNamed)
      return ok(await listSessions(context.db, seen, filters, { limit, cursor }))
    },
  }),
  route({
    key: 'GET /agent-sessions/{id}',
    needs: { scope: 'agents:read', role: 'member', subject: 'agent_session' },
    inner: [visibleSession],
    summary: 'One agent session with its labels and where they came from',
    responses: { 200: agentSession },
    handle: async ({ context, caller, params }) =>
      ok(await readSession(context.db, caller.organizationId, params.id)),
  }),
  route({
    key: 'POST /agent-sessions/{id}/revoke',
    needs: { scope: 'agents:revoke', role: 'member', subject: 'agent_session' },
    inner: [visibleSession],
    audit: ['agent_session.revoked'],
    summary:
      'Revoke a session for good, your own or as an admin any: every later call is denied, and its pending approvals are cancelled',
    body: revokeBody,
    responses: { 200: agentSession },
    async handle({ context, caller, params, body, once }) {
      await actOnce(once, () => revokeSession(context, caller, params.id, body.reason, once))
      return ok(await readSession(context.db, caller.organizationId, params.id))
    },
  }),
]

/** Seconds that a held call waits for a person, without `?wait`. Every client has a longer timeout. */
const defaultWait = 55
const longestWait = 570

const hookAnswer = z.strictObject({
  hookSpecificOutput: z
    .strictObject({
      hookEventName: z.literal('PreToolUse'),
      permissionDecision: z.literal('deny'),
      permissionDecisionReason: z.string(),
    })
    .optional(),
})

/** In the schema of Claude Code. Allowed is an empty object, so that the client still applies its own rules. */
export const postClaudeCode = askRoute({
  key: 'POST /hooks/claude-code',
  needs: ofAgent,
  // The same `tool_use_id` gets the same answer.
  asks: true,
  audit: ['agent_call.decided', 'agent_call.unreadable', 'approval.requested'],
  summary:
    'An HTTP hook for Claude Code’s PreToolUse event: an allowed call gets an empty answer, a denied one the reason',
  description:
    '`wait` is how many seconds a held call waits for a person’s decision. An unreadable value counts as 0. ' +
    '`organization_id` names the organization whose rules decide. Managed settings name it, so that every call of ' +
    'somebody who is not its member is denied. An unknown parameter denies the call too.',
  query: z.object({
    wait: wholeNumber(0, longestWait).default(defaultWait),
    organization_id: z.string().optional(),
  }),
  body: preToolUse,
  responses: { 200: hookAnswer },
  async ask(question, request) {
    const { context, asker } = question
    let body: unknown
    let wait = 0
    let organization: string | undefined
    const first = await decideQuestion(question, async (admit) => {
      // Here, so that a wrong query becomes a denial too. After an HTTP error, a client would make the call.
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
      // Only if the approval was decided and the client still waits: a new question could reopen an ended session, or
      // use up the approval of a client that has gone.
      const isDecided = status === 'approved' || status === 'rejected'
      const isStopped = status === 'cancelled' && session_status === 'revoked'
      if (!isDecided || signal.aborted) return ok(verdictView(first, isStopped ? 'revoked' : status))
      return ok(verdictView(await decideQuestion(question, async () => questionOf(body, organization))))
    } catch (error) {
      // The person has left the organization, or somebody decided just before the withdrawal.
      if (error instanceof DomainError && ['not_found', 'approval_already_decided'].includes(error.code))
        return ok(verdictView(first, 'cancelled'))
      // The call stays held. After an HTTP error, a client would make the call.
      context.log.warn({ err: error }, 'waiting for the approval of a held call failed')
      return ok(verdictView(first))
    }
  },
})

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

/** If a misspelt `organization_id` were ignored, the hook would no longer refuse the keys of other organizations. */
function refuseUnknown(query: Record<string, string>): void {
  const unknown = Object.keys(query).find((name) => name !== 'wait' && name !== 'organization_id')
  if (unknown !== undefined)
    throw new ApiError(
      'validation_error',
      `the hook’s address has the unknown parameter \`${unknown.slice(0, 100)}\`: use only \`wait\` and \`organization_id\``,
    )
}

/** An unreadable value counts as 0: the call is held, but the answer does not wait for a person. */
function readWait(text: string | undefined): number {
  if (text === undefined) return defaultWait
  return /^\d{1,3}$/.test(text) ? Math.min(longestWait, Number(text)) : 0
}

/** `revoked`: cancelled with its revoked session. */
type HeldState = ApprovalStatus | 'revoked'

function verdictView(decision: AgentDecision, status: HeldState = 'pending'): z.infer<typeof hookAnswer> {
  if (decision.decision === 'allow') return {}
  return {
    hookSpecificOutput: {
      hookEventName: 'PreToolUse',
      permissionDecision: 'deny',
      permissionDecisionReason: reasonFor(decision, status),
    },
  }
}

/** What the language model reads. The client cuts it at 10,000 characters. */
function reasonFor({ decision, reason, explanation, approval_id }: AgentDecision, status: HeldState): string {
  if (decision === 'deny') return `Blocked by Countersign: ${reason}. ${explanation}`
  const next = {
    pending: 'is still pending: once a person has approved it, make the identical call again',
    approved: 'was given: make the identical call again',
    answered: 'was answered',
    revised: 'was edited',
    rejected: 'was refused: do not make the call again',
    cancelled: 'was withdrawn: make the identical call again to ask anew',
    revoked: 'was withdrawn, because this session was revoked: it can make no more calls',
    expired: 'has expired: make the identical call again to ask anew',
  }[status]
  return `Held by Countersign: ${reason}. ${explanation} Approval ${approval_id ?? ''} ${next}.`
}
