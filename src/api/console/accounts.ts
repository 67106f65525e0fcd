import {
  confirmPath,
  resetPath,
  signUpPath,
  homePath,
  assertionPath,
  providerAnswerPath,
  providerSignInPath,
  signInPath,
  invitationPath,
  secondFactorPath,
  ownSessionsPath,
} from '../../contract/pages.ts'
import {
  addressConfirmedPage,
  askConfirmPage,
  confirmAddressPage,
  confirmSentPage,
  askResetPage,
  newPasswordPage,
  passwordSetPage,
  resetSentPage,
  signUpClosedPage,
  signUpPage,
  signUpSentPage,
  codePage,
  signInPage,
  providerSignInPage,
  toProviderPage,
  toAssertionPage,
  acceptPage,
  invitedPage,
  invitationAt as pathOf,
  joinedPage,
  noInvitationPage,
} from '../../console/pages/sign-in.tsx'
import type { Auth, AuthAnswer } from '../auth.ts'
import { sessionTokenIn } from '../auth-guards.ts'
import type { SignUp } from '../../shared/sign-up-setting.ts'
import {
  queryOf,
  requireToken,
  formToken,
  mailedToken,
  refusalOf,
  proveFactor,
  sendTo,
  type OpenPages,
  type OpenVisit,
} from './show.ts'
import { ownPlace, type Api, type Page } from '../../console/visit.ts'
import { organizationCookie, organizationId, signedIn, apiOf, type Signed } from './visits.ts'
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
} from '../../console/pages/second-factor.tsx'
import { ownSessionsPage, type OwnSession } from '../../console/pages/own-sessions.tsx'
import type { Factors } from '../../console/pages/passkeys.tsx'
import { plainPage, type Refusal } from '../../console/pages/plain.tsx'
import { proveAddress } from '../../governance/access/address-proof.ts'
import { isWithFactor } from '../../governance/access/second-factor.ts'
import {
  acceptWithProof,
  showInvitation,
  type InvitationLink,
  type ShownInvitation,
} from '../../governance/people/invitations.ts'
import { noteTimeZone } from '../../governance/people/mail-preferences.ts'
import { addressOf, requestIdOf } from '../http-server.ts'

const offersSignUp = ({ mode }: SignUp): boolean => mode !== 'closed'

/** The answers never show whether an address has an account. The library limits how often a form can be sent. */
export function accountPages(pages: OpenPages): void {
  signUp(pages)
  confirmAddress(pages)
  resetPassword(pages)
}

function signUp({ context, services, get, post }: OpenPages): void {
  const isOffered = offersSignUp(context.config.people.signUp)
  get(signUpPath, async ({ show }) =>
    show(isOffered ? signUpPage({ name: '', email: '', problem: null }) : signUpClosedPage()),
  )
  post(signUpPath, async ({ request, response, show }, sent) => {
    const [name, email] = [sent.get('name') ?? '', sent.get('email') ?? '']
    const password = sent.get('password') ?? ''
    const given = await services.auth.post(request, '/sign-up/email', { name, email, password })
    const problem = await refusalOf(given, response, 422)
    show(
      problem === null
        ? signUpSentPage(email, context.config.tools.mailFolder)
        : signUpPage({ name, email, problem }),
    )
  })
}

const endedConfirmation = {
  status: 422,
  message: 'This link has ended or is not whole. Ask for a new one.',
} as const

function confirmAddress({ context, services: { auth }, get, post }: OpenPages): void {
  get(confirmPath, async ({ request, show }) => {
    const given = queryOf(request).get('token')
    const token = mailedToken(given)
    const problem = given === null ? null : endedConfirmation
    show(token === null ? askConfirmPage({ email: '', problem }) : confirmAddressPage(token))
  })
  post(confirmPath, async ({ request, response, show }, sent) => {
    const email = sent.get('email')
    if (email !== null) {
      const mailed = await auth.post(request, '/send-verification-email', { email })
      const problem = await refusalOf(mailed, response, 422)
      return show(
        problem === null
          ? confirmSentPage(email, context.config.tools.mailFolder)
          : askConfirmPage({ email, problem }),
      )
    }
    const token = mailedToken(sent.get('mailed')) ?? 'none'
    const given = await auth.get(request, `/verify-email?token=${encodeURIComponent(token)}`)
    if ((await refusalOf(given, response)) === null) {
      if (given.cookies.length > 0) response.setHeader('Set-Cookie', [...given.cookies])
      return show(addressConfirmedPage())
    }
    return show(askConfirmPage({ email: '', problem: endedConfirmation }))
  })
}

