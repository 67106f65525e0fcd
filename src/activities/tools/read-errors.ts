import { OutgoingError, type Fetch } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'
import { ToolError } from './executor.ts'

/** The error table of a service whose requests have no effect. */
export interface ReadErrors {
  /** The beginning of the error codes for this service. */
  readonly prefix: string
  /** The service, as the beginning of a sentence. */
  readonly title: string
  /** Codes and messages by HTTP status. The service would refuse the same request again. */
  readonly refusals: Readonly<Record<number, Refusal>>
  /** Answers whose status says too little. They are recognized by words that the service documents. */
  readonly byWords?: readonly { readonly status: number; readonly words: RegExp; readonly means: Meaning }[]
}

type Refusal = readonly [code: string, message: string]
/** `expired`: the service does not accept the credential. */
type Meaning = Refusal | 'expired'

/** A `fetch` for one call. It remembers its last request, which explains an error of the call. */
export interface Watched {
  readonly fetch: Fetch
  /** Returns the error of the call. If the last answer had a success status, it did not have the documented form. */
  errorOf(error: unknown, signal: AbortSignal): Promise<unknown>
  /** Whether the service may have done the work of the last request. */
  mayHaveWorked(): boolean
}

type Last =
  | { readonly kind: 'none' }
  | { readonly kind: 'answered'; readonly answer: Response; readonly text: string }
  | { readonly kind: 'failed'; readonly error: unknown }

/**
 * Errors are made from the requests themselves, because vendors' clients put prompts and keys into the errors that they
 * throw. The messages do not quote the service, because its texts repeat values.
 */
export function watch(send: Fetch, errors: ReadErrors, expired: () => Promise<ToolError>): Watched {
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
      if (last.kind === 'answered') return answered(errors, last.answer, last.text, expired)
      const cause = last.kind === 'failed' ? last.error : error
      if (cause instanceof OutgoingError) return unanswered(errors, cause)
      return new Error(`${errors.prefix}: the client failed with ${(cause as Error).name}`)
    },
    mayHaveWorked() {
      if (last.kind === 'answered') return last.answer.ok
      return last.kind === 'failed' && !(last.error instanceof OutgoingError && !last.error.mayHaveArrived)
    },
  }
}

/** How many characters of a refusal are searched for `words`. */
const mostWords = 10_000

async function answered(
  { prefix, title, refusals, byWords = [] }: ReadErrors,
  { ok, status, headers }: Response,
  text: string,
  expired: () => Promise<ToolError>,
): Promise<ToolError> {
  /** The status alone, for the operator's log. */
  const cause = new Error(`${prefix}: ${status}`)
  const later = (code: string, message: string): ToolError =>
    new ToolError(code, message, { retryable: true, retryAfterSeconds: retryAfterOf(headers), cause })
  if (ok)
    return new ToolError(
      `${prefix}_bad_answer`,
      `${title} gave an answer that is not of its protocol: check \`provider\` and \`base_url\` of the connection`,
      { retryable: false, cause },
    )
  const told = byWords.find((each) => each.status === status && each.words.test(text))?.means
  if (status === 401 || told === 'expired') return expired()
  const refusal = told ?? refusals[status]
  if (refusal !== undefined) return new ToolError(...refusal, { retryable: false, cause })
  if (status === 429)
    return later(`${prefix}_rate_limited`, `${title} takes no more requests of this account now`)
  if (status >= 500 || status === 408)
    return later(`${prefix}_unavailable`, `${title} failed (answer ${status})`)
  return new ToolError(`${prefix}_refused`, `${title} refused the request (answer ${status})`, {
    retryable: false,
    cause,
  })
}

function unanswered({ prefix, title }: ReadErrors, cause: OutgoingError): ToolError {
  const { problem, mayHaveArrived, message } = cause
  const asked = (code: string, text: string, retryable: boolean): ToolError =>
    new ToolError(code, text, { retryable, cause })
  if (problem === 'redirect_refused')
    return asked(`${prefix}_redirected`, `${message}: correct \`base_url\` of the connection`, false)
  if (problem === 'answer_too_large') return asked('response_too_large', message, false)
  if (!mayHaveArrived) return asked(`${prefix}_unreachable`, message, problem === 'unreachable')
  return asked(`${prefix}_unavailable`, `${title} did not answer: ${message}`, true)
}
