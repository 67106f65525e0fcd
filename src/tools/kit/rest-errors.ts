import { list, quote } from '../../policy/explain.ts'
import { OutgoingError } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { isBroken, jsonOf, type Failures, type Said, type Sending, type Service } from './exchange.ts'
import { ToolError } from './executor.ts'

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
export class HttpFailure extends Error {
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

/** Converts the error of a request to the error of the tool. `expired` makes the error for a refused credential. */
export async function errorOf(
  error: unknown,
  sending: Sending,
  { prefix, title, refusals }: RestErrors,
  failures: Failures,
  expired: () => Promise<ToolError>,
): Promise<unknown> {
  if (error instanceof OutgoingError) return failures.unanswered(error, sending)
  if (error instanceof ToolError) return error
  if (!(error instanceof HttpFailure)) return sending === 'once' ? failures.unknown() : error
  const { status, retryAfterSeconds } = error
  if (status === 401) return expired()
  if (status === 429) return failures.limited(error, retryAfterSeconds)
  if (isBroken(status)) return failures.broken(sending, `failed (answer ${status})`, error, retryAfterSeconds)
  const [code, message] = refusals[status] ?? ['refused', `${title} refused the request (answer ${status})`]
  const named = error.fields.length === 0 ? '' : `; ${title} names ${list(error.fields.map(quote), 'and')}`
  return failures.refused([`${prefix}_${code}`, `${message}${named}`], error)
}
