/*
 * The fault of a step's error says who must act before the call can succeed.
 *
 * - `caller`: the call is wrong. Its parameters must change, or the inputs from which these parameters come.
 * - `credential`: the connection is wrong. Its account, the rights of the account, or its address must change.
 * - `service`: the external service failed, or the network to the service failed. A later attempt can succeed.
 * - `policy`: a rule, a tool policy, a person's decision or a limit of the organization stopped the call.
 * - `installation`: a setting, a server or a program of this installation needs the attention of the operator.
 */

export const faults = ['caller', 'credential', 'service', 'policy', 'installation'] as const
export type Fault = (typeof faults)[number]

/** `advice` says what to do, for docs/tools.md. A call with an error that says `again` is made again later. */
export type ErrorMeaning = readonly [fault: Fault, advice: string, tried?: 'again']

/** The error codes of a service. */
export type ServiceErrors = Readonly<Record<string, ErrorMeaning>>

/**
 * Returns the errors that `Failures` makes for every service. `prefix` is the beginning of the codes. `address` names
 * the setting that may be wrong if an answer does not come from the service, and `ofAddress` whose setting it is.
 */
export function usualErrors(
  prefix: string,
  address = '`base_url`',
  ofAddress: Fault = 'credential',
): ServiceErrors {
  const wrongAddress = [ofAddress, `correct ${address}`] as const
  return {
    [`${prefix}_rate_limited`]: ['service', 'nothing: the call waits as long as the service asks', 'again'],
    [`${prefix}_unavailable`]: ['service', `nothing, or check ${address}`, 'again'],
    [`${prefix}_unreachable`]: ['service', `nothing, or check ${address}`, 'again'],
    [`${prefix}_refused`]: ['caller', 'change the parameters'],
    [`${prefix}_bad_answer`]: wrongAddress,
    [`${prefix}_redirected`]: wrongAddress,
  }
}
