import type { Request, Response, Router } from 'express'
import type { Page } from '../../console/visit.ts'
import type { Refusal } from '../../console/pages/plain.ts'
import type { Context } from '../../governance/context.ts'
import type { Auth, AuthAnswer } from '../auth.ts'
import type { Mounted } from '../route.ts'
import type { Assets } from './assets.ts'
import { readForm } from './forms.ts'
import { asPage, show } from './show.ts'

/** Adds pages that people without a session can open, such as the sign-in. */
export interface OpenPages {
  readonly context: Context
  readonly services: Mounted
  get(path: string, work: (visit: OpenVisit) => Promise<void>): void
  /**
   * Adds a handler for a form. The form is read before `work` runs. If another site sends the form, it is refused with
   * `unauthenticated`.
   */
  post(path: string, work: (visit: OpenVisit, sent: URLSearchParams) => Promise<void>): void
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
    // The page's address may contain a mailed token, and no other site may see it in `Referer`. With this policy forms
    // still send their origin, which `readForm` checks.
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
  }
}

/** Returns the refusal with the sign-in library's message. Returns null if the library accepted the request. */
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

/**
 * Returns the token of a mailed link. `given` comes from the URL of a page or from a submitted form. Returns null if
 * `given` does not look like a token.
 */
export const mailedToken = (given: string | null): string | null =>
  given !== null && /^[\w.-]{16,2000}$/.test(given) ? given : null

/**
 * Sends the code from a form to the sign-in library. A code of six digits comes from the authenticator app, and any
 * other code is a backup code.
 */
export function proveFactor(auth: Auth, request: Request, sent: URLSearchParams): Promise<AuthAnswer> {
  const code = (sent.get('code') ?? '').replaceAll(/\s/g, '')
  const endpoint = /^\d{6}$/.test(code) ? 'verify-totp' : 'verify-backup-code'
  return auth.post(request, `/two-factor/${endpoint}`, { code })
}
