import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { emulatorToken, startEmulator, type Emulator } from './emulators.ts'

/**
 * Emulate's Slack. It keeps the metadata of messages, and always shows them. It ignores `oldest` and pages of threads,
 * has no `previous_names`, and knows a channel's name only without `#`, which is taken off here.
 */
export async function startSlack(seed: Record<string, unknown> = {}): Promise<Emulator> {
  const emulator = await startEmulator('slack', seed)
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
        .toString()
        .replace(/(^|&)channel=%23/, '$1channel=')
      const { authorization = '', 'content-type': type = 'application/json' } = request.headers
      fetch(`${emulator.url}${request.url}`, {
        method: 'POST',
        headers: { authorization, 'content-type': type },
        body,
      })
        .then(async (answer) => {
          const text = await answer.text()
          response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
        })
        .catch(() => response.destroy())
    })
  })
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

/** What Slack says to a method of its API. */
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
