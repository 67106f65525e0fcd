import type { z } from 'zod'
import { list, quote } from '../../policy/words.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import type { Connectable } from '../integrations.ts'
import { boundsOf, Failures, jsonOf, type Said, type Sending, type Service } from './exchange.ts'
import type { ServiceConnection, ToolError } from './executor.ts'

export interface RestRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  /**
   * The path below the connection's base address. It begins with a slash. The caller has checked or encoded the values
   * in the path.
   */
  readonly path: string
  /** A parameter with the value undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** The body is sent as JSON, or as multipart if it is a `FormData`. */
  readonly body?: object | FormData
  readonly headers?: Readonly<Record<string, string>>
}

type Exchange = <Form extends z.ZodType>(form: Form, request: RestRequest) => Promise<z.output<Form>>

/**
 * Sends the requests of one call through its connection. The service answers with HTTP statuses and JSON. Each function
 * returns the checked answer, or throws an error of the service's table.
 */
export interface Rest {
  /** Sends a request that changes nothing. */
  readonly read: Exchange
  /**
   * Sends a request that has an effect. Call this only after the point of no return. A cancellation does not stop the
   * request.
   */
  readonly write: Exchange
}

/** Makes functions that send each request once and repeat nothing. */
export function restOf(
  connection: ServiceConnection<Connectable>,
  signal: AbortSignal,
  errors: RestErrors,
): Rest {
  const failures = new Failures(errors)
  const exchange =
    (sending: Sending, ends: AbortSignal | null): Exchange =>
    async (form, request) => {
      // Redirects are refused, even redirects to this host. A redirect leads to another thing, and no rule has decided
      // about that thing.
      const send = connection.fetchWithin({
        ...boundsOf(sending, connection, ends),
        followsRedirects: false,
      })
      try {
        const answer = await send(addressOf(connection.base, request), initOf(connection, request))
        const text = await answer.text()
        if (!answer.ok) throw new HttpFailure(answer, text, errors)
        const parsed = form.safeParse(jsonOf(text))
        if (parsed.success) return parsed.data
      } catch (error) {
        throw await errorOf(error, sending, errors, failures, () => connection.expired())
      }
      throw failures.unreadable(sending)
    }
  return { read: exchange('again', signal), write: exchange('once', null) }
}

function addressOf(base: string, { path, query = {} }: RestRequest): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  if (given.length === 0) return `${base}${path}`
  return `${base}${path}?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

function initOf(
  { headers }: ServiceConnection<Connectable>,
  { method, body, headers: own }: RestRequest,
): RequestInit {
  const all = { accept: 'application/json', 'user-agent': 'countersign', ...headers, ...own }
  if (body === undefined) return { method, headers: all }
  // For a `FormData`, `fetch` sets the content type, because this type contains the boundary between the parts.
  if (body instanceof FormData) return { method, headers: all, body }
  return { method, headers: { ...all, 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

export interface RestErrors extends Service {
  /**
   * Our error codes and messages by HTTP status. A code is given without `prefix`. Example: for Trello, `forbidden`
   * becomes `trello_forbidden`. After such a status, the service did nothing, and would refuse the same request again.
   */
  readonly refusals: Readonly<Record<number, Said>>
  /**
   * If an answer with status 401 has these words, it refuses the action and not the credential. The answer counts as
   * 403.
   */
  readonly forbidden?: RegExp
  /**
   * Returns the names of the fields that a refusal blames. People see these names, and a service could write any text
   * in their place. So only known names of fields are returned.
   */
  fieldsIn?(answer: unknown): readonly string[]
}

/** An answer whose status is no success. */
class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly status: number
  readonly retryAfterSeconds: number | null
  /** The names of the fields that the answer blames. */
  readonly fields: readonly string[]
  constructor({ status, headers }: Response, text: string, { forbidden, fieldsIn }: RestErrors) {
    super(`answer ${status}`)
    this.status = status === 401 && forbidden?.test(text.slice(0, 200)) === true ? 403 : status
    this.retryAfterSeconds = retryAfterOf(headers)
    this.fields = status === 400 ? (fieldsIn?.(jsonOf(text)) ?? []) : []
  }
}

/** Converts the error of a request to the error of the tool. */
async function errorOf(
  error: unknown,
  sending: Sending,
  { prefix, title, refusals }: RestErrors,
  failures: Failures,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (!(error instanceof HttpFailure)) return failures.thrown(error, sending)
  const { status, retryAfterSeconds: seconds } = error
  const [code, message] = refusals[status] ?? ['refused', `${title} refused the request (answer ${status})`]
  const named = error.fields.length === 0 ? '' : `; ${title} names ${list(error.fields.map(quote), 'and')}`
  const said = [`${prefix}_${code}`, `${message}${named}`] as const
  return failures.byStatus({ status, sending, cause: error, seconds, said, expired })
}
