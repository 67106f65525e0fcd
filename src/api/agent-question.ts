import { headlineWithField, readAs } from '../policy/issues.ts'
import type { JsonObject } from '../policy/types.ts'
import { authorize, denyUnreadable, rateLimited } from '../calls/agents/ask.ts'
import { keyEnded } from '../calls/agents/authorize.ts'
import { unrecorded, type AgentDecision } from '../calls/agents/call.ts'
import { DomainError } from '../governance/errors.ts'
import { noteRefusal } from '../governance/limits/rates.ts'
import { createEntry, type Entry } from '../governance/limits/request-shares.ts'
import { ApiError } from './errors.ts'
import type { Question } from './route.ts'
import { authorizeBody } from './schemas/agents.ts'

/** Maximum size of the body of an agent's question or report, in bytes. */
export const agentBodyLimit = 4 * 1024 * 1024
/**
 * The body of a question or report may contain at most this many JSON values. Reading each value blocks the process for
 * a moment (docs/decisions/0063).
 */
export const mostAgentValues = 20_000

/** A decision has no list of issues, so its explanation names this many of them. */
const mostIssuesShown = 8

/**
 * Answers every question with a decision. If a question is over the rate limit or its body is not valid, the answer is
 * a denial and not an HTTP error. After an HTTP error, a client that allows calls on errors (fail-open) would make the
 * call.
 */
export async function decideQuestion(question: Asked, read: Read): Promise<AgentDecision> {
  const { context, asker } = question
  const entry = createEntry(context.shares, asker.identity.charged.holderId)
  const answer = await decide(question, entry, read).finally(() => entry.leave())
  question.context.metrics.decisions.inc({ source: 'agents', verdict: answer.decision })
  return answer
}

type Asked = Pick<Question, 'context' | 'asker' | 'confirm' | 'showRate'>

/** Reads the question's body. Awaits `admit` after the last byte has arrived and before the body is parsed. */
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
    // For a held call, claude-code.ts can ask a second time with the body that it has already read. In this case `read`
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
  // An empty body is read as an empty object, so that the answer names the missing fields.
  const request = readAs(authorizeBody, body === undefined ? {} : body)
  if (!request.ok) {
    await confirm()
    return denyUnreadable(
      context,
      asker,
      headlineWithField('it is not valid', request.issues, mostIssuesShown),
    )
  }
  const answer = await authorize(context, asker, withInput(request.value))
  // The asker's key can come from a cache. If `session_run_id` is empty, the call was denied before this key was
  // checked again. If the reason is `keyEnded`, the second check found that the key has ended. In both cases `confirm`
  // throws if a cached key is no longer valid.
  if (answer.session_run_id === '' || answer.reason === keyEnded) await confirm()
  return answer
}

/** Narrows the type of `tool_input` to JSON. This is safe, because the body was parsed from JSON. */
export function withInput<T extends { tool_input: Record<string, unknown> }>(
  body: T,
): T & { tool_input: JsonObject } {
  return body as T & { tool_input: JsonObject }
}
