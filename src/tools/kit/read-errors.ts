import { OutgoingError, type Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { Failures, type Said, type Service } from './exchange.ts'
import { ToolError } from './executor.ts'

/** The error table of a service whose requests have no effect. */
export interface ReadErrors extends Service {
  /**
   * Our error codes and messages by HTTP status. After such a status, the service would refuse the same request again.
   */
  readonly refusals: Readonly<Record<number, Said>>
  /**
   * Meanings of answers whose status does not say enough. The service documents words by which such an answer is
   * recognized.
   */
  readonly byWords?: readonly { readonly status: number; readonly words: RegExp; readonly means: Meaning }[]
}

/** Is `expired` if the service does not accept the credential. */
type Meaning = Said | 'expired'

/** A `fetch` for one call. It remembers its last request. If the call fails, this request explains the error. */
export interface Watched {
  readonly fetch: Fetch
  /**
   * Returns the error of the call, made from the last request. If that request was answered with a success status, the
   * error says that the answer is not as the service documents it.
   */
  errorOf(error: unknown, signal: AbortSignal): Promise<unknown>
  /** Returns whether the service may have done the work of the last request. */
  mayHaveWorked(): boolean
}

type Last =
  | { readonly kind: 'none' }
  | { readonly kind: 'answered'; readonly answer: Response; readonly text: string }
  | { readonly kind: 'failed'; readonly error: unknown }

/**
 * Watches the requests of a client library, and makes the errors of a call from these requests. The library's own
 * errors are not used, because such libraries put prompts and keys into their errors.
 */
export function watch(send: Fetch, errors: ReadErrors, expired: () => Promise<ToolError>): Watched {
  const failures = new Failures(errors)
  let last: Last = { kind: 'none' }
  return {
    async fetch(input, init) {
      last = { kind: 'none' }
      try {
        const answer = await send(input, init)
        const text = answer.ok ? '' : await answer.clone().text()
        last = { kind: 'answered', answer, text: text.slice(0, mostWords) }
        return answer
      } catch (error) {
        last = { kind: 'failed', error }
        throw error
      }
    },
    async errorOf(error, signal) {
      if (error instanceof ToolError) return error
      if (signal.aborted) return signal.reason
      if (last.kind === 'answered') return answered(errors, failures, last.answer, last.text, expired)
      const cause = last.kind === 'failed' ? last.error : error
      if (cause instanceof OutgoingError) return failures.unanswered(cause, 'again')
      return new Error(`${errors.prefix}: the client failed with ${(cause as Error).name}`)
    },
    mayHaveWorked() {
      if (last.kind === 'answered') return last.answer.ok
      return last.kind === 'failed' && !(last.error instanceof OutgoingError && !last.error.mayHaveArrived)
    },
  }
}

/** Only this many characters at the beginning of a refusal are searched for `words`. */
const mostWords = 10_000

async function answered(
  { prefix, refusals, byWords = [] }: ReadErrors,
  failures: Failures,
  { ok, status, headers }: Response,
  text: string,
  expired: () => Promise<ToolError>,
): Promise<Error> {
  if (ok) return failures.unreadable('again')
  const told = byWords.find((each) => each.status === status && each.words.test(text))?.means
  if (status === 401 || told === 'expired') return expired()
  const cause = new Error(`${prefix}: ${status}`)
  const said = told ?? refusals[status]
  if (said !== undefined) return failures.refused(said, cause)
  const seconds = retryAfterOf(headers)
  return failures.byStatus({ status, sending: 'again', cause, seconds, said, expired })
}
