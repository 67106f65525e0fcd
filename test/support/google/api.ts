import type { EmulatorContext } from 'emulate'
import {
  described,
  type Described,
  issuesOfAnswer,
  issuesOfRequest,
  masked,
  type Method,
} from './described.ts'

/** A refusal in the format of Google's answers. */
export class Refused extends Error {
  readonly status: number
  readonly reason: string
  constructor(status: number, reason: string) {
    super(reason)
    this.status = status
    this.reason = reason
  }
}

/** One request to a method, parsed as Google's description says. */
export interface Asked {
  readonly path: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly body: unknown
  /** The content of an upload. Is null if the request is not an upload. */
  readonly media: { readonly type: string; readonly text: string } | null
}

export type Handlers = Readonly<Record<string, (asked: Asked) => unknown>>

type App = EmulatorContext<object>['app']

/**
 * Serves the methods of one API. If a request or its answer contradicts the API's description, the client gets the
 * status 418.
 */
export function serve(app: App, name: Parameters<typeof described>[0], handlers: Handlers): void {
  const api = described(name)
  for (const [id, handle] of Object.entries(handlers)) {
    const method = api.methods.find((each) => each.id === id)
    if (method === undefined) throw new Error(`${name} does not describe ${id}`)
    const paths = [method.path, ...(method.uploadPath === undefined ? [] : [method.uploadPath])]
    for (const path of paths) {
      const [pattern, read] = patternOf(path)
      app.on(method.httpMethod, pattern, async (c, next) => {
        const params = read(decodeURIComponent(new URL(c.req.url).pathname))
        if (params === null) return next()
        try {
          const asked = await askedOf(c.req.raw, params)
          return c.json(answerOf(api, method, asked, handle))
        } catch (error) {
          const { status, reason } = error instanceof Refused ? error : new Refused(500, String(error))
          return c.json({ error: { code: status, message: reason, errors: [{ reason }] } }, status)
        }
      })
    }
  }
}

function answerOf(api: Described, method: Method, asked: Asked, handle: Handlers[string]): unknown {
  const issues = issuesOfRequest(api, method, asked)
  // Google would answer 400, but a test could mistake 400 for the refusal that it expects.
  if (issues.length > 0) throw new Refused(418, `${method.id}: ${issues.join('; ')}`)
  const answer = handle?.(asked)
  const wrong = issuesOfAnswer(api, method, answer)
  if (wrong.length > 0) throw new Refused(418, `${method.id}: ${wrong.join('; ')}`)
  return masked(answer, asked.query.get('fields'))
}

/**
 * Returns the router's pattern for a path such as `/v4/spreadsheets/{id}:batchUpdate`. Also returns a function that
 * reads the parameters of a real path. The function returns null for a path that does not match.
 */
function patternOf(path: string): [string, (path: string) => Record<string, string> | null] {
  const names = [...path.matchAll(/\{\+?(\w+)\}/g)].map(([, name = '']) => name)
  const form = new RegExp(`^${path.replaceAll(/\{\+?\w+\}/g, '([^/]+?)')}$`)
  const read = (text: string) => {
    const found = form.exec(text)
    return found === null
      ? null
      : Object.fromEntries(names.map((name, index) => [name, found[index + 1] ?? '']))
  }
  let count = 0
  const pattern = path
    .split('/')
    .map((part) => (part.includes('{') ? `:p${(count += 1)}` : part))
    .join('/')
  return [pattern, read]
}

async function askedOf(request: Request, path: Asked['path']): Promise<Asked> {
  const query = new URL(request.url).searchParams
  const text = await request.text()
  const type = request.headers.get('content-type') ?? ''
  const boundary = /^multipart\/related; boundary=(\S+)$/.exec(type)?.[1]
  if (boundary === undefined)
    return { path, query, body: text === '' ? undefined : (JSON.parse(text) as unknown), media: null }
  const parts = text.split(`--${boundary}`).slice(1, 3).map(partOf)
  const [metadata, media] = parts
  return { path, query, body: JSON.parse(metadata?.text ?? '') as unknown, media: media ?? null }
}

function partOf(part: string): { type: string; text: string } {
  const [head = '', ...rest] = part.replace(/^\r\n/, '').split('\r\n\r\n')
  const text = rest.join('\r\n\r\n').replace(/\r\n$/, '')
  return { type: /^content-type: (.+)$/im.exec(head)?.[1]?.trim() ?? '', text }
}
