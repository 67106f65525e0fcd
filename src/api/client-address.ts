import { isIP } from 'node:net'
import type { Request } from 'express'

/*
 * The address and the scheme of a client. If one of TRUSTED_PROXY_HOSTS opened the connection, both are taken from the
 * headers `X-Forwarded-For` and `X-Forwarded-Proto`. Otherwise these headers are ignored, and the connection itself
 * tells address and scheme.
 */

/**
 * Returns the client's address. Behind a trusted proxy, this is the last address in `X-Forwarded-For` that is not a
 * trusted proxy. If a trusted proxy names no address, this is the proxy's own address. An IPv4 address that is written
 * as IPv6 is converted. Example: `::ffff:192.0.2.1` becomes `192.0.2.1`.
 */
export function addressOf(request: Request): string | null {
  return readAddress(request.ip) ?? readAddress(request.socket.remoteAddress)
}

/** Returns the scheme that the client used, even if a trusted proxy ends the TLS connection. */
export function schemeOf(request: Request): 'http' | 'https' {
  return request.protocol === 'https' ? 'https' : 'http'
}

/** Reads an address, with or without a port. Some proxies add the client's port. */
function readAddress(text: string | undefined): string | null {
  if (text === undefined) return null
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$/.exec(text) ?? []
  const address = (bracketed ?? plain ?? text).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')
  return isIP(address) === 0 ? null : address
}
