import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/*
 * A stand-in of GitHub on this machine, for the three requests that create and find an issue. Like GitHub, it accepts
 * no idempotency key, so a repeated request would create a second issue.
 */

export interface HostedIssue {
  readonly number: number
  readonly title: string
  readonly body: string
  readonly html_url: string
  readonly created_at: string
}

export interface CodeHost {
  readonly url: string
  readonly issues: readonly HostedIssue[]
  looks: number
  close(): Promise<void>
}

export const repo = 'larkspur/pump-control'

/** When the first issue has been created, the stand-in calls `lost` and breaks the connection instead of answering. */
export async function startCodeHost(lost: () => void): Promise<CodeHost> {
  const issues: HostedIssue[] = []
  const create = ({ title, body }: { title?: unknown; body?: unknown }): HostedIssue => {
    const number = issues.length + 1
    const issue: HostedIssue = {
      number,
      title: String(title),
      body: String(body),
      html_url: `https://github.com/${repo}/issues/${number}`,
      created_at: new Date().toISOString(),
    }
    issues.push(issue)
    return issue
  }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { pathname } = new URL(request.url ?? '', 'http://stand-in')
    const asked = `${request.method} ${pathname}`
    const body = await bodyOf(request)
    if (asked === `POST /repos/${repo}/issues`) {
      const issue = create(JSON.parse(body) as object)
      if (issue.number > 1) return send(response, 201, issue)
      lost()
      return void request.socket.destroy()
    }
    if (asked === `GET /repos/${repo}/issues`) {
      host.looks += 1
      return send(response, 200, issues.toReversed())
    }
    if (asked === 'GET /user') return send(response, 200, { login: 'stand-in' })
    send(response, 404, { message: 'Not Found' })
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const host: CodeHost = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    issues,
    looks: 0,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
  return host
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    length += (chunk as Buffer).length
    if (length > 100_000) throw new Error('the body is too large')
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
