import { isIP } from 'node:net'
import type { Request } from 'express'

/*
 * The sender's address and scheme. They come from the connection. If the connection is one of TRUSTED_PROXY_HOSTS,
 * they come from `X-Forwarded-For` and `X-Forwarded-Proto`. From all others these headers are ignored.
 */

/**
 * The client's address: the last one in `X-Forwarded-For` that is not a trusted proxy. An IPv4 address keeps its own
 * form, also where IPv6 carried it. If a trusted proxy names no address, the proxy's own address.
 */
export function addressOf(request: Request): string | null {
  return readAddress(request.ip) ?? readAddress(request.socket.remoteAddress)
}

/** The scheme that the client itself used. */
export function schemeOf(request: Request): 'http' | 'https' {
  return request.protocol === 'https' ? 'https' : 'http'
}

/** Reads an address; some proxies add the client's port. */
function readAddress(text: string | undefined): string | null {
  if (text === undefined) return null
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$/.exec(text) ?? []
  const address = (bracketed ?? plain ?? text).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')
  return isIP(address) === 0 ? null : address
}
