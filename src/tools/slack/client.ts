import type { FetchFunction, WebClient } from '@slack/web-api'
import type { z } from 'zod'
import type { ToolName } from '../index.ts'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { boundsOf, type Sending } from '../kit/exchange.ts'
import type { ServiceConnection, ToolCall, ToolContext } from '../kit/executor.ts'
import { errorOf, HttpFailure, unreadable, type Exchanged } from './errors.ts'

type Exchange = <Form extends z.ZodType>(
  form: Form,
  send: (client: WebClient) => Promise<unknown>,
) => Promise<z.output<Form>>

/**
 * Sends requests to Slack with the connection of one call. Each function returns the checked answer, or throws an error
 * of the table in errors.ts.
 */
export interface Slack {
  /** Sends a request that may be sent any number of times. */
  readonly read: Exchange
  /**
   * Completes an effect with a request that may be sent any number of times. A cancellation does not stop the request.
   */
  readonly complete: Exchange
  /**
   * Sends a request that has an effect. Call this only after the point of no return. A cancellation does not stop the
   * request.
   */
  readonly write: Exchange
}

export async function slackOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Promise<Slack> {
  return slackAt(await context.tools.connection(call, tool, 'slack'), context.signal)
}

/**
 * Makes `Slack` with this connection. `ends` cancels only the requests of `read`. If `ends` is null, nothing cancels
 * them.
 */
export function slackAt(connection: ServiceConnection<'slack'>, ends: AbortSignal | null): Slack {
  const exchange =
    (sending: Sending, signal: AbortSignal | null): Exchange =>
    async (form, send) => {
      const exchanged: Exchanged = { retryAfterSeconds: null }
      try {
        const fetch = connection.fetchWithin(boundsOf(sending, connection, signal))
        const parsed = form.safeParse(await send(await clientOf(connection, fetch, exchanged)))
        if (parsed.success) return parsed.data
      } catch (error) {
        throw await errorOf(error, sending, exchanged, () => connection.expired())
      }
      throw unreadable(sending)
    }
  return {
    read: exchange('again', ends),
    complete: exchange('again', null),
    write: exchange('once', null),
  }
}

/** Makes a client for one request. The client does not repeat the request by itself. The first request loads Slack's library. */
async function clientOf(
  connection: ServiceConnection<'slack'>,
  send: Fetch,
  exchanged: Exchanged,
): Promise<WebClient> {
  const { LogLevel, WebClient } = await import('@slack/web-api')
  const { authorization = '' } = connection.headers
  return new WebClient(undefined, {
    slackApiUrl: connection.base,
    allowAbsoluteUrls: false,
    headers: { Authorization: authorization, 'User-Agent': 'countersign' },
    fetch: plainFetch(send, exchanged),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    logger: { ...silent, getLevel: () => LogLevel.ERROR },
  })
}

/**
 * The client library gets the text of an answer and none of its headers. Otherwise the library would unpack gzip
 * answers without a limit, and would read `Retry-After` by its own rules.
 */
function plainFetch(send: Fetch, exchanged: Exchanged) {
  const plain: FetchFunction = async (url, init) => {
    const answer = await send(url, init)
    exchanged.retryAfterSeconds = retryAfterOf(answer.headers)
    if (answer.status !== 200) throw new HttpFailure(answer.status)
    return new Response(await answer.text())
  }
  return plain
}

/** Replaces the client's logger, which would write parameters and answers to the console. */
const ignore = (): void => {}
const silent = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  setLevel: ignore,
  setName: ignore,
}
