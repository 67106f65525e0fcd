import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { z } from 'zod'
import { bareHost } from './outgoing/hosts.ts'

/*
 * A page can point its own name at this service (DNS rebinding), and the browser counts both as one site. But it still
 * sends the page's name as `Host`, so this service answers only under names of its own (docs/decisions/0273).
 */

const name = /^[a-z\d_](?:[a-z\d_-]*[a-z\d_])?(?:\.[a-z\d_](?:[a-z\d_-]*[a-z\d_])?)*$/

/** `ALLOWED_HOSTS`: comma-separated names and addresses, without ports. */
export function allowedHosts(text: string, context: z.RefinementCtx): string[] {
  const hosts = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  return hosts.map((host) => {
    const bare = bareHost(host)
    if (isIP(bare) === 0 && !name.test(bare))
      context.addIssue({
        code: 'custom',
        message: `\`${host}\` is not a host: write names and addresses without a port, such as \`countersign.internal,10.0.0.7\``,
      })
    return bare
  })
}

/** Beside loopback, under `names`. */
export interface MetricsEndpoint {
  readonly host: string
  readonly port: number
  readonly names: readonly string[]
}

export function namesOf(
  settings: { readonly ALLOWED_HOSTS: readonly string[]; readonly PUBLIC_URL?: string | undefined },
  host: string,
): string[] {
  const { ALLOWED_HOSTS: allowed, PUBLIC_URL: url } = settings
  const named = url === undefined ? [] : [new URL(url).hostname]
  return [...allowed, ...[host, ...named].map(bareHost)]
}

/** Reads a `Host` header; null for another form, for example with a user name. */
export function hostIn(header: string): string | null {
  const [, host] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{0,5})?$/i.exec(header) ?? []
  return host === undefined ? null : bareHost(host)
}

/** An address of loopback, or `localhost`. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost') return true
  return isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback'
}

/** `reached` is this machine's address of the connection. Any port: a rebound name is still a stranger's. */
export function isOwnHost(names: ReadonlySet<string>, header: string, reached: string | undefined): boolean {
  const host = hostIn(header)
  if (host === null) return false
  return names.has(host) || isLoopback(host) || isAddressOf(host, reached)
}

/** A browser sends an address as `Host` only if the page came from it, so no name was rebound. */
function isAddressOf(host: string, reached: string | undefined): boolean {
  if (isIP(host) === 0 || reached === undefined || !ipaddr.isValid(reached)) return false
  return ipaddr.process(host).toNormalizedString() === ipaddr.process(reached).toNormalizedString()
}
