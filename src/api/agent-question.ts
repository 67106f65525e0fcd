import { headlineWithField, readAs } from '../policy/issues.ts'
import type { JsonObject } from '../policy/types.ts'
import { authorize, denyUnreadable, rateLimited } from '../governance/agents/ask.ts'
import { keyEnded } from '../governance/agents/authorize.ts'
import { unrecorded, type AgentDecision } from '../governance/agents/unrecorded.ts'
import { DomainError } from '../governance/errors.ts'
import { createEntry, type Entry } from '../governance/shares.ts'
import { ApiError } from './errors.ts'
import type { Question } from './route.ts'
import { authorizeBody } from './schemas/agents.ts'

/** Bodies of agents' questions and reports (contract section 7). */
export const agentBodyLimit = 4 * 1024 * 1024
/** Values of a question's body: each takes its time, in which the process answers nobody (docs/decisions/0063). */
export const mostAgentValues = 20_000

/**
 * Answers a question by a decision whatever it is: too many of them and one that cannot be read are denials, since a
 * client that lets errors pass must not be let through by them.
 */
export async function decideQuestion(
  question: Pick<Question, 'context' | 'asker' | 'confirm'>,
  read: Read,
): Promise<AgentDecision> {
  const { context, asker } = question
  const entry = createEntry(context.shares, asker.identity.charged.holderId)
  const answer = await decide(question, entry, read).finally(() => entry.leave())
  question.context.metrics.agentDecision(answer.decision)
  return answer
}

/** Reads the question's body; `admit` is waited for between receiving and parsing it. */
type Read = (admit: (size: 'small' | 'large') => Promise<void>) => Promise<unknown>

async function decide(
  { context, asker, confirm }: Pick<Question, 'context' | 'asker' | 'confirm'>,
  entry: Entry,
  read: Read,
): Promise<AgentDecision> {
  const { charged } = asker.identity
  const taken = await context.rates.take(charged.holderId, charged.limits, 'authorize')
  if (!taken.allowed) {
    await confirm()
    return rateLimited(taken)
  }
  let body: unknown
  try {
    body = await read((size) => entry.admit(size === 'large' ? size : 'question'))
    // What was read before is worked on all the same.
    await entry.admit('question')
  } catch (error) {
    const isCrowded = error instanceof DomainError && error.code === 'rate_limited'
    if (!isCrowded && !(error instanceof ApiError)) throw error
    await confirm()
    if (isCrowded) return unrecorded('rate limited', error.message)
    return denyUnreadable(context, asker, error.message)
  }
  const request = readAs(authorizeBody, body)
  if (!request.ok) {
    await confirm()
    return denyUnreadable(context, asker, headlineWithField('it is not valid', request.issues))
  }
  const answer = await authorize(context, asker, withInput(request.value))
  // Decided without the lock, or found there to have ended: a key that does not hold gets its error, as ever.
  if (answer.session_run_id === '' || answer.reason === keyEnded) await confirm()
  return answer
}

/** What was parsed from JSON is JSON. */
export function withInput<T extends { tool_input: Record<string, unknown> }>(
  body: T,
): T & { tool_input: JsonObject } {
  return body as T & { tool_input: JsonObject }
}
