import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Dialect, Script, ToolResult } from './script.ts'

/** The server that plays the model for one client. */
export interface PlayedModel {
  /** `http://127.0.0.1:PORT`. */
  readonly url: string
  /**
   * The results that the model has read so far, in the order of the calls. Each result has the name of its script, so a
   * subagent's results have the name of the subagent's script.
   */
  results(): readonly ToolResult[]
  /** The requests that the model got, for the message of a failed test. */
  readonly requests: readonly string[]
  /** Fails if a turn of the script has failed. */
  close(): Promise<void>
}

/** Plays `script` on a free port of this machine. */
export async function playModel(dialect: Dialect, script: Script): Promise<PlayedModel> {
  const results = new Map<string, ToolResult>()
  const requests: string[] = []
  const failures: unknown[] = []
  let answers = 0
  const server = createServer((request, response) => {
    const play = async (): Promise<void> => {
      const body = await bodyOf(request)
      const path = request.url ?? ''
      const conversation = body === null ? null : dialect.read(path, body)
      if (conversation === null) {
        requests.push(`${request.method} ${path}`)
        // Requests for titles, token counts and the like. Every client continues without an answer to them.
        response
          .writeHead(404, { 'content-type': 'application/json' })
          .end('{"error":{"message":"not played"}}')
        return
      }
      const name = /play (\w+)/.exec(conversation.words)?.[1] ?? 'main'
      requests.push(`${name} turn ${conversation.turns}`)
      for (const [id, result] of conversation.results) results.set(id, { script: name, ...result })
      const turn = script[name]?.[conversation.turns] ?? []
      const read = [...results.values()].filter((result) => result.script === name)
      const calls = typeof turn === 'function' ? await turn(read) : turn
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(dialect.answer(calls, `${name}${++answers}`))
    }
    play().catch((error: unknown) => {
      failures.push(error)
      response.destroy()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    results: () => [...results.values()],
    requests,
    close: () =>
      new Promise((resolve, reject) => {
        server.close(() => (failures.length > 0 ? reject(failures[0]) : resolve()))
        server.closeAllConnections()
      }),
  }
}

/** The body as JSON; null if there is none. */
async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const body = await text(request)
  return body === '' ? null : JSON.parse(body)
}
