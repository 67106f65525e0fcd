import { isIPv6 } from 'node:net'
import type { Environment } from './environment.ts'
import { bareHost } from './outgoing/hosts.ts'

type PortName = 'PORT' | 'METRICS_PORT' | 'WORKER_METRICS_PORT' | 'POSTGRES_PORT'

export const apiPorts: readonly PortName[] = ['PORT', 'METRICS_PORT']

/** A message for each port that an overlapping address has already. Port 0 is any free one. */
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

/** The embedded PostgreSQL listens on this machine only. */
function hostOf(name: PortName, { HOST, METRICS_HOST }: Environment): string {
  if (name === 'POSTGRES_PORT') return '127.0.0.1'
  return bareHost(name === 'PORT' ? HOST : METRICS_HOST)
}

/** `::` stands for all addresses of this machine, `0.0.0.0` for all of IPv4. Only the name `localhost` is known. */
function overlap(one: string, other: string): boolean {
  const covers = (wide: string, host: string): boolean =>
    wide === '::' ||
    (wide === '0.0.0.0' && !isIPv6(host)) ||
    (wide === 'localhost' && ['127.0.0.1', '::1'].includes(host))
  return one === other || covers(one, other) || covers(other, one)
}
