import { RequestError } from '@octokit/request-error'
import { Octokit } from '@octokit/rest'
import type { z } from 'zod'
import type { Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import type { ToolName } from '../index.ts'
import { boundsOf, Failures, jsonOf, type Said, type Sending } from '../kit/exchange.ts'
import type { Calling, ReadContext, ToolError } from '../kit/executor.ts'
import { pagesOf } from './pages.ts'

/** The compiler checks that Octokit's type has the fields that the schema `form` reads. */
type Exchange = <Form extends z.ZodType>(
  form: Form,
  send: (octokit: Octokit) => Promise<{ data: z.input<Form> }>,
) => Promise<z.output<Form>>

/** Each function returns the checked answer, or throws an error of the table below. */
export interface GitHub {
  /** The web pages of this connection, such as `https://github.com`. */
  readonly pages: string
  /** For requests that change nothing. */
  readonly read: Exchange
  /** Only after the point of no return. A cancellation does not stop the request. */
  readonly write: Exchange
}

/** `@octokit/rest` repeats nothing, so each request is sent once for each point of no return. */
export async function githubOf(call: Calling, context: ReadContext, tool: ToolName): Promise<GitHub> {
  const connection = await context.tools.connection(call, tool, 'github')
  const { authorization = '', 'x-github-api-version': version = '' } = connection.headers
  const client = (sending: Sending, signal: AbortSignal | null): Octokit => {
    // GitHub redirects for renamed or moved repositories, but no policy has allowed the new one.
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
        throw failures.unreadable(sending)
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

/** The client's own JSON parser takes minutes for some texts of a megabyte and blocks everything else. */
function asText(answer: Response): Response {
  answer.headers.set('content-type', 'text/plain')
  return answer
}

/** Replaces the client's logger, which would write addresses and answers to the console. */
const ignore = (): void => {}
const silent = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** By HTTP status. GitHub did nothing, and would refuse the same request again. */
const refusals: Readonly<Record<number, Said>> = {
  403: ['github_forbidden', 'GitHub does not let the connected account do this: give its token this right'],
  404: [
    'github_not_found',
    'GitHub has no such repository, issue or file, or the connected account may not see it',
  ],
  410: ['github_gone', 'GitHub has closed this: turn issues on in the repository, or use another one'],
  413: ['github_too_large', 'the text is larger than GitHub takes: shorten it'],
  422: [
    'github_refused',
    'GitHub does not take these values: check them, and that the repository has the labels',
  ],
}

const failures = new Failures({
  prefix: 'github',
  title: 'GitHub',
  redirected: 'use the present name of the repository',
  refusals,
})

async function errorOf(
  error: unknown,
  sending: Sending,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (!(error instanceof RequestError)) return failures.thrown(error, sending)
  if (error.cause !== undefined) return failures.thrown(error.cause, sending)
  const { status } = error
  const headers = error.response?.headers ?? {}
  const seconds = retryAfterOf({ get: (name) => headerText(headers[name]) })
  const isSecondary = (status === 403 || status === 429) && isSecondaryLimit(error)
  const isLimited = isSecondary || (status === 403 && seconds !== null)
  if (isLimited) return failures.limited(new Error(`github: ${status}`), seconds ?? secondaryLimitSeconds)
  return failures.byStatus({ status, sending, seconds, expired })
}

/** Seconds to wait if an answer for the secondary rate limit names no time. GitHub documents at least a minute. */
const secondaryLimitSeconds = 60

/** GitHub documents that the message names a secondary rate limit. */
const isSecondaryLimit = ({ message }: RequestError): boolean => /secondary rate limit/i.test(message)

const headerText = (value: string | number | undefined): string | null =>
  value === undefined ? null : String(value)
