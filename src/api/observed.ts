import type { RequestHandler, Response } from 'express'
import type { Context } from '../governance/context.ts'
import { requestIdOf } from './request-id.ts'

/** The field of `response.locals` that holds the pattern of the route, such as `/runs/{id}`. */
export const routeLocal = 'route'

/** Only these methods become a label of a metric, because a client can send any text as the method. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/**
 * Counts each request by its method, the pattern of its route, and its status. Logs each request at the level `debug`.
 */
export function observed({ log, metrics }: Pick<Context, 'log' | 'metrics'>): RequestHandler {
  const isLogged = log.isLevelEnabled('debug')
  return (request, response, next) => {
    const startedAt = performance.now()
    response.once('close', () => {
      const method = methods.has(request.method) ? request.method : 'other'
      const route = routeOf(response)
      const status = response.writableEnded ? String(response.statusCode) : 'closed by the client'
      const milliseconds = performance.now() - startedAt
      metrics.requests.inc({ method, route, status })
      metrics.requestSeconds.observe({ route }, milliseconds / 1_000)
      if (isLogged)
        log.debug(
          { request_id: requestIdOf(response), method, route, status, duration_ms: Math.round(milliseconds) },
          'request',
        )
    })
    next()
  }
}

/** Returns the pattern of the route. Returns `other` if no pattern is stored, for example for an unknown path. */
const routeOf = ({ locals }: Response): string => {
  const route: unknown = locals[routeLocal]
  return typeof route === 'string' ? route : 'other'
}
