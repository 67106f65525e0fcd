import { isIPv6 } from 'node:net'
import type { Environment } from './environment.ts'
import { bareHost } from './outgoing/hosts.ts'

type PortName = 'PORT' | 'METRICS_PORT' | 'WORKER_METRICS_PORT' | 'POSTGRES_PORT'

/** The ports that the API opens. */
export const apiPorts: readonly PortName[] = ['PORT', 'METRICS_PORT']

/**
 * Returns an error message for each of `names` that has the same port as an earlier one, on an overlapping address.
 * Port 0 is not compared, because it means any free port. A port that `wrong` reports as wrong is not compared either.
 */
export function clashingPorts(
  { values, wrong }: { readonly values: Environment; readonly wrong: readonly string[] },
  names: readonly PortName[],
): string[] {
  const opened = names.flatMap((name) => {
    const port = values[name]
    const isWrong = wrong.some((line) => line.startsWith(`${name} is wrong`))
    return !port || isWrong ? [] : [{ name, port, host: hostOf(name, values) }]
  })
  return opened.flatMap(({ name, port, host }, at) => {
    const earlier = opened.slice(0, at).find((each) => each.port === port && overlap(each.host, host))
    return earlier === undefined
      ? []
      : [`${earlier.name} and ${name} are both ${port}: set ${name} to another port`]
  })
}

/** The address on which a process opens this port. The embedded PostgreSQL listens on this machine only. */
function hostOf(name: PortName, { HOST, METRICS_HOST }: Environment): string {
  if (name === 'POSTGRES_PORT') return '127.0.0.1'
  return bareHost(name === 'PORT' ? HOST : METRICS_HOST)
}

/**
 * True if the same port cannot be open on both addresses. Example: `0.0.0.0` and `127.0.0.1`. `::` stands for all
 * addresses of this machine, and `0.0.0.0` for all IPv4 addresses. Names are not looked up, and only `localhost` is
 * known.
 */
function overlap(one: string, other: string): boolean {
  const covers = (wide: string, host: string): boolean =>
    wide === '::' ||
    (wide === '0.0.0.0' && !isIPv6(host)) ||
    (wide === 'localhost' && ['127.0.0.1', '::1'].includes(host))
  return one === other || covers(one, other) || covers(other, one)
}
