import { invitationPath, signInPath } from '../../contract/pages.ts'
import { acceptPage, invitedPage, joinedPage, noInvitationPage } from '../../console/pages/invitation.ts'
import { offersSignUp } from './accounts.ts'
import { formToken, queryOf, requireToken } from './forms.ts'
import { mailedToken, type OpenPages, type OpenVisit } from './open-pages.ts'
import { sendTo } from './show.ts'
import { apiOf, organizationCookie, personOf, signedIn } from './visits.ts'

/** Adds the page to which the mail of an invitation links. Opening the page does not accept the invitation. */
export function invitationPages(pages: OpenPages): void {
  const { context, services, get, post } = pages
  get(invitationPath, async ({ request, show }) => {
    const invitation = mailedToken(queryOf(request).get('token'))
    if (invitation === null) return show(noInvitationPage())
    const signed = await signedIn(context, services, request)
    if (signed === null) return show(invitedPage(invitation, offersSignUp(context.config.people.signUp)))
    const { email } = signed.identity.user
    const token = formToken(context.config, signed.sessionId)
    return show(acceptPage({ invitation, email, token, problem: null }))
  })
  post(invitationPath, (visit, sent) => accept(pages, visit, sent))
}

async function accept(
  { context, services }: OpenPages,
  { request, response, show }: OpenVisit,
  sent: URLSearchParams,
): Promise<void> {
  const invitation = mailedToken(sent.get('invitation')) ?? ''
  const signed = await signedIn(context, services, request)
  if (signed === null) {
    const back = encodeURIComponent(`${invitationPath}?token=${invitation}`)
    return sendTo(response, `${signInPath}?return=${back}`)
  }
  requireToken(context.config, signed.sessionId, sent)
  const api = apiOf(context, services, { request, response, signed })
  const joined = await api.call<{ readonly organization_id: string; readonly role: string }>(
    'POST /invitations/accept',
    { body: { token: invitation } },
  )
  if (!joined.ok) {
    const problem =
      joined.status === 404
        ? { status: 404, message: 'There is no open invitation for you here. It may be used, withdrawn or expired, or for another address.' } // prettier-ignore
        : joined
    const { email } = signed.identity.user
    const token = formToken(context.config, signed.sessionId)
    return show(acceptPage({ invitation, email, token, problem }))
  }
  const { organization_id: id, role } = joined.body
  response.setHeader('Set-Cookie', organizationCookie(context.config, id))
  const person = await personOf(api, request).catch(() => null)
  const name = person?.organizations.find((each) => each.id === id)?.name ?? 'the organization'
  return show(joinedPage({ name, role }))
}
