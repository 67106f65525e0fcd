import { z } from 'zod'
import { endSession } from '../../governance/agents/end.ts'
import { observe } from '../../governance/agents/observe.ts'
import { readAgentApproval, withdrawOwn } from '../../governance/agents/waiting.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { agentBodyLimit, decideQuestion, mostAgentValues, withInput } from '../agent-question.ts'
import { ApiError } from '../errors.ts'
import { readJsonBody } from '../json-body.ts'
import { wholeNumber } from '../query.ts'
import { askRoute, ok, route, type Call } from '../route.ts'
import { agentApproval, agentDecision, authorizeBody, observeBody, sessionId } from '../schemas/agents.ts'
import { id, labels } from '../schemas/common.ts'
import { waitForApproval } from '../wait.ts'

const tag = 'Agents'
const askerOf = ({ identity, caller }: Call) => ({ identity, ip: caller.ip })

const postAuthorize = askRoute({
  key: 'POST /authorize',
  summary:
    'May this agent make this call? Answered by a decision in every case but 401, missing scope and 5xx',
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
  summary: 'What became of a held call of your own; `wait` keeps the answer back until somebody has decided',
  tag,
  query: z.object({ wait: wholeNumber(0, 30).default(0) }),
  responses: { 200: agentApproval },
  async handle(call) {
    const { context, params, query, signal } = call
    await waitForApproval(context, askerOf(call), params.id, query.wait, signal)
    if (query.wait > 0 && !(await call.stillAllowed()))
      throw new ApiError('unauthenticated', 'the key or session has ended while it waited: send a valid one')
    return ok(await readAgentApproval(context, askerOf(call), params.id))
  },
})

const postCancelApproval = route({
  key: 'POST /authorize/approvals/{id}/cancel',
  summary: 'Withdraw a held call of your own',
  tag,
  responses: { 200: agentApproval },
  async handle(call) {
    const { context, params, once } = call
    await actOnce(once, () => withdrawOwn(context, askerOf(call), params.id, once))
    return ok(await readAgentApproval(context, askerOf(call), params.id))
  },
})

const postObserve = route({
  key: 'POST /authorize/observe',
  summary: 'Tell that a call has finished; one that no decision allowed raises an alert',
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
  summary:
    'End a session of your own: its approvals that wait, or were given and not used, end with it; its labels stay',
  tag,
  body: z.strictObject({ session_id: sessionId, reason: z.string().max(200).optional() }),
  responses: {
    200: z.strictObject({ ok: z.literal(true), session_run_id: id, cancelled_approvals: z.int() }),
  },
  async handle(call) {
    const { context, body, once } = call
    const ended = await actOnce(once, () => endSession(context, askerOf(call), body.session_id, once))
    return ok({ ok: true, ...ended })
  },
})

export const agentRoutes = [postAuthorize, getAgentApproval, postCancelApproval, postObserve, postSessionEnd]
