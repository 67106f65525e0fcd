import { z } from 'zod'
import { list, quote } from '../../policy/text.ts'
import { OutgoingError, type Bounds } from '../../shared/outgoing/outgoing.ts'
import { OutcomeUnknown, ToolError, type ServiceConnection } from './executor.ts'

/* Rules for all services: the bounds of a request, and the meaning of its failures. */

/** `once`: the request has an effect that must not happen twice. */
export type Sending = 'again' | 'once'

/** Bytes after decompression. */
export const mostAnswerBytes = 32 * 1024 * 1024

/** Other code assumes that a service does not begin to carry out a request after this time. */
export const mostRequestMilliseconds = 30_000

/** From asking for the point of no return until the first request with an effect. */
export const mostWaitMilliseconds = 10_000

/** `signal` can end the request early. Before a `once` request leaves, `requireFresh` is called. */
export const boundsOf = (
  sending: Sending,
  connection: Pick<ServiceConnection<never>, 'requireFresh'>,
  signal: AbortSignal | null,
): Omit<Bounds, 'addresses' | 'reserve'> => ({
  milliseconds: mostRequestMilliseconds,
  bytes: mostAnswerBytes,
  ...(signal === null ? {} : { signal }),
  ...(sending === 'once' ? { beforeSending: () => connection.requireFresh() } : {}),
})

/** Undefined if the text is not JSON. */
export function jsonOf(text: unknown): unknown {
  try {
    return JSON.parse(String(text)) as unknown
  } catch {
    return undefined
  }
}

/** Services give at most this many entries on a page. */
const mostEntries = 100

/** A longer list is refused before its entries are checked. */
export const listOf = <Form extends z.ZodType>(form: Form, most = mostEntries) =>
  z
    .array(z.unknown() as z.ZodType<z.input<Form>, z.input<Form>>)
    .max(most)
    .pipe(z.array(form))

/** Our error code for a refusal by one service, and our message. */
export type Said = readonly [code: string, message: string]

export interface Service {
  /** Example: `github` for `github_forbidden`. */
  readonly prefix: string
  /** As the first word of a sentence. */
  readonly title: string
  /** The setting that may be wrong if an answer is not the service's. Example: `TRACKER_BASE_URL`. */
  readonly address?: string
  /** The advice if the service redirects a request to another address. */
  readonly redirected?: string
  /** By HTTP status. The service did nothing, and would refuse the same request again. */
  readonly refusals?: Readonly<Record<number, Said>>
  /** By documented words, if the status does not say enough. `expired`: the credential is refused. */
  readonly byWords?: readonly {
    readonly status: number
    readonly words: RegExp
    readonly means: Said | 'expired'
  }[]
  /** The fields that a 400 blames. Only known names, because a service could write any text there. */
  fieldsIn?(answer: unknown): readonly string[]
}

/** Only this many characters at the beginning of a refusal are searched for `words`. */
const mostWords = 10_000

/**
 * Messages do not quote answers, which may repeat values of parameters. For `once`, the error is
 * `OutcomeUnknown` if the service may have acted: if the answer is lost or unreadable, or has a 5xx status,
 * which services sometimes send although they have carried out the request.
 */
export class Failures {
  readonly #service: Service
  readonly #prefix: string
  readonly #title: string
  readonly #address: string
  constructor(service: Service) {
    this.#service = service
    this.#prefix = service.prefix
    this.#title = service.title
    this.#address = service.address ?? '`base_url` of the connection'
  }

  /** The service would refuse it again. */
  refused([code, message]: Said, cause?: unknown): ToolError {
    return new ToolError(code, message, { cause })
  }

  unknown(): OutcomeUnknown {
    return new OutcomeUnknown(`${this.#title} did not say whether it carried out the request`)
  }

  /** The service has not carried out the redirected request. */
  redirected(cause: Error): ToolError {
    const { redirected: advice = `check ${this.#address}` } = this.#service
    return this.refused([`${this.#prefix}_redirected`, `${cause.message}: ${advice}`], cause)
  }

  /** `seconds` to wait; null if the service names no time. */
  limited(cause: unknown, seconds: number | null): ToolError {
    const message = `${this.#title} takes no more requests of this account now`
    return this.#passing('rate_limited', message, cause, seconds)
  }

  /** `why` is the end of the message. */
  broken(sending: Sending, why: string, cause: unknown, seconds: number | null): ToolError | OutcomeUnknown {
    return sending === 'once'
      ? this.unknown()
      : this.#passing('unavailable', `${this.#title} ${why}`, cause, seconds)
  }

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

  /** The fields of the answer are not as the service documents them. */
  unreadable(sending: Sending): ToolError | OutcomeUnknown {
    const message = `the answer does not have the form of ${this.#title}'s answers: check ${this.#address}`
    return sending === 'once' ? this.unknown() : this.refused([`${this.#prefix}_bad_answer`, message])
  }

  thrown(error: unknown, sending: Sending): unknown {
    if (error instanceof OutgoingError) return this.unanswered(error, sending)
    if (error instanceof ToolError || error instanceof OutcomeUnknown) return error
    return sending === 'once' ? this.unknown() : error
  }

  async byStatus(answer: Failed): Promise<ToolError | OutcomeUnknown> {
    const { status, sending, seconds, text = '' } = answer
    const { refusals = {}, byWords = [], fieldsIn } = this.#service
    const words = text.slice(0, mostWords)
    const told = byWords.find((each) => each.status === status && each.words.test(words))?.means
    if (told === 'expired' || (status === 401 && told === undefined)) return answer.expired()
    // Contains no text of the answer, because operators see it in the log.
    const cause = new Error(`${this.#prefix}: ${status}`)
    const [code, message] = answer.said ?? told ?? refusals[status] ?? []
    const fields = status === 400 ? (fieldsIn?.(jsonOf(text)) ?? []) : []
    const named = fields.length === 0 ? '' : `; ${this.#title} names ${list(fields.map(quote), 'and')}`
    if (code !== undefined) return this.refused([code, `${message}${named}`], cause)
    if (status === 429) return this.limited(cause, seconds)
    if (isBroken(status)) return this.broken(sending, `failed (answer ${status})`, cause, seconds)
    const refused = `${this.#title} refused the request (answer ${status})${named}`
    return this.refused([`${this.#prefix}_refused`, refused], cause)
  }

  #passing(code: string, message: string, cause: unknown, seconds: number | null = null): ToolError {
    const options = { retryable: true, cause, retryAfterSeconds: seconds }
    return new ToolError(`${this.#prefix}_${code}`, message, options)
  }
}

interface Failed {
  readonly status: number
  readonly sending: Sending
  /** How long the service asks to wait. Is null if it names no time. */
  readonly seconds: number | null
  /** If the table of the service reads it. */
  readonly text?: string
  /** If it does not follow from the table of the service. */
  readonly said?: Said | undefined
  /** For a refused credential. */
  readonly expired: () => Promise<ToolError>
}

/** The server failed, or stopped waiting for the request. */
export const isBroken = (status: number): boolean => status >= 500 || status === 408
