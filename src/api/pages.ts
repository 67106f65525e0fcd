import express, { type Request, type Response, type Router } from 'express'
import type { Context } from '../governance/context.ts'
import { sendAnswer } from './send.ts'

/**
 * Pages for a person who opens the base address in a browser. They are not routes of the API: they need no key,
 * answer without a prefix and show nothing that needs a key.
 */
export function pages(context: Pick<Context, 'config'>): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  router.get('/', (request, response) => {
    response.setHeader('Vary', 'Accept')
    if (wantsPage(request)) sendTo(response, '/console/')
    else sendAnswer(response, { status: 200, body: pointer(context) })
  })
  router.get('/console', (_request, response) => sendTo(response, '/console/'))
  return router
}

/**
 * True if the `Accept` header names `text/html`, as a browser does. A wildcard, which other programs send, does not
 * count.
 */
function wantsPage(request: Request): boolean {
  return (request.headers.accept ?? '').split(',').some((each) => {
    const [type = '', ...parameters] = each.split(';').map((part) => part.trim().toLowerCase())
    return type === 'text/html' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter))
  })
}

function sendTo(response: Response, place: string): void {
  response.status(302).setHeader('Location', place)
  response.end()
}

function pointer({ config }: Pick<Context, 'config'>): Record<string, string> {
  const docs = config.http.docs ? { docs: '/docs', openapi: '/openapi.json' } : {}
  return { name: 'Countersign', api: '/api/v1', health: '/health', console: '/console/', ...docs }
}
