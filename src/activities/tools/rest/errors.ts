import { OutgoingError } from '../../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../../shared/outgoing/retry-after.ts'
import { OutcomeUnknown, ToolError } from '../executor.ts'

/** The error table of a service. Its own words stay out of messages, because they repeat values. */
export interface RestErrors {
  /** The beginning of its error codes. */
  readonly prefix: string
  /** The service, as the beginning of a sentence. */
  readonly title: string
  /** The end of a code and its message by HTTP status. The service did nothing, and would refuse the same request again. */
  readonly refusals: Readonly<Record<number, readonly [code: string, message: string]>>
  /** An answer 401 with these words refuses the act and not the credential. It means 403. */
  readonly forbidden?: RegExp
  /** What to check if another place answers. */
  readonly address: string
}

/** An answer whose status is no success. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly status: number
  readonly retryAfterSeconds: number | null
  constructor({ status, headers }: Response, text: string, forbidden?: RegExp) {
    super(`answer ${status}`)
    this.status = status === 401 && forbidden?.test(text.slice(0, 200)) === true ? 403 : status
    this.retryAfterSeconds = retryAfterOf(headers)
  }
}

/**
 * The error of a request. A write is `OutcomeUnknown` when it may have been carried out: its answer was lost or cannot be
 * read, or the server failed (5xx). `expired` makes the error for a refused credential.
 */
export async function errorOf(
  error: unknown,
  kind: 'read' | 'write',
  errors: RestErrors,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (error instanceof OutgoingError) return unanswered(error, kind, errors)
  if (!(error instanceof HttpFailure)) return kind === 'write' ? unknown(errors) : error
  const { prefix, title } = errors
  const { status, retryAfterSeconds } = error
  if (status === 401) return expired()
  if (status === 429)
    return asked(
      [`${prefix}_rate_limited`, `${title} takes no more requests of this account now`],
      error,
      true,
      retryAfterSeconds,
    )
  if (status >= 500 || status === 408)
    return kind === 'write'
      ? unknown(errors)
      : asked([`${prefix}_unavailable`, `${title} failed (answer ${status})`], error, true, retryAfterSeconds)
  const [code, message] = errors.refusals[status] ?? [
    'refused',
    `${title} refused the request (answer ${status})`,
  ]
  return asked([`${prefix}_${code}`, message], error, false)
}

const asked = (
  [code, message]: readonly [string, string],
  cause: unknown,
  retryable: boolean,
  retryAfterSeconds: number | null = null,
): ToolError => new ToolError(code, message, { retryable, cause, retryAfterSeconds })

function unanswered(
  error: OutgoingError,
  kind: 'read' | 'write',
  errors: RestErrors,
): ToolError | OutcomeUnknown {
  const { prefix, address } = errors
  const { problem, mayHaveArrived, message } = error
  // A redirect says that the request must be sent to another place, so it was not carried out.
  if (problem === 'redirect_refused')
    return asked([`${prefix}_redirected`, `${message}: check ${address}`], error, false)
  if (!mayHaveArrived) return asked([`${prefix}_unreachable`, message], error, problem === 'unreachable')
  if (kind === 'write') return unknown(errors)
  if (problem === 'answer_too_large') return asked(['response_too_large', message], error, false)
  return asked([`${prefix}_unavailable`, message], error, true)
}

const unknown = ({ title }: RestErrors): OutcomeUnknown =>
  new OutcomeUnknown(`${title} did not say whether it carried out the request`)

/** For an answer of another form than the service documents. */
export const unreadable = (kind: 'read' | 'write', errors: RestErrors): ToolError | OutcomeUnknown =>
  kind === 'write'
    ? unknown(errors)
    : asked(
        [`${errors.prefix}_bad_answer`, `the answer is none of ${errors.title}: check ${errors.address}`],
        undefined,
        false,
      )
