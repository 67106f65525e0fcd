import type { z } from 'zod'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import type { Connectable } from '../index.ts'
import { boundsOf, Failures, jsonOf, type Sending, type Service } from './exchange.ts'
import type { ServiceConnection } from './executor.ts'

export interface RestRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  /** Below the base address, with a slash first. The caller has checked or encoded its values. */
  readonly path: string
  /** A parameter with the value undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** The body is sent as JSON, or as multipart if it is a `FormData`. */
  readonly body?: object | FormData
  readonly headers?: Readonly<Record<string, string>>
}

type Exchange = <Form extends z.ZodType>(form: Form, request: RestRequest) => Promise<z.output<Form>>

/** Each function returns the checked answer, or throws an error of the service's table. */
export interface Rest {
  /** For requests that change nothing. */
  readonly read: Exchange
  /** Only after the point of no return. A cancellation does not stop the request. */
  readonly write: Exchange
}

/** Each request is sent once, and nothing is repeated. */
export function restOf(
  connection: ServiceConnection<Connectable>,
  signal: AbortSignal,
  service: Service,
): Rest {
  const failures = new Failures(service)
  const exchange =
    (sending: Sending, ends: AbortSignal | null): Exchange =>
    async (form, request) => {
      // A redirect, even to this host, leads to another thing, about which no rule has decided.
      const send = connection.fetchWithin({
        ...boundsOf(sending, connection, ends),
        followsRedirects: false,
      })
      const asked = async () => {
        const answer = await send(addressOf(connection.base, request), initOf(connection, request))
        return { answer, text: await answer.text() }
      }
      const { answer, text } = await asked().catch((error: unknown) => {
        throw failures.thrown(error, sending)
      })
      const { ok, status, headers } = answer
      const [seconds, expired] = [retryAfterOf(headers), () => connection.expired()]
      if (!ok) throw await failures.byStatus({ status, sending, seconds, text, expired })
      const parsed = form.safeParse(jsonOf(text))
      if (parsed.success) return parsed.data
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