const endedReset = {
  status: 422,
  message: 'This link has ended, was used, or is not whole. Ask for a new one.',
} as const

function resetPassword({ context, services: { auth }, get, post }: OpenPages): void {
  get(resetPath, async ({ request, show }) => {
    const given = queryOf(request).get('token')
    const token = mailedToken(given)
    const problem = given === null ? null : endedReset
    show(token === null ? askResetPage({ email: '', problem }) : newPasswordPage(token, null))
  })
  post(resetPath, async ({ request, response, show }, sent) => {
    const mailed = sent.get('mailed')
    if (mailed === null) {
      const email = sent.get('email') ?? ''
      const given = await auth.post(request, '/request-password-reset', { email })
      const problem = await refusalOf(given, response, 422)
      return show(
        problem === null
          ? resetSentPage(email, context.config.tools.mailFolder)
          : askResetPage({ email, problem }),
      )
    }
    const token = mailedToken(mailed) ?? 'none'
    const newPassword = sent.get('password') ?? ''
    const given = await auth.post(request, '/reset-password', { token, newPassword })
    const hasEnded =
      given.answer.status === 400 && (await given.answer.clone().text()).includes('INVALID_TOKEN')
    const problem = await refusalOf(given, response, 422)
    if (problem === null) {
      if (given.cookies.length > 0) response.setHeader('Set-Cookie', [...given.cookies])
      return show(passwordSetPage())
    }
    return show(hasEnded ? askResetPage({ email: '', problem: endedReset }) : newPasswordPage(token, problem))
  })
}

export function signInPages({ context, services, get, post }: OpenPages): void {
  const { auth } = services
  const signUp = offersSignUp(context.config.people.signUp)
  get(signInPath, async ({ request, response, show }) => {
    const place = ownPlace(queryOf(request).get('return'))
    if ((await signedIn(context, services, request)) !== null) sendTo(response, place)
    else show(signInPage({ place, email: '', signUp, problem: null }))
  })
  post(signInPath, async ({ request, response, show }, sent) => {
    const [place, email] = [ownPlace(sent.get('return')), sent.get('email') ?? '']
    const password = sent.get('password') ?? ''
    const given = await auth.post(request, '/sign-in/email', { email, password })
    const problem = await refusalOf(given, response)
    if (problem !== null) return show(signInPage({ place, email, signUp, problem }))
    await noteTimeZone(context.db, email, sent.get('time_zone'))
    const { twoFactorRedirect, twoFactorMethods: methods = [] } = (await given.answer.json()) as HalfSignedIn
    response.setHeader('Set-Cookie', [...given.cookies])
    const code = `${signInPath}/code?return=${encodeURIComponent(place)}${methods.includes('totp') ? '' : '&app=no'}`
    return sendTo(response, twoFactorRedirect === true ? code : place)
  })
  get(`${signInPath}/code`, async ({ request, show }) => {
    const query = queryOf(request)
    show(codePage({ place: ownPlace(query.get('return')), problem: null, hasApp: query.get('app') !== 'no' }))
  })
  post(`${signInPath}/code`, async ({ request, response, show }, sent) => {
    const place = ownPlace(sent.get('return'))
    const given = await proveFactor(auth, request, sent)
    const problem = await refusalOf(given, response)
    if (problem !== null) return show(codePage({ place, problem, hasApp: true }))
    response.setHeader('Set-Cookie', [...given.cookies])
    return sendTo(response, place)
  })
  const requireOwnForm = async (request: OpenVisit['request'], sent: URLSearchParams): Promise<void> => {
    const signed = await signedIn(context, services, request)
    if (signed !== null) requireToken(context.config, signed.sessionId, sent)
  }
  post('/console/sign-out', async ({ request, response }, sent) => {
    await requireOwnForm(request, sent)
    const { cookies } = await auth.post(request, '/sign-out', {})
    response.setHeader('Set-Cookie', [...cookies])
    sendTo(response, signInPath)
  })
  post('/console/organization', async ({ request, response }, sent) => {
    await requireOwnForm(request, sent)
    const id = sent.get('organization_id') ?? ''
    if (organizationId.test(id)) response.setHeader('Set-Cookie', organizationCookie(context.config, id))
    sendTo(response, homePath)
  })
}

