import { lookup as systemLookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { Agent, buildConnector } from 'undici'
import { millisecondsSince, presentMoment } from '../moment.ts'
import { bareHost, isNamed, isPublicAddress, type NamedHost } from './hosts.ts'

/** Private or loopback, and not named by the operator. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress'
  readonly code = 'ERR_REFUSED_ADDRESS'
}

/** No byte of a request has left. */
export class ConnectFailed extends Error {
  override readonly name = 'ConnectFailed'
}

export interface GuardedAgentOptions {
  readonly hosts: readonly NamedHost[]
  /** For tests. */
  readonly lookup?: LookupFunction
}

const connectMilliseconds = 10_000
const idleMilliseconds = 10_000

/**
 * Only to public addresses and to hosts that the operator named. The name server is asked once for each connection, and
 * the checked address is the one connected to, so a name whose address changes between two look-ups gains nothing.
 */
export function createGuardedAgent({ hosts, lookup = systemLookup }: GuardedAgentOptions): Agent {
  // HTTP/1.1 alone: on a shared connection, an aborted request would leave the others in doubt.
  const common = { timeout: connectMilliseconds, allowH2: false } as const
  const anywhere = buildConnector({ ...common, lookup })
  const inPublic = buildConnector({ ...common, lookup: publicOnly(lookup) })
  return new Agent({
    connect(options, done) {
      const started = presentMoment()
      const callback: buildConnector.Callback = (...[error, socket]) => {
        if (error !== null) return done(new ConnectFailed('', { cause: error }), null)
        // In a process that was stopped for a while, this can run before the timer that should have ended the attempt.
        if (millisecondsSince(started) <= connectMilliseconds) return done(null, socket)
        socket.destroy()
        done(new ConnectFailed('', { cause: new Error('the connection took too long') }), null)
      }
      const host = bareHost(options.hostname)
      const port = Number(options.port || (options.protocol === 'http:' ? 80 : 443))
      if (isNamed(hosts, host, port)) return anywhere(options, callback)
      // An IP address is never looked up, so `publicOnly` would not see it.
      if (isIP(host) !== 0 && !isPublicAddress(host)) return callback(new RefusedAddress(refusal), null)
      return inPublic(options, callback)
    },
    allowH2: false,
    keepAliveTimeout: idleMilliseconds,
    keepAliveMaxTimeout: idleMilliseconds,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 32 * 1024,
  })
}

const refusal = 'the address is not public'

/** If any of its addresses is not public. */
function publicOnly(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, '', 0)
      const addresses = Array.isArray(found) ? found : []
      if (addresses.length === 0 || addresses.some(({ address }) => !isPublicAddress(address)))
        return callback(new RefusedAddress(refusal), '', 0)
      if (options.all === true) return callback(null, addresses)
      const [first] = addresses
      return callback(null, first?.address ?? '', first?.family)
    })
}
