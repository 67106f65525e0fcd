import express, { type Express, type NextFunction, type Request, type Response, type Router } from 'express'
import type { Context } from '../governance/context.ts'
import { splitKey, type Method } from './access.ts'
import { createAuth } from './auth.ts'
import { consoleRouter } from './console/router.ts'
import { dispatch } from './dispatch.ts'
import { docsFiles } from './docs-page.ts'
import { ApiError, errorBody, statusOf, toApiError } from './errors.ts'
import { sendPage } from './html-page.ts'
import { observed, routeLocal } from './observed.ts'
import { ownHost } from './own-host.ts'
import { pages } from './pages.ts'
import { dropBody } from './refused-body.ts'
import { requestId, requestIdOf } from './request-id.ts'
import type { Mounted, Route, Services } from './route.ts'
import { refusalPage, showsPage } from './routes/connection-callback.ts'
import { routes } from './routes/index.ts'

/** Every route can be called with each of these prefixes before its path. */
export const prefixes = ['/api/v1', '/v1', '/'] as const

/**
 * Creates the HTTP application. The same router serves all prefixes, and all errors of the API have one JSON format.
 * Outside `context`, the application keeps only caches and data of requests that are in progress.
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
      // A HEAD request is handled like GET, and Node does not send the body.
      const found = methods.get((request.method === 'HEAD' ? 'GET' : request.method) as Method)
      // If a path does not have the method of a request, the answer is 404. An unknown path gets the same answer. The
      // API never answers 405.
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

function sendError(
  context: Pick<Context, 'log' | 'sparseLog'>,
  thrown: unknown,
  request: Request,
  response: Response,
): void {
  // A URIError is thrown for a path that cannot be decoded (`%E0%A4%A`).
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
  // A part of the request body may stay unread, so the connection cannot be used again.
  response.setHeader('Connection', 'close')
  void dropBody(request).then(() => response.end(text))
}
