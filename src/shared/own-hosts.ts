import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { z } from 'zod'
import { bareHost } from './outgoing/hosts.ts'

/*
 * A web page can point its own name at the address of this service (DNS rebinding). The browser then counts both as one
 * site. But the browser still sends the page's name as `Host`. So this service answers only under names that belong to
 * it (docs/decisions/0273).
 */

const name = /^[a-z\d_](?:[a-z\d_-]*[a-z\d_])?(?:\.[a-z\d_](?:[a-z\d_-]*[a-z\d_])?)*$/

/** Reads `ALLOWED_HOSTS`: comma-separated names and addresses, without ports. */
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

/** Where a process serves its metrics, and under which hosts beside loopback. */
export interface MetricsPlace {
  readonly host: string
  readonly port: number
  readonly names: readonly string[]
}

/** Returns the hosts that the settings name, for a server that listens on `host`. */
export function namesOf(
  settings: { readonly ALLOWED_HOSTS: readonly string[]; readonly PUBLIC_URL?: string | undefined },
  host: string,
): string[] {
  const { ALLOWED_HOSTS: allowed, PUBLIC_URL: url } = settings
  const named = url === undefined ? [] : [new URL(url).hostname]
  return [...allowed, ...[host, ...named].map(bareHost)]
}

/**
 * Reads the host of a `Host` header, in the form of `bareHost`. Returns null if the header has another form, for example
 * with a user name before the host.
 */
export function hostIn(header: string): string | null {
  const [, host] = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d{0,5})?$/i.exec(header) ?? []
  return host === undefined ? null : bareHost(host)
}

/** Whether a host is `localhost` or a loopback address. */
function isLoopback(host: string): boolean {
  if (host === 'localhost') return true
  return isIP(host) !== 0 && ipaddr.process(host).range() === 'loopback'
}

/**
 * Whether a request with this `Host` header is meant for this service. `names` are the hosts that the settings name, and
 * `reached` is the address of this machine at which the connection arrived. The port does not matter, because a page
 * that has rebound its name still has the name of a stranger.
 */
export function isOwnHost(names: ReadonlySet<string>, header: string, reached: string | undefined): boolean {
  const host = hostIn(header)
  if (host === null) return false
  return names.has(host) || isLoopback(host) || isAddressOf(host, reached)
}

/** A browser sends an address as `Host` only if the page itself came from this address, so no name was rebound. */
function isAddressOf(host: string, reached: string | undefined): boolean {
  if (isIP(host) === 0 || reached === undefined || !ipaddr.isValid(reached)) return false
  return ipaddr.process(host).toNormalizedString() === ipaddr.process(reached).toNormalizedString()
}
