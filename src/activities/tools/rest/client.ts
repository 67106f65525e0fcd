import type { z } from 'zod'
import type { Connectable } from '../../../catalog/integrations/index.ts'
import type { ServiceConnection } from '../executor.ts'
import { errorOf, HttpFailure, unreadable, type RestErrors } from './errors.ts'

/** The longest exchange of one request. A write that has not ended by then has not begun to be carried out later. */
const exchangeMilliseconds = 30_000
/** Largest answer. */
const mostBytes = 32 * 1024 * 1024

export interface RestRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  /** Below the connection's base address. It begins with a slash; its values are checked or encoded. */
  readonly path: string
  /** undefined is left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** Sent as JSON, or as multipart if it is a form. */
  readonly body?: object | FormData
  readonly headers?: Readonly<Record<string, string>>
}

/** A service that answers with HTTP statuses and JSON, as one call sees it. */
export interface Rest {
  /** Sends a request that changes nothing. Returns the checked answer. Throws by the table in errors.ts. */
  read<Form extends z.ZodType>(form: Form, request: RestRequest): Promise<z.output<Form>>
  /** Sends a request that has an effect, after the point of no return. A cancellation does not stop it. */
  write<Form extends z.ZodType>(form: Form, request: RestRequest): Promise<z.output<Form>>
}

/** Each request is sent once: nothing is repeated here. */
export function restOf(
  connection: ServiceConnection<Connectable>,
  signal: AbortSignal,
  errors: RestErrors,
): Rest {
  const exchange = async <Form extends z.ZodType>(
    kind: 'read' | 'write',
    form: Form,
    request: RestRequest,
  ): Promise<z.output<Form>> => {
    const bounds = { milliseconds: exchangeMilliseconds, bytes: mostBytes }
    const send = connection.fetchWithin(kind === 'read' ? { ...bounds, signal } : bounds)
    try {
      const answer = await send(addressOf(connection.base, request), initOf(connection, request))
      const text = await answer.text()
      if (!answer.ok) throw new HttpFailure(answer, text, errors.forbidden)
      const parsed = form.safeParse(jsonOf(text))
      if (parsed.success) return parsed.data
    } catch (error) {
      throw await errorOf(error, kind, errors, () => connection.expired())
    }
    throw unreadable(kind, errors)
  }
  return {
    read: (form, request) => exchange('read', form, request),
    write: (form, request) => exchange('write', form, request),
  }
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
  // A form sets its type itself, with its boundary.
  if (body instanceof FormData) return { method, headers: all, body }
  return { method, headers: { ...all, 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/** undefined for a text that is not JSON. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
