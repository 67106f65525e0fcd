import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { z } from 'zod'

/** Connections may reach it even if it is private or has no TLS. */
export interface NamedHost {
  /** In lower case, IPv6 without brackets. */
  readonly host: string
  /** Null: any port. */
  readonly port: number | null
}

/** The default in development: this machine. */
export const loopbackHosts: readonly NamedHost[] = ['127.0.0.1', '::1', 'localhost'].map((host) => ({
  host,
  port: null,
}))

const entry = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?$/

/** `CONNECTION_HOSTS`: comma-separated `host` or `host:port`. */
export function connectionHosts(text: string, context: z.RefinementCtx): NamedHost[] {
  const named: NamedHost[] = []
  for (const part of text.split(',').map((each) => each.trim().toLowerCase())) {
    if (part === '') continue
    const [, host = '', port] = entry.exec(part) ?? []
    const bare = bareHost(host)
    const isWrong = bare === '' || Number(port ?? 1) < 1 || Number(port ?? 1) > 65_535
    if (isWrong || (host.startsWith('[') && isIP(bare) !== 6))
      context.addIssue({
        code: 'custom',
        message: `\`${part}\` is not a host: write for example \`git.internal,10.0.0.7:8443,[fd00::7]:443\``,
      })
    else named.push({ host: bare, port: port === undefined ? null : Number(port) })
  }
  return named
}

/** As hosts are compared: lower case, IPv6 short and without brackets (`[0:0:0:0:0:0:0:1]` becomes `::1`). */
export function bareHost(host: string): string {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  return isIP(bare) === 6 ? ipaddr.parse(bare).toString() : bare.toLowerCase()
}

export function isNamed(hosts: readonly NamedHost[], host: string, port: number): boolean {
  const bare = bareHost(host)
  return hosts.some((each) => each.host === bare && (each.port === null || each.port === port))
}

export const portOf = (url: URL): number => Number(url.port || (url.protocol === 'http:' ? 80 : 443))

/** From everywhere on the internet; no IPv6 address that contains a private, loopback or reserved IPv4 one either. */
export function isPublicAddress(address: string): boolean {
  const withoutZone = address.split('%', 1)[0] ?? ''
  if (!ipaddr.isValid(withoutZone)) return false
  // `::ffff:10.0.0.1` becomes `10.0.0.1`. Others that contain an IPv4 address (6to4, Teredo, NAT64) are not `unicast`.
  const read = ipaddr.process(withoutZone)
  if (read.range() !== 'unicast' || read.toString() === azureMetadata) return false
  // Outside `2000::/3` all are reserved, such as `::127.0.0.1` and `fec0::1`.
  return !(read instanceof ipaddr.IPv6) || read.match(publicIPv6, 3)
}

const publicIPv6 = ipaddr.IPv6.parse('2000::')
/** The library counts it as public, but inside Azure it leads to a service of the host machine. */
const azureMetadata = '168.63.129.16'
