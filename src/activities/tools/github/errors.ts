import { RequestError } from '@octokit/request-error'
import { OutgoingError } from '../../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../../shared/outgoing/retry-after.ts'
import { OutcomeUnknown, ToolError } from '../executor.ts'

/** Error codes and messages for GitHub's refusals, by HTTP status. GitHub did nothing, and would refuse the same request again. */
const refusals: Readonly<Record<number, readonly [code: string, message: string]>> = {
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

const asked = (code: string, message: string, retryable: boolean, cause: unknown, seconds?: number | null) =>
  new ToolError(code, message, { retryable, cause, retryAfterSeconds: seconds ?? null })

/**
 * The error table of GitHub's tools. A write is `unknown` when the request may have been carried out: its answer was
 * lost or cannot be read, or the server failed (5xx), which GitHub also answers to requests that it has carried out.
 * `expired` makes the error for a refused credential. GitHub's own words stay out of messages, because they repeat values.
 */
export async function errorOf(
  error: unknown,
  kind: 'read' | 'write',
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (error instanceof ToolError || error instanceof OutcomeUnknown) return error
  if (!(error instanceof RequestError)) return kind === 'write' ? unknown() : error
  const { cause } = error
  if (cause instanceof OutgoingError) return unanswered(cause, kind)
  if (cause !== undefined) return kind === 'write' ? unknown() : cause
  const { status } = error
  const headers = error.response?.headers ?? {}
  const retryAfter = retryAfterOf({ get: (name) => headerText(headers[name]) })
  if (status === 401) return expired()
  const isLimit = status === 429 || (status === 403 && (retryAfter !== null || isSecondaryLimit(error)))
  if (isLimit)
    return asked(
      'github_rate_limited',
      'GitHub takes no more requests of this account now',
      true,
      bare(status),
      retryAfter,
    )
  if (status >= 500 || status === 408)
    return kind === 'write'
      ? unknown()
      : asked('github_unavailable', `GitHub failed (answer ${status})`, true, bare(status), retryAfter)
  const [code, message] = refusals[status] ?? [
    'github_refused',
    `GitHub refused the request (answer ${status})`,
  ]
  return asked(code, message, false, bare(status))
}

/** GitHub asks for at least a minute where this limit says no time; the words are part of its documentation. */
const isSecondaryLimit = ({ message }: RequestError): boolean => /secondary rate limit/i.test(message)

const headerText = (value: string | number | undefined): string | null =>
  value === undefined ? null : String(value)

/** The status alone, for the operator's log. */
const bare = (status: number): Error => new Error(`github: ${status}`)

function unanswered(cause: OutgoingError, kind: 'read' | 'write'): ToolError | OutcomeUnknown {
  const { problem, mayHaveArrived, message } = cause
  // A redirect says that the request must be sent to another place, so it was not carried out.
  if (problem === 'redirect_refused')
    return asked('github_redirected', `${message}: use the present name of the repository`, false, cause)
  if (!mayHaveArrived) return asked('github_unreachable', message, problem === 'unreachable', cause)
  if (kind === 'write') return unknown()
  if (problem === 'answer_too_large') return asked('response_too_large', message, false, cause)
  return asked('github_unavailable', message, true, cause)
}

const unknown = (): OutcomeUnknown =>
  new OutcomeUnknown('GitHub did not say whether it carried out the request')

/** For an answer of another form than GitHub documents. */
export const unreadable = (kind: 'read' | 'write'): ToolError | OutcomeUnknown =>
  kind === 'write'
    ? unknown()
    : asked(
        'github_bad_answer',
        'the answer is none of GitHub: check `base_url` of the connection',
        false,
        undefined,
      )
