import { Octokit } from '@octokit/rest'
import type { z } from 'zod'
import type { ToolName } from '../index.ts'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import { boundsOf, jsonOf, type Sending } from '../kit/exchange.ts'
import type { ToolCall, ToolContext } from '../kit/executor.ts'
import { errorOf, unreadable } from './errors.ts'
import { pagesOf } from './links.ts'

/**
 * `send` returns an answer with the type that Octokit declares. So the compiler checks that the answer has the fields
 * that the schema `form` reads.
 */
type Exchange = <Form extends z.ZodType>(
  form: Form,
  send: (octokit: Octokit) => Promise<{ data: z.input<Form> }>,
) => Promise<z.output<Form>>

/**
 * Requests to GitHub with the connection of one call. Each function returns the checked answer, or throws an error of
 * the table in errors.ts.
 */
export interface GitHub {
  /** The origin of the web pages that belong to this connection, such as `https://github.com`. */
  readonly pages: string
  /** Sends a request that changes nothing. */
  readonly read: Exchange
  /** Sends a request that has an effect, after the point of no return. A cancellation does not stop the request. */
  readonly write: Exchange
}

/**
 * Makes `GitHub` for one call. `@octokit/rest` repeats no request by itself, so each request with an effect is sent
 * once for each point of no return.
 */
export async function githubOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Promise<GitHub> {
  const connection = await context.tools.connection(call, tool, 'github')
  const { authorization = '', 'x-github-api-version': version = '' } = connection.headers
  const client = (sending: Sending, signal: AbortSignal | null): Octokit => {
    // GitHub redirects requests for a repository that was renamed or moved to another owner. These redirects are
    // refused, because no policy has allowed the new repository.
    const send = connection.fetchWithin({ ...boundsOf(sending, connection, signal), followsRedirects: false })
    const octokit = new Octokit({
      baseUrl: connection.base,
      userAgent: 'countersign',
      log: silent,
      request: { fetch: async (...request: Parameters<Fetch>) => asText(await send(...request)) },
    })
    octokit.hook.before('request', (options) => {
      Object.assign(options.headers, { authorization, 'x-github-api-version': version })
    })
    return octokit
  }
  const exchange =
    (sending: Sending, signal: AbortSignal | null): Exchange =>
    async (form, send) => {
      try {
        const { data } = await send(client(sending, signal))
        const parsed = form.safeParse(jsonOf(data))
        if (parsed.success) return parsed.data
        throw unreadable(sending)
      } catch (error) {
        throw await errorOf(error, sending, () => connection.expired())
      }
    }
  return {
    pages: pagesOf(connection.base),
    read: exchange('again', context.signal),
    write: exchange('once', null),
  }
}

/**
 * Marks the answer as plain text, so that the client does not parse it. The client's own JSON parser takes minutes for
 * some texts of a megabyte, and nothing else runs meanwhile.
 */
function asText(answer: Response): Response {
  answer.headers.set('content-type', 'text/plain')
  return answer
}

/** Replaces the client's logger, which would write addresses and answers to the console. */
const ignore = (): void => {}
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }
