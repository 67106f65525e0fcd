import { isIP } from 'node:net'
import type { Request } from 'express'

/*
 * The sender's address and scheme. If one of TRUSTED_PROXY_HOSTS opened the connection, they come from the headers
 * `X-Forwarded-For` and `X-Forwarded-Proto`. Otherwise these headers are ignored, and the connection itself gives both.
 */

/**
 * The client's address is the last address in `X-Forwarded-For` that is not a trusted proxy. An IPv4 address that is
 * written as IPv6 (`::ffff:`) is converted to an ordinary IPv4 address. If a trusted proxy names no address, the result
 * is the proxy's own address.
 */
export function addressOf(request: Request): string | null {
  return readAddress(request.ip) ?? readAddress(request.socket.remoteAddress)
}

/** The scheme that the client used, also if a trusted proxy does TLS. */
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
