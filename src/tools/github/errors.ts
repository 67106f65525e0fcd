import { RequestError } from '@octokit/request-error'
import { OutgoingError } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { failuresOf, isBroken, type Said, type Sending } from '../kit/exchange.ts'
import { OutcomeUnknown, ToolError } from '../kit/executor.ts'

/**
 * Error codes and messages for GitHub's refusals, by HTTP status. GitHub did nothing, and would refuse the same request
 * again.
 */
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

const failures = failuresOf({
  prefix: 'github',
  title: 'GitHub',
  redirected: 'use the present name of the repository',
})
export const { unreadable } = failures

/** Converts the error of a request to the error of the tool. `expired` makes the error for a refused credential. */
export async function errorOf(
  error: unknown,
  sending: Sending,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (error instanceof ToolError || error instanceof OutcomeUnknown) return error
  if (!(error instanceof RequestError)) return sending === 'once' ? failures.unknown() : error
  const { cause } = error
  if (cause instanceof OutgoingError) return failures.unanswered(cause, sending)
  if (cause instanceof ToolError) return cause
  if (cause !== undefined) return sending === 'once' ? failures.unknown() : cause
  const { status } = error
  const headers = error.response?.headers ?? {}
  const seconds = retryAfterOf({ get: (name) => headerText(headers[name]) })
  if (status === 401) return expired()
  const isSecondary = (status === 403 || status === 429) && isSecondaryLimit(error)
  if (isSecondary) return failures.limited(bare(status), seconds ?? secondaryLimitSeconds)
  if (status === 429 || (status === 403 && seconds !== null)) return failures.limited(bare(status), seconds)
  if (isBroken(status)) return failures.broken(sending, `failed (answer ${status})`, bare(status), seconds)
  const said = refusals[status] ?? ['github_refused', `GitHub refused the request (answer ${status})`]
  return failures.refused(said, bare(status))
}

/** Seconds to wait if an answer for the secondary rate limit names no time. GitHub documents at least a minute. */
const secondaryLimitSeconds = 60

/**
 * Returns whether GitHub refuses the request because of its secondary rate limit. GitHub documents that the message of
 * such a refusal names a secondary rate limit.
 */
const isSecondaryLimit = ({ message }: RequestError): boolean => /secondary rate limit/i.test(message)

const headerText = (value: string | number | undefined): string | null =>
  value === undefined ? null : String(value)

/** Returns an error for the operator's log. The error shows only the status. */
const bare = (status: number): Error => new Error(`github: ${status}`)
