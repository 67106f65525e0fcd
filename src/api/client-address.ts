import { isIP } from 'node:net'
import type { Request } from 'express'

/*
 * Who sent a request, and how: what its connection says, or, where that is one of TRUSTED_PROXY_HOSTS, what the proxy says
 * in `X-Forwarded-For` and `X-Forwarded-Proto`. From anybody else these headers are a client's own words, and not read.
 */

/**
 * The client's address: the last one in the chain of `X-Forwarded-For` that is no trusted proxy. An IPv4 address in its
 * own form, also where IPv6 carried it. Where a trusted proxy names no address, the proxy's own.
 */
export function addressOf(request: Request): string | null {
  return readAddress(request.ip) ?? readAddress(request.socket.remoteAddress)
}

/** Whether the client itself spoke TLS. */
export function schemeOf(request: Request): 'http' | 'https' {
  return request.protocol === 'https' ? 'https' : 'http'
}

/** Some proxies name the client's port too. */
function readAddress(text: string | undefined): string | null {
  if (text === undefined) return null
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$/.exec(text) ?? []
  const address = (bracketed ?? plain ?? text).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')
  return isIP(address) === 0 ? null : address
}