interface HalfSignedIn {
  readonly twoFactorRedirect?: boolean
  /** Without `totp`, the person has no app. */
  readonly twoFactorMethods?: readonly string[]
}

/** Also for people who are signed in: who proves both sign-ins in one browser has them linked. */
export function providerPages({ context, services: { auth }, get, post, receive }: OpenPages): void {
  const enter = async ({ response, show }: OpenVisit, given: AuthAnswer): Promise<void> => {
    if (given.cookies.length > 0) response.setHeader('Set-Cookie', [...given.cookies])
    const problem = await refusalOf(given, response, 403)
    if (problem !== null) return show(providerSignInPage({ place: homePath, email: '', problem }))
    const entered = (await given.answer.json()) as { place: string; organization_id: string }
    response.append('Set-Cookie', organizationCookie(context.config, entered.organization_id))
    return sendTo(response, ownPlace(entered.place))
  }
  // The provider’s page sends this form, so the browser withholds our cookies. A form of our own page brings them.
  receive(assertionPath, async ({ request, show }, sent) =>
    show(
      toAssertionPage(
        `${request.path}/continue`,
        sent.get('SAMLResponse') ?? '',
        sent.get('RelayState') ?? '',
      ),
    ),
  )
  post(`${assertionPath}/continue`, async (visit, sent) =>
    enter(
      visit,
      await auth.post(visit.request, '/sign-in/provider/assertion', {
        organization: String(visit.request.params['id']),
        state: sent.get('RelayState') ?? '',
        response: sent.get('SAMLResponse') ?? '',
      }),
    ),
  )
  get(providerSignInPath, async ({ request, show }) =>
    show(providerSignInPage({ place: ownPlace(queryOf(request).get('return')), email: '', problem: null })),
  )
  post(providerSignInPath, async ({ request, response, show }, sent) => {
    const [place, email] = [ownPlace(sent.get('return')), sent.get('email') ?? '']
    const given = await auth.post(request, '/sign-in/provider', { email, place })
    const problem = await refusalOf(given, response, 422)
    if (problem !== null) return show(providerSignInPage({ place, email, problem }))
    const { url } = (await given.answer.json()) as { url: string }
    response.setHeader('Set-Cookie', [...given.cookies])
    response.setHeader('Refresh', `0; url=${url}`)
    return show(toProviderPage(url))
  })
  get(providerAnswerPath, async (visit) => {
    const query = queryOf(visit.request)
    query.set('organization', String(visit.request.params['id']))
    return enter(visit, await auth.get(visit.request, `/sign-in/provider/answer?${query.toString()}`))
  })
}

export function invitationPages(pages: OpenPages): void {
  const { context, services, get, post } = pages
  get(invitationPath, async ({ request, show }) => {
    const query = queryOf(request)
    const link = linkIn(query.get('token'), query.get('proof'))
    const invitation = await showInvitation(context.db, link)
    const signed = invitation === null ? null : await signedIn(context, services, request)
    if (invitation === null) return show(noInvitationPage())
    if (signed === null) return show(invitedPage(invitedIn(pages, invitation, link)))
    const { email } = signed.identity.user
    const token = formToken(context.config, signed.sessionId, null)
    return show(acceptPage({ invitation, link, email, token, problem: null }))
  })
  post(invitationPath, (visit, sent) => {
    const link = linkIn(sent.get('invitation'), sent.get('proof'))
    return sent.has('password') ? join(pages, visit, sent, link) : accept(pages, visit, sent, link)
  })
}

const linkIn = (token: string | null, proof: string | null): InvitationLink => ({
  token: mailedToken(token) ?? 'none',
  proof: mailedToken(proof),
})

const invitedIn = ({ context }: OpenPages, invitation: ShownInvitation, link: InvitationLink) => ({
  invitation,
  link,
  signUp: offersSignUp(context.config.people.signUp),
  name: '',
  problem: null,
})

