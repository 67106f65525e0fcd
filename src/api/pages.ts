import express, { type Request, type Response, type Router } from 'express'
import type { Context } from '../governance/context.ts'
import { sendAnswer } from './send.ts'

/**
 * Creates the pages at the base address and at `/console`. Both lead a browser to the console. At the base address,
 * other programs get a list of addresses. These pages are not routes of the API: they need no key, exist only without a
 * prefix, and show nothing that needs a key.
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
 * Returns whether the `Accept` header names `text/html`, as browsers do. A wildcard does not count, because other
 * programs send one.
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
