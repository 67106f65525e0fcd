import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { document } from '../../console/parts/layout.ts'
import { problemPage } from '../../console/pages/problem.ts'
import type { Person, Shown } from '../../console/visit.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { statusOf, toApiError } from '../errors.ts'
import { routeLocal } from '../observed.ts'
import type { Assets } from './assets.ts'

/**
 * The browser loads scripts and styles only from this service, and sends forms only to this service. No other site may
 * show a page in a frame.
 */
const policy = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Headers of every answer below `/console`. */
export const consoleHeaders: RequestHandler = (_request, response, next) => {
  response.setHeader('Content-Security-Policy', policy)
  // The API's answers have the policy `no-referrer`. With this policy, a browser would not send the origin of a form,
  // which `readForm` needs.
  response.setHeader('Referrer-Policy', 'same-origin')
  next()
}

/** The signed-in person whom the page names, and the token for the forms of the page. */
export interface Visitor {
  readonly person: Person
  readonly token: string
}

export function show(
  { request, response, assets }: { request: Request; response: Response; assets: Assets },
  shown: Shown,
  visitor: Visitor | null,
): void {
  if ('redirect' in shown) {
    sendTo(response, shown.redirect)
    return
  }
  if ('file' in shown) {
    const { name, value } = shown.file
    response.setHeader('Content-Disposition', `attachment; filename="${name.replaceAll(/[^\w.-]/g, '_')}"`)
    response.setHeader('Content-Type', 'application/json; charset=utf-8')
    response.end(canonicalJson(value))
    return
  }
  const frame = { person: visitor?.person ?? null, token: visitor?.token ?? '', assets }
  response.status(shown.status).setHeader('Content-Type', 'text/html; charset=utf-8')
  response.end(document(shown, { ...frame, place: request.originalUrl }))
}

/**
 * Redirects the browser to the address `place`. The browser loads this address by GET, even if it has just sent a form
 * by POST.
 */
export function sendTo(response: Response, place: string): void {
  response.status(303).setHeader('Location', place)
  response.end()
}

/**
 * Returns a handler that runs `work` and shows an error as a page. An internal error goes to the application's error
 * handler, which logs it.
 */
export function asPage(
  pattern: string,
  assets: Assets,
  work: (request: Request, response: Response) => Promise<void>,
) {
  return async (request: Request, response: Response, next: NextFunction): Promise<void> => {
    response.locals[routeLocal] = pattern
    try {
      await work(request, response)
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.code === 'internal' || response.headersSent) {
        next(thrown)
        return
      }
      if (error.retryAfter !== undefined) response.setHeader('Retry-After', String(error.retryAfter))
      // `unauthenticated` means here that the form came from another site or another session. Signing in again would
      // not help, so the status is 403.
      const status = error.code === 'unauthenticated' ? 403 : statusOf[error.code]
      const problem = { status, code: error.code, message: error.message }
      show({ request, response, assets }, problemPage(problem, request.originalUrl), null)
    }
  }
}
