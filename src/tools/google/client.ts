import type { z } from 'zod'
import type { ToolName } from '../index.ts'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import { apiAddress, type GoogleApi } from './connect.ts'
import { boundsOf, jsonOf, type Sending } from '../kit/exchange.ts'
import type { ToolCall, ToolContext } from '../kit/executor.ts'
import { type Answer, refusalOf, unansweredOf, unreadable } from './errors.ts'

/** Options of each request of Google's clients. */
export interface RequestOptions {
  readonly rootUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly fetchImplementation: Fetch
  readonly retry: false
  readonly responseType: 'text'
  readonly validateStatus: () => true
  readonly universeDomain: string
}

interface Sent {
  readonly status: number
  readonly data: unknown
  readonly headers: unknown
}

type Exchange = <Form extends z.ZodType>(
  api: GoogleApi,
  form: Form,
  send: (options: RequestOptions) => Promise<Sent>,
) => Promise<z.output<Form>>

/**
 * Requests to Google with the connection of one call. Each function returns the checked answer, or throws an error of
 * the table in errors.ts.
 */
export interface Google {
  /** The account of the connection. Is null if Google does not name the account. */
  readonly account: string | null
  /** Sends a request that changes nothing. */
  readonly read: Exchange
  /** Sends a request that has an effect, after the point of no return. A cancellation does not stop the request. */
  readonly write: Exchange
}

/**
 * Makes `Google` for one call. Google's client libraries send with our `fetch`, and repeat no request by themselves.
 */
export async function googleOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Promise<Google> {
  const connection = await context.tools.connection(call, tool, 'google')
  const { authorization = '' } = connection.headers
  const exchange =
    (sending: Sending, signal: AbortSignal | null): Exchange =>
    async (api, form, send) => {
      const answer = await answered(send, sending, {
        rootUrl: apiAddress(connection.base, api),
        headers: { authorization, accept: 'application/json' },
        fetchImplementation: connection.fetchWithin(boundsOf(sending, connection, signal)),
        retry: false,
        responseType: 'text',
        validateStatus: () => true,
        universeDomain: 'googleapis.com',
      })
      if (answer.status < 200 || answer.status > 299)
        throw await refusalOf(answer, sending, () => connection.expired())
      const parsed = form.safeParse(answer.json)
      if (parsed.success) return parsed.data
      throw unreadable(sending)
    }
  return {
    account: connection.account,
    read: exchange('again', context.signal),
    write: exchange('once', null),
  }
}

async function answered(
  send: (options: RequestOptions) => Promise<Sent>,
  sending: Sending,
  options: RequestOptions,
): Promise<Answer> {
  let sent: Sent
  try {
    sent = await send(options)
  } catch (error) {
    throw unansweredOf(error, sending)
  }
  const headers = sent.headers as Readonly<Record<string, string | undefined>>
  return { status: sent.status, json: jsonOf(sent.data), headers: { get: (name) => headers[name] ?? null } }
}
