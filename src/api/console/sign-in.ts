import { codePage, signInPage } from '../../console/pages/sign-in.ts'
import { homePath, signInPath } from '../../contract/pages.ts'
import { ownPlace } from '../../console/visit.ts'
import { offersSignUp } from './accounts.ts'
import { queryOf, requireToken } from './forms.ts'
import { proveFactor, refusalOf, type OpenPages, type OpenVisit } from './open-pages.ts'
import { sendTo } from './show.ts'
import { organizationCookie, organizationId, signedIn } from './visits.ts'

/** Adds the pages and forms for signing in, signing out, and choosing an organization. */
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
    const { twoFactorRedirect } = (await given.answer.json()) as { twoFactorRedirect?: boolean }
    response.setHeader('Set-Cookie', [...given.cookies])
    const code = `${signInPath}/code?return=${encodeURIComponent(place)}`
    return sendTo(response, twoFactorRedirect === true ? code : place)
  })
  get(`${signInPath}/code`, async ({ request, show }) => {
    show(codePage({ place: ownPlace(queryOf(request).get('return')), problem: null }))
  })
  post(`${signInPath}/code`, async ({ request, response, show }, sent) => {
    const place = ownPlace(sent.get('return'))
    const given = await proveFactor(auth, request, sent)
    const problem = await refusalOf(given, response)
    if (problem !== null) return show(codePage({ place, problem }))
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
