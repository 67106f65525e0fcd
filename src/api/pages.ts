import express, { type Request, type Response, type Router } from 'express'
import type { Context } from '../context.ts'
import { idPrefixes } from '../contract/ids.ts'
import { authPage, invitationPage, resetPage } from './auth-pages.ts'
import { secondFactorPage } from '../governance/people/second-factor.ts'
import { consolePage } from './console-page.ts'
import { sendPage } from './html-page.ts'
import { sendAnswer } from './send.ts'

const approvalId = new RegExp(`^${idPrefixes.approval}_[0-9A-HJKMNP-TV-Z]{26}$`)

/**
 * What a person meets who opens the base address in a browser (contract section 1). Not routes of the API: they need no
 * key, answer at the root alone and tell nothing that only a caller may know.
 */
export function pages(context: Context): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  router.get('/', (request, response) => {
    response.setHeader('Vary', 'Accept')
    if (wantsPage(request)) sendTo(response, '/console/')
    else sendAnswer(response, { status: 200, body: pointer(context) })
  })
  router.get('/console', (_request, response) => sendTo(response, '/console/'))
  router.get('/console/', (_request, response) => sendPage(response, consolePage(context.config, null)))
  router.get('/console/approvals/:id', (request, response, next) => {
    const { id } = request.params
    // What is no id names no page: on to the 404 of every unknown path.
    if (!approvalId.test(id)) next()
    else sendPage(response, consolePage(context.config, id))
  })
  for (const path of [secondFactorPage, resetPage, invitationPage])
    router.get(path, (request, response) => {
      const query = new URLSearchParams(request.originalUrl.split('?', 2)[1] ?? '')
      sendPage(response, authPage(context.config, path, query.get('token')))
    })
  return router
}

/** A browser names `text/html` itself; a program's `*` + `/*` does not mean a page. */
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

function pointer({ config }: Context): Record<string, string> {
  const docs = config.http.docs ? { docs: '/docs', openapi: '/openapi.json' } : {}
  return { name: 'Countersign', api: '/api/v1', health: '/health', console: '/console/', ...docs }
}
