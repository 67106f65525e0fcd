import express, { type Express, type NextFunction, type Request, type Response, type Router } from 'express'
import type { Context, Telling } from '../governance/context.ts'
import { createAuth } from './auth.ts'
import { dispatch } from './dispatch.ts'
import { docsFiles } from './routes/docs.ts'
import { ApiError, errorBody, statusOf, toApiError } from './errors.ts'
import { sendPage, refusalPage, showsPage } from './routes/connections.ts'
import { observed, routeLocal, requestId, requestIdOf, ownHost } from './http-server.ts'
import { dropBody } from './body-bytes.ts'
import { splitKey, type Method, type Mounted, type Route, type Services } from './route.ts'
import { routes } from './routes/index.ts'
import { scimRouter } from './scim/router.ts'
import { sendAnswer } from './send.ts'
import '../shared/tsx.ts'

const { consoleRouter } = await import('./console/router.ts')

export const prefixes = ['/api/v1', '/v1', '/'] as const

/**
 * One router serves all prefixes, and all errors have one JSON format. Outside `context`, the application keeps only
 * caches and data of requests in progress.
 */
export function createApp(context: Context, services: Services): Express {
  const app = express()
  app.disable('x-powered-by')
  app.set('etag', false)
  app.set('query parser', false)
  app.set('case sensitive routing', true)
  app.set('trust proxy', [...context.config.http.trustedProxies])
  app.use(withHeaders)
  app.use(observed(context))
  app.use(ownHost(context))
  app.use(pages(context))
  if (context.config.http.docs) app.use(docsFiles())
  const auth = createAuth(context, services.mail)
  app.all('/api/auth/*splat', (request, response) => {
    response.locals[routeLocal] = '/api/auth/*'
    return auth.answer(request, response)
  })
  const mounted = { ...services, auth }
  app.use(consoleRouter(context, mounted))
  app.use('/scim/v2', scimRouter(context))
  const router = createRouter(context, mounted)
  for (const prefix of prefixes) app.use(prefix, router)
  app.use((request: Request) => {
    throw unknownRoute(request)
  })
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    sendError(context, error, request, response)
  })
  return app
}

function createRouter(context: Context, services: Mounted): Router {
  const router = express.Router({ caseSensitive: true })
  for (const [path, methods] of byPath(routes)) {
    router.all(path.replaceAll(/\{(\w+)\}/g, ':$1'), async (request, response) => {
      // Node does not send the body of a HEAD.
      const found = methods.get((request.method === 'HEAD' ? 'GET' : request.method) as Method)
      // The API never answers 405: a path without the method is 404, like an unknown one.
      if (found === undefined) throw unknownRoute(request)
      response.locals[routeLocal] = path
      await dispatch(found, context, services, request, response)
    })
  }
  return router
}

function byPath(all: readonly Route[]): Map<string, Map<Method, Route>> {
  const paths = new Map<string, Map<Method, Route>>()
  for (const route of all) {
    const { method, path } = splitKey(route.key)
    paths.set(path, (paths.get(path) ?? new Map<Method, Route>()).set(method, route))
  }
  return paths
}

function withHeaders(request: Request, response: Response, next: NextFunction): void {
  response.setHeader('X-Request-Id', requestId(request.headers['x-request-id']))
  response.setHeader('X-Content-Type-Options', 'nosniff')
  response.setHeader('X-Frame-Options', 'DENY')
  response.setHeader('Referrer-Policy', 'no-referrer')
  response.setHeader('Cache-Control', 'no-store')
  next()
}

const unknownRoute = (request: Request): ApiError =>
  new ApiError(
    'not_found',
    `no route answers \`${request.method} ${(request.originalUrl.split('?', 1)[0] ?? '').slice(0, 200)}\``,
  )

function sendError(context: Telling, thrown: unknown, request: Request, response: Response): void {
  // For a path that cannot be decoded (`%E0%A4%A`).
  const error =
    thrown instanceof URIError
      ? new ApiError('bad_request', 'the path is not valid percent-encoding')
      : toApiError(thrown)
  const id = requestIdOf(response)
  if (error.code === 'internal')
    context.log.error({ err: thrown, request_id: id, method: request.method }, 'a request failed')
  if (error.code === 'unavailable')
    context.sparseLog.warn('unavailable', { err: thrown, request_id: id }, 'a request could not be served')
  if (response.headersSent) {
    response.destroy()
    return
  }
  response.status(statusOf[error.code])
  if (error.code === 'unauthenticated') response.setHeader('WWW-Authenticate', 'Bearer')
  if (error.retryAfter !== undefined) response.setHeader('Retry-After', String(error.retryAfter))
  if (showsPage(request, response.locals[routeLocal])) {
    sendPage(response, refusalPage(error))
    return
  }
  response.setHeader('Content-Type', 'application/json; charset=utf-8')
  const text = JSON.stringify(errorBody(error, id))
  if (error.code !== 'too_large') {
    response.end(text)
    return
  }
  // A part of the body may stay unread, so the connection cannot be used again.
  response.setHeader('Connection', 'close')
  void dropBody(request).then(() => response.end(text))
}

/**
 * `/` and `/console` lead a browser to the console. At `/`, other programs get a list of addresses. They need no key,
 * exist only without a prefix, and show nothing that needs a key.
 */
function pages(context: Pick<Context, 'config'>): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  router.get('/', (request, response) => {
    response.setHeader('Vary', 'Accept')
    if (wantsPage(request)) sendTo(response, '/console/')
    else sendAnswer(response, { status: 200, body: pointer(context) })
  })
  router.get('/console', (_request, response) => sendTo(response, '/console/'))
  return router
}

/** As browsers do. A wildcard does not count, because other programs send one. */
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
