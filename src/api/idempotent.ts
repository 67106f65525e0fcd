import type { Request } from 'express'
import { hashOf, sha256 } from '../governance/canonical.ts'
import { mostKeptLength, openKey, type Claim } from '../governance/idempotency.ts'
import { JsonParts } from '../governance/json-parts.ts'
import { accessOf } from './access.ts'
import { errorBody, statusOf, toApiError } from './errors.ts'
import type { Answer, Call, Route } from './route.ts'
import { jsonText, textWithin } from './send.ts'

type Handle = NonNullable<Route['handle']>
type TextAnswer = Answer & { readonly text?: string | null; readonly replayed?: boolean }

const isAboutCaller = (route: Route): boolean => {
  const access = accessOf(route.key)
  return !access.public && access.subject === 'nothing'
}

/**
 * The route and what its path names. It is part of an index, whose rows have a largest size, and a client chooses how long a
 * part of its path is: a long text goes in as its hash.
 */
function routeText({ key }: Route, { params }: Call): string {
  const text = `${key} ${JSON.stringify(params)}`
  return text.length > longestRoute ? `${key} sha256:${sha256(text)}` : text
}

const longestRoute = 200

/** What is not final: the same call may well end otherwise a moment later. */
const passing = new Set<number>([statusOf.rate_limited, statusOf.unauthenticated])

/**
 * The handler's answer, made once per `Idempotency-Key` (contract section 1). Answers below 500 are kept, refusals of
 * the domain included; after a 429 or a 5xx the key is free again.
 */
export async function answerOnce(
  route: Route,
  call: Call,
  request: Request,
  sent: unknown,
): Promise<TextAnswer> {
  const handle: Handle = (each) => (route.handle as Handle)(each)
  const { idempotencyKey: key, caller, context } = call
  if (key === null) return handle(call)
  const opening = await openKey(context, {
    // What is about the caller alone is in no organization, and names none that would have to be theirs.
    organizationId: isAboutCaller(route) ? '' : caller.organizationId,
    userId: caller.userId,
    // Keys begin with `key_`; all sessions of a person can do the same.
    apiKeyId: caller.keyId ?? 'session',
    // Of the route, not of the text that was sent: prefix, closing slash and percent-encoding make no other call.
    route: routeText(route, call),
    key,
    bodyHash: hashOf(sent),
  })
  const { res: response } = request
  if ('replay' in opening) {
    response?.setHeader('Idempotent-Replayed', 'true')
    return { status: opening.replay.status, body: undefined, text: opening.replay.body, replayed: true }
  }
  return handleClaimed(call, handle, opening.claim, String(response?.getHeader('X-Request-Id')))
}

async function handleClaimed(
  call: Call,
  handle: Handle,
  claim: Claim,
  requestId: string,
): Promise<TextAnswer> {
  try {
    const answer = await handle({ ...call, once: claim })
    if (answer.body instanceof JsonParts) {
      const within = await textWithin(answer.body, mostKeptLength)
      // Too large to be kept: who repeats the call has it made anew.
      if ('parts' in within) {
        await claim.release().catch(() => {})
        return { ...answer, body: within.parts }
      }
      await keepIfPossible(call, claim, { status: answer.status, body: within.text })
      return { status: answer.status, body: undefined, text: within.text }
    }
    const text = jsonText(answer.body)
    await keepIfPossible(call, claim, { status: answer.status, body: text })
    return { ...answer, text }
  } catch (error) {
    const apiError = toApiError(error)
    const status = statusOf[apiError.code]
    if (status < 500 && !passing.has(status))
      await keepIfPossible(call, claim, { status, body: JSON.stringify(errorBody(apiError, requestId)) })
    else await claim.release().catch(() => {})
    throw error
  }
}

/** The act is done by now: that its answer could not be kept must not turn it into a failure. */
async function keepIfPossible(
  call: Call,
  claim: Claim,
  answer: { status: number; body: string | null },
): Promise<void> {
  try {
    await claim.keep(answer)
  } catch (error) {
    call.context.log.warn({ err: error }, 'the answer to an idempotent call was not kept')
  }
}
