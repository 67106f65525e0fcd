import { createServer, request as askServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { emulatorToken, spareToken, startEmulator, type Emulator } from './emulators.ts'
import { issuesOf } from './slack-described.ts'

/**
 * The server keeps an idle connection open for this many milliseconds. A client closes its connection earlier, even on
 * a busy machine. So a client never sends a request over a connection that the server is closing.
 */
const keepAlive = 60_000
/** This is enough tokens for the 10,000 messages of `MANY_MESSAGES=1`, with four requests for each message. */
const spareTokens = 16

/**
 * Starts a stand-in for Slack: the Slack emulator of the package `emulate`, with a proxy in front. The emulator stores
 * the metadata of messages, and always shows them. It ignores `oldest` and pages of threads, and has no
 * `previous_names`. The emulator knows the name of a channel only without `#`, so the proxy removes the `#`. The proxy
 * uses the administrator's tokens in turn, so that no test reaches the hourly limit of a token. If Slack's client sends
 * a request that Slack does not describe (slack-described.ts), the proxy answers with the status 418.
 */
export async function startSlack(seed: Record<string, unknown> = {}): Promise<Emulator> {
  const emulator = await startEmulator('slack', seed, spareTokens)
  let turn = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
        .toString()
        .replace(/(^|&)channel=%23/, '$1channel=')
      const { authorization: own = '', 'content-type': type = 'application/json' } = request.headers
      const authorization =
        own === `Bearer ${emulatorToken}` ? `Bearer ${spareToken((turn += 1) % spareTokens)}` : own
      // Only Slack's client sends forms. The tests themselves send JSON.
      const isOfClient = type.startsWith('application/x-www-form-urlencoded')
      const issues = isOfClient ? issuesOf((request.url ?? '').replace('/api/', ''), body) : []
      if (issues.length > 0) {
        response.writeHead(418, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ ok: false, error: issues.join('; ') }))
        return
      }
      const headers = { authorization, 'content-type': type, 'content-length': Buffer.byteLength(body) }
      // Each request gets its own connection. Otherwise the emulator could close an open connection just when a request
      // uses it.
      const asked = askServer(`${emulator.url}${request.url}`, { method: 'POST', agent: false, headers })
      asked.on('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, { 'content-type': 'application/json' })
        answer.on('error', () => response.destroy()).pipe(response)
      })
      asked.on('error', () => response.destroy())
      asked.end(body)
    })
  })
  server.keepAliveTimeout = keepAlive
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => void server.close(resolve))
      await emulator.close()
    },
  }
}

export interface SlackChannel {
  readonly id: string
  readonly name: string
  readonly is_private: boolean
  readonly purpose: { readonly value: string }
}
export interface SlackMessage {
  readonly ts: string
  readonly text: string
  readonly metadata?: unknown
}

/** Calls a method of Slack's API and returns the answer. Throws an error if the answer is not `ok`. */
export async function askSlack(base: string, method: string, body: object): Promise<SlackAnswer> {
  const answer = await fetch(`${base}/${method}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${emulatorToken}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const said = (await answer.json()) as SlackAnswer & { ok: boolean; error?: string }
  if (!said.ok) throw new Error(`${method}: ${said.error}`)
  return said
}

interface SlackAnswer {
  readonly channels: readonly SlackChannel[]
  readonly channel: SlackChannel
  readonly members: readonly { readonly id: string; readonly name: string }[]
  readonly messages: readonly SlackMessage[]
  readonly ts: string
}
