import { createHmac, timingSafeEqual } from 'node:crypto'
import type { NextFunction, Request, RequestHandler, Response, Router } from 'express'
import { document } from '../../console/parts/layout.tsx'
import { problemPage, type Refusal } from '../../console/pages/plain.tsx'
import type { Person, Shown, Page } from '../../console/visit.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { statusOf, toApiError, ApiError } from '../errors.ts'
import { routeLocal } from '../http-server.ts'
import type { Context } from '../../governance/context.ts'
import { requireSameOrigin, type Auth, type AuthAnswer } from '../auth.ts'
import type { Mounted } from '../route.ts'
import type { Config } from '../../shared/config.ts'
import { createEntry } from '../../governance/limits/shares.ts'
import { readBytes } from '../body-bytes.ts'
import { enterUpload, readPageForm, type FormFile } from '../file-form.ts'
import type { Assets } from './assets.ts'
import { organizationId } from './visits.ts'

/** Scripts, styles and forms only of this service, and no frames of other sites. */
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
  // With the API's `no-referrer`, a browser would not send the origin of a form, which `readForm` needs.
  response.setHeader('Referrer-Policy', 'same-origin')
  next()
}

export function show(
  { request, response, assets }: { request: Request; response: Response; assets: Assets },
  shown: Shown,
  visitor: { person: Person; token: string; standIns: string | null } | null,
): void {
  if ('redirect' in shown) {
    sendTo(response, shown.redirect)
    return
  }
  if ('file' in shown) {
    const { file } = shown
    const name = file.name.replaceAll(/[^\w.-]/g, '_')
    response.setHeader('Content-Disposition', `attachment; filename="${name}"`)
    const isTable = 'rows' in file
    response.setHeader('Content-Type', `${isTable ? 'text/csv' : 'application/json'}; charset=utf-8`)
    response.end(isTable ? csvOf(file.rows) : canonicalJson(file.value))
    return
  }
  const frame = {
    person: visitor?.person ?? null,
    token: visitor?.token ?? '',
    assets,
    standIns: visitor?.standIns ?? null,
  }
  response.status(shown.status).setHeader('Content-Type', 'text/html; charset=utf-8')
  response.end(document(shown, { ...frame, place: request.originalUrl }))
}

/**
 * A program for tables would compute a text that begins like a formula, so such a text gets a quotation mark, also after
 * what another program may take for the end of a cell.
 */
const csvOf = (rows: readonly (readonly (string | number | null)[])[]): string =>
  rows
    .map((row) =>
      row
        .map((cell) => String(cell ?? ''))
        .map((text) => text.replaceAll(/(^|[;,|\t\r\n])(\s*[=+\-@\t\r])/g, "$1'$2"))
        .map((text) => `"${text.replaceAll('"', '""')}"`)
        .join(','),
    )
    .map((line) => `${line}\r\n`)
    .join('')

/** The browser loads `place` by GET, even if it has just sent a form. */
export function sendTo(response: Response, place: string): void {
  response.status(303).setHeader('Location', place)
  response.end()
}

/** Shows an error as a page. An internal one goes to the application's error handler, which logs it. */
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
      // The form came from another site or session: signing in again would not help.
      const status = error.code === 'unauthenticated' ? 403 : statusOf[error.code]
      const problem = { status, code: error.code, message: error.message }
      show({ request, response, assets }, problemPage(problem, request.originalUrl), null)
    }
  }
}

export interface OpenPages {
  readonly context: Context
  readonly services: Mounted
  get(path: string, work: (visit: OpenVisit) => Promise<void>): void
  /** A form of another site is refused with `unauthenticated`. */
  post(path: string, work: (visit: OpenVisit, sent: URLSearchParams) => Promise<void>): void
  /** A form of any site. It must change nothing, and the browser sends no cookie with it. */
  receive(path: string, work: (visit: OpenVisit, sent: URLSearchParams) => Promise<void>): void
}

export interface OpenVisit {
  readonly request: Request
  readonly response: Response
  show(page: Page): void
}

export function openPages(
  router: Router,
  { context, services, assets }: { context: Context; services: Mounted; assets: Assets },
): OpenPages {
  const visitOf = (request: Request, response: Response): OpenVisit => {
    // The address may contain a mailed token, but `readForm` needs the origin of forms.
    response.setHeader('Referrer-Policy', 'strict-origin')
    return { request, response, show: (page) => show({ request, response, assets }, page, null) }
  }
  return {
    context,
    services,
    get: (path, work) =>
      void router.get(
        path,
        asPage(path, assets, async (request, response) => work(visitOf(request, response))),
      ),
    post: (path, work) =>
      void router.post(
        path,
        asPage(path, assets, async (request, response) =>
          work(visitOf(request, response), await readForm(context.config, request)),
        ),
      ),
    receive: (path, work) =>
      void router.post(
        path,
        asPage(path, assets, async (request, response) =>
          work(visitOf(request, response), await readFields(request)),
        ),
      ),
  }
}

