import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/* A server that answers what a test says, and keeps what it was sent. */

/** Tests read bodies as untyped JSON, like a server that knows nothing of them. */
// oxlint-disable-next-line typescript/no-explicit-any
type Body = any

export interface Sent {
  readonly path: string
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Body
}

export interface StandIn {
  readonly url: string
  /** What was sent since `begin`. */
  sent: Sent[]
  /** By method and path, without `/api/v1`. Others are 404. null: no answer comes. */
  answers: Record<string, (body: Body) => readonly [status: number, answer: unknown] | null>
  /** Forgets what was sent, and answers only `GET /me`. */
  begin(): void
  close(): Promise<void>
}

export async function startStandIn(): Promise<StandIn> {
  const server = createServer((request, response) => {
    void (async () => {
      const body: Body = request.method === 'POST' ? await json(request).catch(() => null) : null
      const path = `${request.method} ${(request.url ?? '').replace('/api/v1', '').split('?', 1)[0]}`
      standIn.sent.push({ path, headers: request.headers, body })
      const unknown = { code: 'not_found', message: `no route answers \`${path}\``, details: [] }
      const { [path]: answered = () => [404, { error: unknown }] as const } = standIn.answers
      const given = answered(body)
      if (given === null) return
      const [status, answer] = given
      const more = status === 302 ? { location: 'https://elsewhere.example/' } : {}
      response.writeHead(status, { 'content-type': 'application/json', ...more })
      response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
    })()
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const standIn: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent: [],
    answers: {},
    begin() {
      standIn.sent = []
      standIn.answers = { 'GET /me': () => [200, { organization_id: 'org_1' }] }
    },
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return standIn
}
