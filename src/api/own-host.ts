import type { IncomingMessage } from 'node:http'
import type { RequestHandler } from 'express'
import type { Context } from '../governance/context.ts'
import { isOwnHost } from '../shared/own-hosts.ts'
import { ApiError } from './errors.ts'

/**
 * Refuses requests that name another host than this service (docs/decisions/0273). All other parts of the application
 * come after this check.
 */
export function ownHost({ config, sparseLog }: Pick<Context, 'config' | 'sparseLog'>): RequestHandler {
  const names = new Set(config.http.names)
  return (request, _response, next) => {
    const trusts = request.app.get('trust proxy fn') as (address: string, distance: number) => boolean
    const foreign = foreignHost(names, request, trusts(request.socket.remoteAddress ?? '', 0))
    if (foreign === null) return next()
    const host = foreign.slice(0, 100)
    sparseLog.warn('foreign host', { host }, 'a request was refused: ALLOWED_HOSTS does not name its host')
    next(misdirected(host))
  }
}

/**
 * Returns the first host of the request that is not one of ours, or null. A proxy that we trust may have replaced `Host`
 * with its own name for this service. `X-Forwarded-Host` then has what the client sent, so this must be ours too. An
 * address in the first line of a request can also name a host.
 */
export function foreignHost(
  names: ReadonlySet<string>,
  { headers, socket, url = '' }: IncomingMessage,
  isFromProxy = false,
): string | null {
  const reached = socket.localAddress
  const isForeign = (host: string): boolean => !isOwnHost(names, host, reached)
  const host = headers.host ?? ''
  if (isForeign(host)) return host
  if (!url.startsWith('/') && url !== '*') {
    const [, named = ''] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url) ?? []
    if (isForeign(named)) return named
  }
  const forwarded = isFromProxy ? headers['x-forwarded-host'] : undefined
  return forwarded === undefined
    ? null
    : (String(forwarded)
        .split(',')
        .map((each) => each.trim())
        .find(isForeign) ?? null)
}

const misdirected = (host: string): ApiError =>
  new ApiError(
    'misdirected_request',
    `\`${host}\` is not a name of this service: use the address in PUBLIC_URL, or ask the operator to add this host to ALLOWED_HOSTS`,
  )
