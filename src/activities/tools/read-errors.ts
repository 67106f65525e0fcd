import { OutgoingError, type Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { failuresOf, isBroken, type Failures, type Said, type Service } from './exchange.ts'
import { ToolError } from './executor.ts'

/** The error table of a service whose requests have no effect. */
export interface ReadErrors extends Service {
  /** Codes and messages by HTTP status. The service would refuse the same request again. */
  readonly refusals: Readonly<Record<number, Said>>
  /** Answers whose status alone does not say what happened. They are recognized by words that the service documents. */
  readonly byWords?: readonly { readonly status: number; readonly words: RegExp; readonly means: Meaning }[]
}

/** `expired`: the service does not accept the credential. */
type Meaning = Said | 'expired'

/** A `fetch` for one call. It remembers its last request, which explains an error of the call. */
export interface Watched {
  readonly fetch: Fetch
  /**
   * Returns the error of the call, made from the last request. If that request was answered with a success status, the
   * error says that the answer does not have the documented form.
   */
  errorOf(error: unknown, signal: AbortSignal): Promise<unknown>
  /** Whether the service may have done the work of the last request. */
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
  const failures = failuresOf(errors)
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

/** `words` are looked for only in the first characters of a refusal, at most this many. */
const mostWords = 10_000

async function answered(
  { prefix, title, refusals, byWords = [] }: ReadErrors,
  failures: Failures,
  { ok, status, headers }: Response,
  text: string,
  expired: () => Promise<ToolError>,
): Promise<Error> {
  if (ok) return failures.unreadable('again')
  const told = byWords.find((each) => each.status === status && each.words.test(text))?.means
  if (status === 401 || told === 'expired') return expired()
  /** The status alone, for the operator's log. */
  const cause = new Error(`${prefix}: ${status}`)
  const said = told ?? refusals[status]
  if (said !== undefined) return failures.refused(said, cause)
  if (status === 429) return failures.limited(cause, retryAfterOf(headers))
  if (isBroken(status))
    return failures.broken('again', `failed (answer ${status})`, cause, retryAfterOf(headers))
  return failures.refused([`${prefix}_refused`, `${title} refused the request (answer ${status})`], cause)
}
