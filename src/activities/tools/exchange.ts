import type { Bounds, OutgoingError } from '../../shared/outgoing/outgoing.ts'
import { OutcomeUnknown, ToolError, type ServiceConnection } from './executor.ts'

/* Rules for all services: the bounds of a request, and the meaning of its failures. */

/** `again`: the request may be sent again. `once`: the request has an effect that must not happen twice. */
export type Sending = 'again' | 'once'

/** The largest answer, in bytes after decompression. */
export const mostAnswerBytes = 32 * 1024 * 1024

/**
 * The maximum time of one request in milliseconds; then the request is ended. Other code assumes that a service does
 * not begin to carry out a request after this time.
 */
export const mostRequestMilliseconds = 30_000

/**
 * An attempt must send its first request with an effect within this many milliseconds after it has asked for the point
 * of no return.
 */
export const mostWaitMilliseconds = 10_000

/**
 * The bounds of one request: its longest time and its largest answer. `signal` can end the request before its longest
 * time; null: no signal does.
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

/** Our error code for a refusal by one service, and our message. */
export type Said = readonly [code: string, message: string]

export interface Service {
  /** The beginning of the error codes for this service. */
  readonly prefix: string
  /** The service's name as the first word of a sentence. */
  readonly title: string
  /** Names the setting to check if an answer does not come from the service. */
  readonly address?: string
  /** Advice for the error of a request that the service redirects to another address. */
  readonly redirected?: string
}

/**
 * Functions that make the errors for failed requests to one service. The messages do not quote the service, because its
 * texts may repeat values of parameters.
 */
export type Failures = ReturnType<typeof failuresOf>

/**
 * Makes the functions of `Failures`. A request that must not be sent twice gives `OutcomeUnknown` if the service may
 * have carried it out. This is so if the answer was lost, or if the answer cannot be read. It is also so for a 5xx
 * status, because services sometimes send such a status for requests that they have carried out.
 */
export function failuresOf({
  prefix,
  title,
  address = '`base_url` of the connection',
  redirected: advice = `check ${address}`,
}: Service) {
  const failed = ([code, message]: Said, cause: unknown, retryable: boolean, seconds: number | null = null) =>
    new ToolError(code, message, { retryable, cause, retryAfterSeconds: seconds })
  const unknown = () => new OutcomeUnknown(`${title} did not say whether it carried out the request`)
  /** A redirect asks for a request to another address, so the service has not carried out this one. */
  const redirected = (cause: Error) =>
    failed([`${prefix}_redirected`, `${cause.message}: ${advice}`], cause, false)
  return {
    /** The error of a request that the service would refuse again. */
    refused: (said: Said, cause: unknown) => failed(said, cause, false),
    redirected,
    unknown,
    /** `seconds`: how long the service asks to wait; null: it does not say. */
    limited: (cause: unknown, seconds: number | null) =>
      failed(
        [`${prefix}_rate_limited`, `${title} takes no more requests of this account now`],
        cause,
        true,
        seconds,
      ),
    /** The error for an answer which says that the service failed. `why`: the end of the message. */
    broken: (sending: Sending, why: string, cause: unknown, seconds: number | null) =>
      sending === 'once'
        ? unknown()
        : failed([`${prefix}_unavailable`, `${title} ${why}`], cause, true, seconds),
    /** The error of a request without an answer. */
    unanswered(cause: OutgoingError, sending: Sending): ToolError | OutcomeUnknown {
      const { problem, mayHaveArrived, message } = cause
      if (problem === 'redirect_refused') return redirected(cause)
      if (!mayHaveArrived) return failed([`${prefix}_unreachable`, message], cause, problem === 'unreachable')
      if (sending === 'once') return unknown()
      if (problem === 'answer_too_large')
        return failed(['response_too_large', `${message}: ask for less`], cause, false)
      return failed([`${prefix}_unavailable`, message], cause, true)
    },
    /** The error for an answer that does not have the form which the service documents. */
    unreadable: (sending: Sending): ToolError | OutcomeUnknown =>
      sending === 'once'
        ? unknown()
        : failed(
            [
              `${prefix}_bad_answer`,
              `the answer does not have the form of ${title}'s answers: check ${address}`,
            ],
            undefined,
            false,
          ),
  }
}

/** Whether the status says that the server failed, or stopped waiting for the request. */
export const isBroken = (status: number): boolean => status >= 500 || status === 408
