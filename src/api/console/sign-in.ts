import express, { type Request, type Response, type Router } from 'express'
import { codePage, signInPage, type Refusal } from '../../console/pages/sign-in.ts'
import { ownPlace } from '../../console/visit.ts'
import type { Context } from '../../governance/context.ts'
import type { AuthAnswer } from '../auth.ts'
import type { Mounted } from '../route.ts'
import type { Assets } from './assets.ts'
import { queryOf, readForm, requireToken } from './forms.ts'
import { asPage, sendTo, show } from './show.ts'
import { organizationCookie, organizationId, signedIn } from './visits.ts'

/** Signing in and out, and the choice of an organization. */
export function signInRouter(context: Context, services: Mounted, assets: Assets): Router {
  const router = express.Router({ caseSensitive: true, strict: true })
  const { auth } = services
  const page = (path: string, work: (request: Request, response: Response) => Promise<void>): void =>
    void router.get(path, asPage(path, assets, work))
  const form = (
    path: string,
    work: (request: Request, response: Response, sent: URLSearchParams) => Promise<void>,
  ): void =>
    void router.post(
      path,
      asPage(path, assets, async (request, response) =>
        work(request, response, await readForm(context.config, request, response)),
      ),
    )

  page('/console/sign-in', async (request, response) => {
    const place = ownPlace(queryOf(request).get('return'))
    if ((await signedIn(context, services, request)) !== null) sendTo(response, place)
    else show({ request, response, assets }, signInPage({ place, email: '', problem: null }), null)
  })
  form('/console/sign-in', async (request, response, sent) => {
    const [place, email] = [ownPlace(sent.get('return')), sent.get('email') ?? '']
    const password = sent.get('password') ?? ''
    const given = await auth.post(request, '/sign-in/email', { email, password })
    const problem = await refusalOf(given, response)
    if (problem !== null)
      return show({ request, response, assets }, signInPage({ place, email, problem }), null)
    const { twoFactorRedirect } = (await given.answer.json()) as { twoFactorRedirect?: boolean }
    response.setHeader('Set-Cookie', [...given.cookies])
    const code = `/console/sign-in/code?return=${encodeURIComponent(place)}`
    return sendTo(response, twoFactorRedirect === true ? code : place)
  })
  page('/console/sign-in/code', async (request, response) => {
    const place = ownPlace(queryOf(request).get('return'))
    show({ request, response, assets }, codePage({ place, problem: null }), null)
  })
  form('/console/sign-in/code', async (request, response, sent) => {
    const place = ownPlace(sent.get('return'))
    const code = (sent.get('code') ?? '').replaceAll(/\s/g, '')
    const endpoint = /^\d{6}$/.test(code) ? 'verify-totp' : 'verify-backup-code'
    const given = await auth.post(request, `/two-factor/${endpoint}`, { code })
    const problem = await refusalOf(given, response)
    if (problem !== null) return show({ request, response, assets }, codePage({ place, problem }), null)
    response.setHeader('Set-Cookie', [...given.cookies])
    return sendTo(response, place)
  })
  const requireOwnForm = async (request: Request, sent: URLSearchParams): Promise<void> => {
    const signed = await signedIn(context, services, request)
    if (signed !== null) requireToken(context.config, signed.sessionId, sent)
  }
  form('/console/sign-out', async (request, response, sent) => {
    await requireOwnForm(request, sent)
    const { cookies } = await auth.post(request, '/sign-out', {})
    response.setHeader('Set-Cookie', [...cookies])
    sendTo(response, '/console/sign-in')
  })
  form('/console/organization', async (request, response, sent) => {
    await requireOwnForm(request, sent)
    const id = sent.get('organization_id') ?? ''
    if (organizationId.test(id)) response.setHeader('Set-Cookie', organizationCookie(context.config, id))
    sendTo(response, '/console/approvals')
  })
  return router
}

/** The sign-in library's words for a refusal; null if there is none. */
async function refusalOf({ answer }: AuthAnswer, response: Response): Promise<Refusal | null> {
  if (answer.ok) return null
  const { message } = (await answer.json().catch(() => ({}))) as { message?: unknown }
  const wait = answer.headers.get('x-retry-after')
  if (wait !== null) response.setHeader('Retry-After', wait)
  return {
    status: answer.status === 429 ? 429 : 401,
    message:
      typeof message === 'string' && message !== ''
        ? message.replaceAll(/\bemail\b/g, 'e-mail')
        : 'This did not work. Try again.',
  }
}
