import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { connect } from 'node:tls'
import type { Patience } from './patience.ts'

const answerTime = 5_000

/**
 * Waits until the health check of the API at `baseUrl` succeeds. If the patience is over first, throws an error with the
 * last answer. Also throws if `ending` is aborted.
 */
export async function healthy(baseUrl: string, ending: AbortSignal, patience: Patience): Promise<void> {
  const url = new URL('/health', baseUrl)
  const status = url.protocol === 'https:' ? statusOverTls : statusOf
  for (;;) {
    ending.throwIfAborted()
    const answer = await status(url).catch((error: Error) => error.message)
    if (answer === 200) return
    if (patience.isOver())
      throw new Error(`the API does not become healthy: \`${url.href}\` answers ${answer}`)
    await delay(100)
  }
}

async function statusOf(url: URL): Promise<number> {
  return (await fetch(url, { signal: AbortSignal.timeout(answerTime) })).status
}

/**
 * Returns the HTTP status of an answer over TLS. `fetch` would refuse the certificate, because the certificate is for a
 * public name and not for this local address. So this function opens its own connection and does not check the
 * certificate. The request contains no data, and the function reads only the status.
 */
async function statusOverTls({ hostname, port, pathname, host }: URL): Promise<number> {
  const socket = connect({ host: hostname, port: Number(port || 443), rejectUnauthorized: false })
  const signal = AbortSignal.timeout(answerTime)
  try {
    await once(socket, 'secureConnect', { signal })
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    const [head] = (await once(socket, 'data', { signal })) as [Buffer]
    return Number(head.toString('latin1').split(' ', 2)[1])
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}
