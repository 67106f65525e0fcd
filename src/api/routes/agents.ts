import { z } from 'zod'
import { endSession } from '../../governance/agents/end.ts'
import type { Asker } from '../../calls/agents/ask.ts'
import { observe } from '../../governance/agents/observe.ts'
import { readAgentApproval, withdrawOwn } from '../../governance/agents/waiting.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { agentBodyLimit, decideQuestion, mostAgentValues, withInput } from '../agent-question.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { wholeNumber } from '../query.ts'
import { askRoute, ok, route, type Call } from '../route.ts'
import {
  agentApproval,
  agentDecision,
  authorizeBody,
  observeBody,
  sessionEndBody,
} from '../schemas/agents.ts'
import { emptyBody, id, labels } from '../schemas/common.ts'
import { waitForApproval } from '../wait.ts'

const tag = 'Agents'
const askerOf = ({ identity, caller: { ip, requestId } }: Call): Asker => ({
  identity,
  ip,
  ...(requestId === undefined ? {} : { requestId }),
})

const postAuthorize = askRoute({
  key: 'POST /authorize',
  summary:
    'Ask whether an agent may make a call. The answer is a decision in every case but 401, `missing_scope` and 5xx',
  tag,
  body: authorizeBody,
  responses: { 200: agentDecision },
  async ask(question, request) {
    return ok(
      await decideQuestion(question, (admit) =>
        readJsonBody(request, agentBodyLimit, mostAgentValues, admit),
      ),
    )
  },
})

const getAgentApproval = route({
  key: 'GET /authorize/approvals/{id}',
  summary: 'The state of your own held call; `wait` delays the answer until somebody has decided',
  tag,
  query: z.object({ wait: wholeNumber(0, 30).default(0) }),
  responses: { 200: agentApproval },
  async handle(call) {
    const { context, params, query, signal } = call
    call.leaveShare()
    await waitForApproval(context, askerOf(call), params.id, query.wait, signal)
    if (query.wait > 0 && !(await call.stillAllowed()))
      throw new ApiError('unauthenticated', 'the key or session has ended during the wait: send a valid one')
    return ok(await readAgentApproval(context, askerOf(call), params.id))
  },
})

const postCancelApproval = route({
  key: 'POST /authorize/approvals/{id}/cancel',
  summary: 'Withdraw a held call of your own',
  tag,
  body: emptyBody,
  responses: { 200: agentApproval },
  async handle(call) {
    const { context, params, once } = call
    await actOnce(once, () => withdrawOwn(context, askerOf(call), params.id, once))
    return ok(await readAgentApproval(context, askerOf(call), params.id))
  },
})

const postObserve = route({
  key: 'POST /authorize/observe',
  summary: 'Report a finished call; a call that no decision allowed raises an alert',
  tag,
  body: observeBody,
  bodyLimit: agentBodyLimit,
  bodyValues: mostAgentValues,
  responses: {
    200: z.strictObject({ ok: z.literal(true), session_run_id: id, labels, unapproved: z.boolean() }),
  },
  async handle(call) {
    return ok({ ok: true, ...(await observe(call.context, askerOf(call), withInput(call.body))) })
  },
})

const postSessionEnd = route({
  key: 'POST /authorize/sessions/end',
  summary: 'End a session of your own. Its pending and unused approvals are cancelled; its labels stay',
  tag,
  body: sessionEndBody,
  responses: {
    200: z.strictObject({ ok: z.literal(true), session_run_id: id, cancelled_approvals: z.int() }),
  },
  async handle(call) {
    const { context, body, once } = call
    const ended = await actOnce(once, () => endSession(context, askerOf(call), body, once))
    return ok({ ok: true, ...ended })
  },
})

export const agentRoutes = [postAuthorize, getAgentApproval, postCancelApproval, postObserve, postSessionEnd]
