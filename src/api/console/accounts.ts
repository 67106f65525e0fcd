import { confirmPath, resetPath, signUpPath } from '../../contract/pages.ts'
import {
  addressConfirmedPage,
  askConfirmPage,
  confirmAddressPage,
  confirmSentPage,
} from '../../console/pages/confirm-address.ts'
import {
  askResetPage,
  newPasswordPage,
  passwordSetPage,
  resetSentPage,
} from '../../console/pages/reset-password.ts'
import { signUpClosedPage, signUpPage, signUpSentPage } from '../../console/pages/sign-up.ts'
import type { SignUp } from '../../shared/sign-up-setting.ts'
import { queryOf } from './forms.ts'
import { mailedToken, refusalOf, type OpenPages } from './open-pages.ts'

/** Returns false if the operator has closed the sign-up. */
export const offersSignUp = ({ mode }: SignUp): boolean => mode !== 'closed'

/**
 * Adds the pages for people without a session. On these pages people create an account, confirm an address, or set a
 * new password. The answers never show whether an address has an account. The sign-in library limits how often each
 * form can be sent.
 */
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
    show(problem === null ? signUpSentPage(email) : signUpPage({ name, email, problem }))
  })
}

const endedConfirmation = {
  status: 422,
  message: 'This link has ended or is not whole. Ask for a new one.',
} as const

function confirmAddress({ services: { auth }, get, post }: OpenPages): void {
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
      return show(problem === null ? confirmSentPage(email) : askConfirmPage({ email, problem }))
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

function resetPassword({ services: { auth }, get, post }: OpenPages): void {
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
      return show(problem === null ? resetSentPage(email) : askResetPage({ email, problem }))
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
