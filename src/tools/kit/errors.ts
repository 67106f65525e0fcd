/*
 * Who must act before the call can succeed. `caller`: the parameters or inputs must change. `credential`: the
 * account, its rights or its address must change. `service`: the service or the network failed, and a later
 * attempt can succeed. `policy`: a rule, a decision or a limit stopped the call. `installation`: the operator
 * must act.
 */

export const faults = ['caller', 'credential', 'service', 'policy', 'installation'] as const
export type Fault = (typeof faults)[number]

/** `advice` is for docs/tools.md. With `again`, the call is made again later. */
export type ErrorMeaning = readonly [fault: Fault, advice: string, tried?: 'again']

export type ServiceErrors = Readonly<Record<string, ErrorMeaning>>

/** `prefix` begins the codes. `address` is the setting that may be wrong, and `ofAddress` whose it is. */
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
