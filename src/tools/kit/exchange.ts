import { z } from 'zod'
import { OutgoingError, type Bounds } from '../../shared/outgoing/outgoing.ts'
import { OutcomeUnknown, ToolError, type ServiceConnection } from './executor.ts'

/* Rules for all services: the bounds of a request, and the meaning of its failures. */

/**
 * `again` means that the request may be sent again. `once` means that the request has an effect that must not happen
 * twice.
 */
export type Sending = 'again' | 'once'

/** The largest answer, in bytes after decompression. */
export const mostAnswerBytes = 32 * 1024 * 1024

/**
 * The maximum time of one request in milliseconds. Then the request is ended. Other code assumes that a service does
 * not begin to carry out a request after this time.
 */
export const mostRequestMilliseconds = 30_000

/**
 * An attempt must send its first request with an effect within this many milliseconds after it has asked for the point
 * of no return.
 */
export const mostWaitMilliseconds = 10_000

/**
 * Returns the bounds of one request: its longest time and its largest answer. `signal` can end the request before its
 * longest time. `signal` is null if no signal can end the request.
 */
export const boundsWith = (signal: AbortSignal | null): Omit<Bounds, 'addresses' | 'reserve'> => ({
  milliseconds: mostRequestMilliseconds,
  bytes: mostAnswerBytes,
  ...(signal === null ? {} : { signal }),
})

/**
 * Returns the same bounds as `boundsWith`. Before a request with an effect (`once`) leaves, the bounds also call
 * `requireFresh`.
 */
export const boundsOf = (
  sending: Sending,
  connection: Pick<ServiceConnection<never>, 'requireFresh'>,
  signal: AbortSignal | null,
): ReturnType<typeof boundsWith> => ({
  ...boundsWith(signal),
  ...(sending === 'once' ? { beforeSending: () => connection.requireFresh() } : {}),
})

/** Returns undefined if the text is not JSON. */
export function jsonOf(text: unknown): unknown {
  try {
    return JSON.parse(String(text)) as unknown
  } catch {
    return undefined
  }
}

/** The default limit of `listOf`. Services give at most this many entries on a page. */
const mostEntries = 100

/** Returns a schema for lists with at most `most` entries. A longer list is refused before its entries are checked. */
export const listOf = <Form extends z.ZodType>(form: Form, most = mostEntries) =>
  z
    .array(z.unknown() as z.ZodType<z.input<Form>, z.input<Form>>)
    .max(most)
    .pipe(z.array(form))

/** Our error code for a refusal by one service, and our message. */
export type Said = readonly [code: string, message: string]

export interface Service {
  /** The beginning of the error codes for this service. Example: `github` for `github_forbidden`. */
  readonly prefix: string
  /** The service's name as the first word of a sentence. */
  readonly title: string
  /**
   * The name of the setting that may be wrong if an answer does not come from the service. Example: `TRACKER_BASE_URL`.
   */
  readonly address?: string
  /** The advice in the error of a request that the service redirects to another address. */
  readonly redirected?: string
}

/**
 * Makes the errors for failed requests to one service. The messages do not quote answers of the service, because the
 * answers may repeat values of parameters.
 *
 * For a request that must not be sent twice (`once`), the error is `OutcomeUnknown` if the service may have carried out
 * the request. This is so if the answer was lost, or if the answer cannot be read. It is also so for a 5xx status,
 * because services sometimes send such a status for requests that they have carried out.
 */
export class Failures {
  readonly #prefix: string
  readonly #title: string
  readonly #address: string
  readonly #advice: string
  constructor({ prefix, title, address = '`base_url` of the connection', redirected }: Service) {
    this.#prefix = prefix
    this.#title = title
    this.#address = address
    this.#advice = redirected ?? `check ${address}`
  }

  /** Returns the error of a request that the service would refuse again. */
  refused([code, message]: Said, cause?: unknown): ToolError {
    return new ToolError(code, message, { cause })
  }

  unknown(): OutcomeUnknown {
    return new OutcomeUnknown(`${this.#title} did not say whether it carried out the request`)
  }

  /** A redirect asks for a request to another address. So the service has not carried out the redirected request. */
  redirected(cause: Error): ToolError {
    return this.refused([`${this.#prefix}_redirected`, `${cause.message}: ${this.#advice}`], cause)
  }

  /** `seconds` is the time that the service asks to wait. It is null if the service names no time. */
  limited(cause: unknown, seconds: number | null): ToolError {
    const message = `${this.#title} takes no more requests of this account now`
    return this.#passing('rate_limited', message, cause, seconds)
  }

  /** Returns the error for an answer which says that the service failed. `why` is the end of the error's message. */
  broken(sending: Sending, why: string, cause: unknown, seconds: number | null): ToolError | OutcomeUnknown {
    return sending === 'once'
      ? this.unknown()
      : this.#passing('unavailable', `${this.#title} ${why}`, cause, seconds)
  }

  /** Returns the error of a request without an answer. */
  unanswered(cause: OutgoingError, sending: Sending): ToolError | OutcomeUnknown {
    const { problem, mayHaveArrived, message } = cause
    if (problem === 'redirect_refused') return this.redirected(cause)
    if (!mayHaveArrived && problem === 'unreachable') return this.#passing('unreachable', message, cause)
    if (!mayHaveArrived) return this.refused([`${this.#prefix}_unreachable`, message], cause)
    if (sending === 'once') return this.unknown()
    if (problem === 'answer_too_large')
      return this.refused(['response_too_large', `${message}: ask for less`], cause)
    return this.#passing('unavailable', message, cause)
  }

  /** Returns the error for an answer whose fields are not as the service documents them. */
  unreadable(sending: Sending): ToolError | OutcomeUnknown {
    const message = `the answer does not have the form of ${this.#title}'s answers: check ${this.#address}`
    return sending === 'once' ? this.unknown() : this.refused([`${this.#prefix}_bad_answer`, message])
  }

  /** Returns the error of a request that has thrown `error`. */
  thrown(error: unknown, sending: Sending): unknown {
    if (error instanceof OutgoingError) return this.unanswered(error, sending)
    if (error instanceof ToolError || error instanceof OutcomeUnknown) return error
    return sending === 'once' ? this.unknown() : error
  }

  /** Returns the error for an answer whose status is no success. */
  async byStatus(answer: Failed): Promise<ToolError | OutcomeUnknown> {
    const { status, sending, cause, seconds, said } = answer
    if (status === 401) return answer.expired()
    if (status === 429) return this.limited(cause, seconds)
    if (isBroken(status)) return this.broken(sending, `failed (answer ${status})`, cause, seconds)
    const message = `${this.#title} refused the request (answer ${status})`
    return this.refused(said ?? [`${this.#prefix}_refused`, message], cause)
  }

  #passing(code: string, message: string, cause: unknown, seconds: number | null = null): ToolError {
    const options = { retryable: true, cause, retryAfterSeconds: seconds }
    return new ToolError(`${this.#prefix}_${code}`, message, options)
  }
}

/** An answer whose status is no success. */
interface Failed {
  readonly status: number
  readonly sending: Sending
  /** The error for the operator's log. It contains the status, and no text of the answer. */
  readonly cause: Error
  /** Seconds that the service asks to wait. Is null if the service names no time. */
  readonly seconds: number | null
  /** The meaning of a refusal with this status. */
  readonly said: Said | undefined
  /** Makes the error for a refused credential. */
  readonly expired: () => Promise<ToolError>
}

/** Returns whether the status says that the server failed, or stopped waiting for the request. */
export const isBroken = (status: number): boolean => status >= 500 || status === 408
