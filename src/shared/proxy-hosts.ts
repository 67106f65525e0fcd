import { BlockList, isIP } from 'node:net'
import type { z } from 'zod'

/**
 * The shortest prefix that a trusted range may have. It is 8 for IPv4 (addresses of 32 bits) and 16 for IPv6 (128
 * bits). A range with a shorter prefix would also include clients.
 */
const shortestPrefix: Readonly<Record<number, number>> = { 32: 8, 128: 16 }

function isWide(address: string, prefix: number, bits: number): boolean {
  if (prefix < (shortestPrefix[bits] ?? 0)) return true
  // In IPv6, the IPv4 addresses are `::ffff:0:0/96`. A range that contains all of them is too wide. A range within them
  // may have at most the size of an IPv4 /8, which is an IPv6 /104.
  return bits === 128 && prefix < 104 && (isIn(mapped, 96, address) || isIn(address, prefix, mapped))
}

const mapped = '::ffff:0:0'

function isIn(network: string, prefix: number, address: string): boolean {
  const list = new BlockList()
  list.addSubnet(network, prefix, 'ipv6')
  return list.check(address, 'ipv6')
}

/**
 * True for `0.0.0.0` and `::`. A server that listens on such an address listens on all its addresses. No connection
 * comes from such an address, so trusting it would have no effect.
 */
const isUnspecified = (address: string): boolean => /^[0:.]+$/.test(address)

/**
 * Reads TRUSTED_PROXY_HOSTS: comma-separated addresses and CIDR ranges. A client in a trusted range could claim any
 * other address as its own, so wide ranges are refused.
 */
export function proxyHosts(text: string, context: z.RefinementCtx): string[] {
  const hosts = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  for (const host of hosts) {
    const [, address = '', prefix] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(host) ?? []
    const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
    if (bits === 0 || (prefix !== undefined && Number(prefix) > bits))
      context.addIssue({
        code: 'custom',
        message: `\`${host}\` is not an address or CIDR range: write for example \`10.0.0.7,10.1.0.0/16,fd00::/16\``,
      })
    else if (prefix !== undefined && isWide(address, Number(prefix), bits))
      context.addIssue({
        code: 'custom',
        message: `\`${host}\` trusts too many addresses: name the proxies, or a range of at least /8 (IPv4) or /16 (IPv6)`,
      })
    else if (isUnspecified(address))
      context.addIssue({
        code: 'custom',
        message: `no connection comes from \`${host}\`: name the address from which the proxy connects, such as \`127.0.0.1\``,
      })
  }
  return hosts
}