/** Makes an account for the invited address, and joins: the link of the mail proves the address. */
async function join(
  pages: OpenPages,
  { request, response, show }: OpenVisit,
  sent: URLSearchParams,
  link: InvitationLink,
): Promise<void> {
  const { context, services } = pages
  const invitation = await showInvitation(context.db, link)
  if (invitation === null) return show(noInvitationPage())
  const shown = { ...invitedIn(pages, invitation, link), name: sent.get('name') ?? '' }
  if (invitation.hasAccount !== false) return show(invitedPage(shown))
  const { email } = invitation
  const password = sent.get('password') ?? ''
  const body = { name: shown.name, email, password }
  const given = await services.auth.post(request, '/sign-up/email', body, true)
  const problem = await refusalOf(given, response, 422)
  if (problem !== null) return show(invitedPage({ ...shown, problem }))
  // For an address that got an account meanwhile, the library answers with an id that nobody has.
  const { user } = (await given.answer.json()) as { user?: { id?: string } }
  const person = {
    userId: user?.id ?? '',
    keyId: null,
    ip: addressOf(request),
    requestId: requestIdOf(response),
  }
  const joined = await acceptWithProof(context, person, link)
  const opened = await services.auth.post(request, '/sign-in/email', { email, password })
  await noteTimeZone(context.db, email, sent.get('time_zone'))
  response.setHeader('Set-Cookie', [
    ...opened.cookies,
    organizationCookie(context.config, joined.organization_id),
  ])
  return show(joinedPage({ name: invitation.organization, role: joined.role }))
}

async function accept(
  { context, services }: OpenPages,
  { request, response, show }: OpenVisit,
  sent: URLSearchParams,
  link: InvitationLink,
): Promise<void> {
  const signed = await signedIn(context, services, request)
  if (signed === null) return sendTo(response, `${signInPath}?return=${encodeURIComponent(pathOf(link))}`)
  requireToken(context.config, signed.sessionId, sent)
  const invitation = await showInvitation(context.db, link)
  const { user } = signed.identity
  if (invitation?.isProven === true && user.email.toLowerCase() === invitation.email)
    await proveAddress(context.db, user.id, sessionTokenIn(request.headers.cookie ?? null))
  const api = apiOf(context, services, { request, response, signed })
  const joined = await api.call('POST /invitations/accept', { body: { token: link.token } })
  if (!joined.ok) {
    const problem =
      joined.status === 404
        ? { status: 404, message: 'There is no open invitation for you here. It may be used, withdrawn or expired, or for another address.' } // prettier-ignore
        : joined
    const { email } = signed.identity.user
    const token = formToken(context.config, signed.sessionId, null)
    return show(acceptPage({ invitation, link, email, token, problem }))
  }
  const { organization_id: id, role } = joined.body
  response.setHeader('Set-Cookie', organizationCookie(context.config, id))
  return show(joinedPage({ name: invitation?.organization ?? 'the organization', role }))
}

/* An organization may refuse all else without a factor, so this reads the session from the sign-in library. */

/** `unconfirmed`: the mail address, so no factor can be added. `unproven`: this session was opened without it. */
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

export function ownSessionPages(pages: OpenPages): void {
  const { auth } = pages.services
  pages.get(ownSessionsPath, async (open) => {
    const visit = await visitOf(pages, open, null)
    if (visit !== null) await showSessions(pages, visit, null)
  })
  pages.post(ownSessionsPath, async (open, sent) => {
    const visit = await visitOf(pages, open, null)
    if (visit === null) return
    requireToken(pages.context.config, visit.signed.sessionId, sent)
    const { request, response } = open
    const given =
      sent.get('action') === 'end-others'
        ? await auth.post(request, '/revoke-other-sessions', {})
        : await endSession(auth, request, sent.get('session'))
    const problem = given === null ? noSession : await refusalOf(given, response)
    if (problem === null) sendTo(response, `${ownSessionsPath}?done=end`)
    else await showSessions(pages, visit, problem)
  })
}

const noSession = {
  status: 422,
  message: 'Nothing has ended: this session is not in the list any more.',
} as const

