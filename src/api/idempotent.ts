import { sql } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import type { Caller } from '../governance/access/identity.ts'
import { isBackedByFactor } from '../governance/access/second-factor.ts'
import { hashOf, sha256 } from '../shared/canonical-json.ts'
import { mostKeptLength, openKey, type Claim } from '../governance/idempotency.ts'
import { JsonParts } from '../shared/json-parts.ts'
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

/** The text is part of a database index, whose rows have a maximum size: so a hash in place of a long one. */
function routeText({ key }: Route, { params }: Call): string {
  const text = `${key} ${JSON.stringify(params)}`
  return text.length > 200 ? `${key} sha256:${sha256(text)}` : text
}

/** Not stored, because the same call may get another answer a moment later. */
const passing = new Set<number>([statusOf.rate_limited, statusOf.unauthenticated])

/**
 * Runs the handler once for each `Idempotency-Key`. Stores answers below 500, also refusals, except 401, 429 and very
 * large ones. After an answer that was not stored, the key can be used again.
 */
export async function answerOnce(route: Route, call: Call, sent: unknown): Promise<TextAnswer> {
  const handle: Handle = (each) => (route.handle as Handle)(each)
  const { idempotencyKey: key, caller, context } = call
  if (key === null) return handle(call)
  const opening = await openKey(context, {
    // A route with the subject `nothing` belongs to no organization.
    organizationId: isAboutCaller(route) ? '' : caller.organizationId,
    userId: caller.userId,
    apiKeyId: caller.keyId ?? (await kindOfSession(context.db, caller)),
    // Not the path of the request: a prefix, a slash at the end or other percent-encoding makes no difference.
    route: routeText(route, call),
    key,
    bodyHash: hashOf(sent),
  })
  if ('replay' in opening)
    return { status: opening.replay.status, body: undefined, text: opening.replay.body, replayed: true }
  return handleClaimed(call, handle, opening.claim, call.requestId)
}

/**
 * A person's sessions share their keys. But with and without a second factor they have different rights, so an answer
 * to one kind is never given to the other. The id of an API key begins with `key_`.
 */
async function kindOfSession(db: Db, caller: Caller): Promise<'session' | 'session with factor'> {
  const { rows } = await sql<{ backed: boolean }>`select ${isBackedByFactor(caller)} as backed`.execute(db)
  return rows[0]?.backed === true ? 'session with factor' : 'session'
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
      // Too large to store, so a repeated call runs again.
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

/** The handler has already made its change, so a failure is only logged. */
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
