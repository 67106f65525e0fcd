import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { answerGitHub, type Answer } from './github.ts'
import { openKeeper, type Keeper } from './kept.ts'
import { pageOf } from './page.ts'
import { answerSlack } from './slack.ts'

/*
 * Stand-ins for GitHub and Slack on this machine, which `npm start` runs in development alone: `/github` and `/slack`
 * answer the calls of our tools, and every other address shows what was posted.
 */

/** What the connections send. A real token is refused, so that nobody leaves one here. */
export const standInToken = 'stand-in'

const mostBytes = 1_000_000

export interface StandIns {
  readonly url: string
  close(): Promise<void>
}

export async function startStandIns(options: { dataDir: string; port: number }): Promise<StandIns> {
  const keeper = openKeeper(options.dataDir)
  const url = `http://127.0.0.1:${options.port}`
  const server = createServer((request, response) => {
    answer(keeper, url, request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port: options.port, host: '127.0.0.1' }, resolve)
  })
  return {
    url,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
}

async function answer(
  keeper: Keeper,
  url: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // A page of another site could give its own name to this address.
  if (request.headers.host !== new URL(url).host) return void response.writeHead(421).end()
  const { pathname, searchParams: query } = new URL(request.url ?? '/', url)
  const [, service, path] = /^\/(github|slack)(\/.*)$/.exec(pathname) ?? []
  if (service === undefined || path === undefined) return sendPage(keeper, request, response)
  const method = request.method ?? 'GET'
  const asked = { method, path, query, body: bodyIn(request, await textOf(request)) }
  send(response, isKnown(request) ? answerOf(keeper, url, service, asked) : unknownTo(service))
}

const answerOf = (
  keeper: Keeper,
  url: string,
  service: string,
  asked: Parameters<typeof answerGitHub>[2],
): Answer => (service === 'github' ? answerGitHub(keeper, url, asked) : answerSlack(keeper, asked))

const isKnown = ({ headers }: IncomingMessage): boolean =>
  /^(?:bearer|token) (.*)$/i.exec(headers.authorization ?? '')?.[1] === standInToken

const unknownTo = (service: string): Answer =>
  service === 'github'
    ? { status: 401, body: { message: 'Bad credentials' } }
    : { status: 200, body: { ok: false, error: 'invalid_auth' } }

function sendPage({ kept }: Keeper, { method }: IncomingMessage, response: ServerResponse): void {
  if (method !== 'GET') return void response.writeHead(405).end()
  response
    .writeHead(200, {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
      'x-content-type-options': 'nosniff',
    })
    .end(pageOf(kept))
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    length += (chunk as Buffer).length
    if (length > mostBytes) throw new Error('the body is too large')
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** JSON, as GitHub takes it, or a form, as Slack takes it. */
function bodyIn({ headers }: IncomingMessage, text: string): Readonly<Record<string, unknown>> {
  if (text === '') return {}
  if (headers['content-type']?.includes('urlencoded') === true)
    return Object.fromEntries(new URLSearchParams(text))
  const value: unknown = JSON.parse(text)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function send(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