/** null if the person has no such session. */
async function endSession(auth: Auth, request: OpenVisit['request'], id: string | null) {
  const { answer } = await auth.get(request, '/list-sessions')
  const sessions = answer.ok ? ((await answer.json()) as (OwnSession & { readonly token: string })[]) : []
  const ended = sessions.find((each) => each.id === id)
  return ended === undefined ? null : auth.post(request, '/revoke-session', { token: ended.token })
}

async function showSessions(pages: OpenPages, visit: Visit, problem: Refusal | null): Promise<void> {
  const { request, response, signed } = visit
  const listed = await pages.services.auth.get(request, '/list-sessions')
  const refusal = await refusalOf(listed, response, 403)
  // Such as a session of a provider, which may not change the account.
  if (refusal !== null) return visit.show(plainPage('Where you are signed in', refusal, null))
  const sessions = (await listed.answer.json()) as OwnSession[]
  const { token, now } = factorVisit(pages, visit, null)
  const done = queryOf(request).get('done') === 'end'
  visit.show(
    ownSessionsPage({ sessions: newest(sessions), own: signed.sessionId, token, now, problem, done }),
  )
}

/** The most that a page shows. */
const mostSessions = 100
const newest = (sessions: readonly OwnSession[]) =>
  sessions.toSorted((a, b) => (a.createdAt < b.createdAt ? 1 : -1)).slice(0, mostSessions)

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
  token: formToken(context.config, visit.signed.sessionId, null),
  place: visit.place,
  problem,
  now: new Date(),
})

async function pageOf(pages: OpenPages, visit: Visit, problem: Refusal | null): Promise<Page> {
  const shown = factorVisit(pages, visit, problem)
  const { factorState } = visit
  if (factorState === 'unconfirmed') return confirmFirstPage(shown)
  if (factorState === 'unproven') return proveFactorPage(shown)
  const listed = await pages.services.auth.get(visit.request, '/passkey/list')
  const refusal = await refusalOf(listed, visit.response, 403)
  // Such as a session of a provider, which may not change the account.
  if (refusal !== null) return plainPage('Second factor', refusal, null)
  const changing = { ...shown, factors: (await listed.answer.json()) as Factors }
  return factorState === 'none' ? beginFactorPage(changing) : factorOnPage(changing, await keysOf(visit))
}

/** Those in the organization of this visit that must still be confirmed with a second factor. */
async function keysOf({ api, signed }: Visit): Promise<KeyToConfirm[]> {
  const listed = await api.call('GET /api-keys', { query: { limit: '200' } })
  if (!listed.ok) return []
  return listed.body.data.filter((key) => key.needs_confirmation && key.user_id === signed.identity.userId)
}

type Action = (pages: OpenPages, visit: Visit, sent: URLSearchParams) => Promise<Page | null>

const actions: Readonly<Record<string, Action>> = {
  /** The factor protects the account only after the first correct code. */
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
  'rename-passkey': (pages, visit, sent) =>
    changePasskey(pages, visit, ['rename', { id: sent.get('passkey'), name: sent.get('name') }]),
  'remove-passkey': (pages, visit, sent) =>
    changePasskey(pages, visit, ['remove', { id: sent.get('passkey'), password: sent.get('password') }]),
  async mail(pages, visit) {
    const { request, response, email } = visit
    const given = await pages.services.auth.post(request, '/send-verification-email', { email })
    const problem = await refusalOf(given, response)
    return problem === null
      ? mailSentPage(pages.context.config.tools.mailFolder)
      : pageOf(pages, visit, problem)
  },
  async key(pages, visit, sent) {
    const id = sent.get('key') ?? ''
    const done = await visit.api.call('POST /api-keys/{id}/confirm', { params: { id } })
    return pageOf(pages, visit, done.ok ? null : done)
  },
}

async function changePasskey(
  pages: OpenPages,
  visit: Visit,
  [act, body]: readonly [string, object],
): Promise<Page | null> {
  const given = await pages.services.auth.post(visit.request, `/passkey/${act}`, body)
  const problem = await refusalOf(given, visit.response)
  if (problem !== null) return pageOf(pages, visit, problem)
  sendTo(visit.response, `${secondFactorPath}?return=${encodeURIComponent(visit.place)}`)
  return null
}

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
