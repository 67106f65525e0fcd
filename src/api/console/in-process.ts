import { setTimeout as delay } from 'node:timers/promises'
import type { Api, ApiRequest, Result } from '../../console/visit.ts'
import type { Context } from '../../governance/context.ts'
import type { Identity } from '../../governance/access/identity.ts'
import { requireScopes } from '../../governance/access/recheck.ts'
import { JsonParts, ObjectParts } from '../../shared/json-parts.ts'
import { accessOf } from '../access.ts'
import { admitted, pathParams, type Sent } from '../admitted.ts'
import { ApiError, statusOf, toApiError } from '../errors.ts'
import { answerOnce } from '../idempotent.ts'
import type { Answer, Mounted, Route } from '../route.ts'
import { routes } from '../routes/index.ts'

/*
 * Lets pages of the console call the routes of the public API without HTTP. Such a call gets the same checks of rights,
 * shares (request-shares.ts), audit and idempotency as an HTTP request to the same route. The call does not count for
 * the rate limits, because the request for the page was counted.
 */

export interface Sender {
  readonly identity: Identity
  readonly ip: string | null
  readonly requestId: string
  readonly signal: () => AbortSignal
  readonly identify: () => Promise<Identity>
}

/**
 * If a person taps a button twice, two requests are sent. The second request shows the answer to the first request. The
 * second request looks for this answer at most `mostLooks` times.
 */
const mostLooks = 50
const lookMilliseconds = 100

const byKey = new Map<string, Route>(routes.map((route) => [route.key, route]))

export function apiFor(context: Context, services: Mounted, sender: Sender): Api {
  return {
    async call<T>(key: string, request: ApiRequest = {}): Promise<Result<T>> {
      for (let looks = 1; ; looks += 1)
        try {
          return {
            ok: true,
            body: (await bodyOf(await call(context, services, sender, key, request), request)) as T,
          }
        } catch (thrown) {
          const error = toApiError(thrown)
          // The application's error handler logs an internal error and answers the request.
          if (error.code === 'internal') throw thrown
          const refused = { status: statusOf[error.code], code: error.code, message: error.message }
          if (error.code !== 'idempotency_in_progress' || looks >= mostLooks) return { ok: false, ...refused }
          await delay(lookMilliseconds)
        }
    },
  }
}

async function call(
  context: Context,
  services: Mounted,
  { identity, ip, requestId, signal, identify }: Sender,
  key: string,
  { params = {}, query = {}, body, idempotencyKey }: ApiRequest,
): Promise<TextAnswer> {
  const route = byKey.get(key)
  if (route?.handle === undefined) throw new Error(`no route for pages has the key ${key}`)
  const access = accessOf(route.key)
  if (!access.public) requireScopes(identity.scopes, access)
  const sent: Sent = {
    params: pathParams(params),
    query: { ...query },
    repeated: null,
    body: () => Promise.resolve(route.body === undefined ? undefined : (body ?? {})),
    idempotencyKey: () => idempotencyKey ?? null,
    ip,
    requestId,
    signal,
    identify,
  }
  return admitted({ route, context, services, identity, sent }, (made, _entry, rawBody) =>
    answerOnce(route, made, rawBody),
  )
}

type TextAnswer = Answer & { readonly text?: string | null }

/** Returns the body of the answer, as a client of the HTTP API would parse it. */
async function bodyOf(
  { status, body, text }: TextAnswer,
  { only, mostCharacters }: ApiRequest,
): Promise<unknown> {
  if (text !== undefined && text !== null) {
    const read = JSON.parse(text) as { error?: { code: string; message: string } }
    // An earlier request with this key ended with an error, and its stored answer was found. So this call throws the
    // same error.
    if (status >= 400 && read.error !== undefined)
      throw new ApiError(read.error.code as ApiError['code'], read.error.message)
    return read
  }
  if (only !== undefined && body instanceof ObjectParts) return JSON.parse(await body.only(only).text())
  return body instanceof JsonParts ? JSON.parse(await textUpTo(body, mostCharacters ?? Infinity)) : body
}

async function textUpTo(parts: JsonParts, most: number): Promise<string> {
  let text = ''
  for await (const part of parts) {
    text += part
    if (text.length > most) throw new ApiError('too_large', `the answer has more than ${most} characters`)
  }
  return text
}