/** With the sign-in library's message; null if it accepted the request. */
export async function refusalOf(
  { answer }: AuthAnswer,
  response: Response,
  status = 401,
): Promise<Refusal | null> {
  if (answer.ok) return null
  const { message } = (await answer.json().catch(() => ({}))) as { message?: unknown }
  const wait = answer.headers.get('x-retry-after')
  if (wait !== null) response.setHeader('Retry-After', wait)
  return {
    status: answer.status === 429 ? 429 : status,
    message:
      typeof message === 'string' && message !== ''
        ? message.replaceAll(/\bemail\b/g, 'e-mail')
        : 'This did not work. Try again.',
  }
}

export const mailedToken = (given: string | null): string | null =>
  given !== null && /^[\w.-]{16,2000}$/.test(given) ? given : null

/** Six digits come from the authenticator app. Any other code is a backup code. */
export function proveFactor(auth: Auth, request: Request, sent: URLSearchParams): Promise<AuthAnswer> {
  const code = (sent.get('code') ?? '').replaceAll(/\s/g, '')
  const endpoint = /^\d{6}$/.test(code) ? 'verify-totp' : 'verify-backup-code'
  return auth.post(request, `/two-factor/${endpoint}`, { code })
}

/* Addresses contain a hash of the contents, so browsers may keep them. */

/** Bytes. The largest forms have a long comment, or name up to 200 approvals. */
const formLimit = 64 * 1024

/** Throws if the form comes from another site, by `Origin`, and by `Sec-Fetch-Site` if the browser sends it. */
export async function readForm(config: Config, request: Request): Promise<URLSearchParams> {
  requireOwnPage(config, request)
  return readFields(request)
}

export function requireOwnPage(config: Config, request: Request): void {
  const site = request.headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin')
    throw new ApiError(
      'unauthenticated',
      'this form was sent from another site: open the page here, and send it again',
    )
  requireSameOrigin(config, request)
}

export async function readFields(request: Request, most = formLimit): Promise<URLSearchParams> {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = request.headers
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type) || encoding !== 'identity')
    throw new ApiError('bad_request', 'the form cannot be read: send it as a browser does')
  const body = await readBytes(request, {
    bytes: most,
    tooLarge: () => tooLarge(most),
  })
  return checked(new URLSearchParams(body.whole().toString()))
}

export const isMultipart = ({ headers }: Request): boolean =>
  /^multipart\/form-data\s*;/i.test(headers['content-type'] ?? '')

export interface SentForm {
  readonly form: URLSearchParams
  readonly file: FormFile | null
  /** Gives the memory of the file back. */
  release(): void
}

/** The fields have the same limit as without a file. */
export async function readFormWithFile(
  { shares }: Context,
  request: Request,
  { holderId, signal }: { readonly holderId: string; readonly signal: AbortSignal },
): Promise<SentForm> {
  const permit = await enterUpload(shares, holderId, request, signal)
  const entry = createEntry(shares, holderId)
  try {
    const { file, fields } = await readPageForm(request, entry)
    const form = checked(new URLSearchParams(fields))
    if (form.toString().length > formLimit) throw tooLarge(formLimit)
    return { form, file, release: () => permit.release() }
  } catch (error) {
    permit.release()
    throw error
  } finally {
    entry.leave()
  }
}

function checked(form: URLSearchParams): URLSearchParams {
  // PostgreSQL cannot keep it, and no browser sends it.
  if ([...form].some((pair) => pair.some((text) => text.includes('\0'))))
    throw new ApiError('bad_request', 'the form has NUL characters: take them out')
  return form
}

const tooLarge = (most: number): ApiError =>
  new ApiError('too_large', `the form is larger than ${most} bytes: send less`)

/**
 * Binds the forms of a page to the sign-in session that loaded it, and to the organization that it showed. null: its forms
 * are of the person.
 */
export function formToken(config: Config, sessionId: string, organizationId: string | null): string {
  const shown = organizationId ?? 'none'
  const proof = createHmac('sha256', config.sessionSecret)
    .update(JSON.stringify(['form', sessionId, shown]))
    .digest('base64url')
  return `${shown}-${proof}`
}

/** The id of the organization that the page of a form showed. It is right if `hasToken` is true. */
export function shownBy(form: URLSearchParams): string | null {
  const [shown = ''] = (form.get('token') ?? '').split('-', 1)
  return organizationId.test(shown) ? shown : null
}

/** Whether the form comes from a page of this sign-in session, whichever organization that showed. */
export function hasToken(config: Config, sessionId: string, form: URLSearchParams): boolean {
  const own = formToken(config, sessionId, shownBy(form))
  const [given, right] = [form.get('token') ?? '', own].map((each) => Buffer.from(each))
  return (
    given !== undefined &&
    right !== undefined &&
    given.length === right.length &&
    timingSafeEqual(given, right)
  )
}

export function requireToken(config: Config, sessionId: string, form: URLSearchParams): void {
  if (hasToken(config, sessionId, form)) return
  throw new ApiError(
    'unauthenticated',
    'this form belongs to another sign-in: load the page again, and send it once more',
  )
}

export const queryOf = (request: Request): URLSearchParams =>
  new URLSearchParams(request.originalUrl.split('?', 2)[1] ?? '')
