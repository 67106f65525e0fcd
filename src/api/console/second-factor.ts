import { secondFactorPath, signInPath } from '../../contract/pages.ts'
import {
  beginFactorPage,
  confirmFirstPage,
  enrolAgainPage,
  enrolPage,
  factorOnPage,
  mailSentPage,
  newCodesPage,
  proveFactorPage,
  type FactorVisit,
  type KeyToConfirm,
} from '../../console/pages/second-factor.ts'
import type { Refusal } from '../../console/pages/plain.ts'
import { ownPlace, type Api, type Page } from '../../console/visit.ts'
import { isWithFactor } from '../../governance/access/second-factor.ts'
import { formToken, queryOf, requireToken } from './forms.ts'
import { proveFactor, refusalOf, type OpenPages, type OpenVisit } from './open-pages.ts'
import { sendTo } from './show.ts'
import { apiOf, signedIn, type Signed } from './visits.ts'

/*
 * The page of the second factor. An organization may refuse everything else to a person without a factor, but this page
 * must still open. So this page reads the session from the sign-in library, and not from the API.
 */

/**
 * The state of the person's second factor:
 * - `unconfirmed`: the mail address is not confirmed, so no factor can be enrolled yet.
 * - `none`: there is no factor.
 * - `unproven`: there is a factor, but this session was opened without it.
 * - `proven`: there is a factor, and this session was opened with it.
 */
type FactorState = 'unconfirmed' | 'none' | 'unproven' | 'proven'

interface Visit extends OpenVisit {
  readonly signed: Signed
  readonly factorState: FactorState
  readonly email: string
  readonly place: string
  readonly api: Api
}

export function secondFactorPages(pages: OpenPages): void {
  pages.get(secondFactorPath, async (open) => {
    const visit = await visitOf(pages, open, queryOf(open.request).get('return'))
    if (visit !== null) open.show(await pageOf(pages, visit, null))
  })
  pages.post(secondFactorPath, async (open, sent) => {
    const visit = await visitOf(pages, open, sent.get('return'))
    if (visit === null) return
    requireToken(pages.context.config, visit.signed.sessionId, sent)
    const act = actions[sent.get('action') ?? '']
    const page = act === undefined ? await pageOf(pages, visit, null) : await act(pages, visit, sent)
    if (page !== null) open.show(page)
  })
}

/** Returns null if the browser has no session. In this case, the browser is redirected to the sign-in. */
async function visitOf(
  { context, services }: OpenPages,
  open: OpenVisit,
  back: string | null,
): Promise<Visit | null> {
  const { request, response } = open
  const signed = await signedIn(context, services, request)
  const { answer } = await services.auth.get(request, '/get-session?disableRefresh=true')
  const found = (await answer.json()) as Session | null
  if (signed === null || found === null) {
    sendTo(response, `${signInPath}?return=${encodeURIComponent(ownPlace(request.originalUrl))}`)
    return null
  }
  const { session, user } = found
  const has = user.twoFactorEnabled === true
  const factorState = has
    ? isWithFactor(session.openedWith)
      ? 'proven'
      : 'unproven'
    : user.emailVerified
      ? 'none'
      : 'unconfirmed'
  const api = apiOf(context, services, { request, response, signed })
  return { ...open, signed, factorState, email: user.email, place: ownPlace(back), api }
}

interface Session {
  readonly session: { readonly openedWith?: string | null }
  readonly user: {
    readonly email: string
    readonly emailVerified: boolean
    readonly twoFactorEnabled?: boolean | null
  }
}

const factorVisit = ({ context }: OpenPages, visit: Visit, problem: Refusal | null): FactorVisit => ({
  token: formToken(context.config, visit.signed.sessionId),
  place: visit.place,
  problem,
})

async function pageOf(pages: OpenPages, visit: Visit, problem: Refusal | null): Promise<Page> {
  const shown = factorVisit(pages, visit, problem)
  const { factorState } = visit
  if (factorState === 'proven') return factorOnPage(shown, await keysOf(visit))
  const page = { unconfirmed: confirmFirstPage, none: beginFactorPage, unproven: proveFactorPage }[
    factorState
  ]
  return page(shown)
}

/**
 * Returns the person's API keys that must still be confirmed with a second factor. Only keys in the organization of
 * this visit are listed.
 */
async function keysOf({ api, signed }: Visit): Promise<KeyToConfirm[]> {
  const listed = await api.call<{
    readonly data: readonly (KeyToConfirm & {
      readonly user_id: string
      readonly needs_confirmation: boolean
    })[]
  }>('GET /api-keys', { query: { limit: '200' } })
  if (!listed.ok) return []
  return listed.body.data.filter((key) => key.needs_confirmation && key.user_id === signed.identity.userId)
}

type Action = (pages: OpenPages, visit: Visit, sent: URLSearchParams) => Promise<Page | null>

const actions: Readonly<Record<string, Action>> = {
  /**
   * Creates the secret for the authenticator app, and backup codes. The factor protects the account only after the
   * first correct code.
   */
  async begin(pages, visit, sent) {
    const { request, response } = visit
    const password = sent.get('password') ?? ''
    const given = await pages.services.auth.post(request, '/two-factor/enable', { password })
    const problem = await refusalOf(given, response)
    if (problem !== null) return pageOf(pages, visit, problem)
    const { totpURI, backupCodes } = (await given.answer.json()) as { totpURI: string; backupCodes: string[] }
    return enrolPage(factorVisit(pages, visit, null), totpURI, backupCodes)
  },
  verify: (pages, visit, sent) => proven(pages, visit, sent, enrolAgainPage),
  prove: (pages, visit, sent) => proven(pages, visit, sent, proveFactorPage),
  async codes(pages, visit, sent) {
    const { request, response } = visit
    const password = sent.get('password') ?? ''
    const given = await pages.services.auth.post(request, '/two-factor/generate-backup-codes', { password })
    const problem = await refusalOf(given, response)
    if (problem !== null) return pageOf(pages, visit, problem)
    const { backupCodes } = (await given.answer.json()) as { backupCodes: string[] }
    return newCodesPage(backupCodes)
  },
  async mail(pages, visit) {
    const { request, response, email } = visit
    const given = await pages.services.auth.post(request, '/send-verification-email', { email })
    const problem = await refusalOf(given, response)
    return problem === null ? mailSentPage() : pageOf(pages, visit, problem)
  },
  async key(pages, visit, sent) {
    const id = sent.get('key') ?? ''
    const done = await visit.api.call('POST /api-keys/{id}/confirm', { params: { id } })
    return pageOf(pages, visit, done.ok ? null : done)
  },
}

/** Checks the code from the form. If the code is right, the browser gets a new session and is redirected to `place`. */
async function proven(
  pages: OpenPages,
  visit: Visit,
  sent: URLSearchParams,
  again: (shown: FactorVisit) => Page,
): Promise<Page | null> {
  const { request, response, place } = visit
  const given = await proveFactor(pages.services.auth, request, sent)
  const problem = await refusalOf(given, response)
  if (problem !== null) return again(factorVisit(pages, visit, problem))
  response.setHeader('Set-Cookie', [...given.cookies])
  sendTo(response, place)
  return null
}
