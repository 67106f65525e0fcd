import { h } from 'preact'
import {
  confirmPath,
  resetPath,
  signInPath,
  signUpPath,
  homePath,
  invitationPath,
} from '../../contract/pages.ts'
import { Code, Email, Field, NewPassword, Password } from '../parts/field.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'
import { Words } from '../parts/words.ts'
import { PostForm } from '../parts/layout.ts'

interface SignIn {
  readonly place: string
  readonly email: string
  readonly signUp: boolean
  readonly problem: Refusal | null
}

export function signInPage({ place, email, signUp, problem }: SignIn): Page {
  return plainPage('Sign in', problem, [
    h('form', { method: 'post', action: signInPath, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'return', value: place }),
      h(Email, { value: email }),
      h(Password, null),
      h('button', { class: 'primary' }, 'Sign in'),
    ]),
    h('p', { class: 'links' }, [
      h('a', { href: resetPath }, 'Forgot your password?'),
      // A sign-in before the confirmation is refused like a wrong password.
      signUp && problem !== null
        ? h('a', { href: confirmPath }, 'Just signed up? Confirm your address first')
        : null,
      signUp ? h('a', { href: signUpPath }, 'Create an account') : null,
    ]),
  ])
}

/** The second step: a code of the authenticator app, or a backup code. */
export function codePage({ place, problem }: Pick<SignIn, 'place' | 'problem'>): Page {
  return plainPage('Second factor', problem, [
    h('form', { method: 'post', action: `${signInPath}/code`, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'return', value: place }),
      h(Code, null),
      h('button', { class: 'primary' }, 'Continue'),
    ]),
    h('p', null, [
      h('a', { href: `${signInPath}?return=${encodeURIComponent(place)}` }, 'Start again with the password'),
    ]),
  ])
}

export function signUpPage({
  name,
  email,
  problem,
}: {
  name: string
  email: string
  problem: Refusal | null
}): Page {
  return plainPage('Create an account', problem, [
    h('form', { method: 'post', action: signUpPath, class: 'fill' }, [
      h(Field, { name: 'name', label: 'Your name', autocomplete: 'name', most: 200, value: name }),
      h(Email, { value: email }),
      h(NewPassword, null),
      h('button', { class: 'primary' }, 'Create the account'),
    ]),
    h('p', { class: 'links' }, h('a', { href: signInPath }, 'Have an account? Sign in')),
  ])
}

/** The same for every address, so that nobody learns who has an account or an invitation. */
export function signUpSentPage(email: string): Page {
  return plainPage('Check your mail', null, [
    h('p', null, [
      'If ',
      h('strong', null, h(Words, { text: email })),
      ' can have an account here, a mail is on its way to it. Open its link to confirm that the address is yours. Then sign in.',
    ]),
    h('p', { class: 'quiet' }, 'Were you invited? After that, open the link of the invitation again.'),
    h('p', { class: 'links' }, [
      h('a', { href: signInPath }, 'Sign in'),
      h('a', { href: resetPath }, 'Forgot your password?'),
    ]),
  ])
}

export const signUpClosedPage = (): Page => ({
  ...plainPage('No new accounts', null, [
    h('p', null, 'This installation accepts no new accounts. Ask its operator.'),
    h('p', null, h('a', { href: signInPath }, 'Sign in')),
  ]),
  status: 403,
})

/** Opening the page confirms nothing, because programs that scan mail also open links. */
export const confirmAddressPage = (token: string): Page =>
  plainPage('Confirm your address', null, [
    h('p', null, 'Did you sign up with this address? If it was not you, close this page.'),
    h('form', { method: 'post', action: confirmPath, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'mailed', value: token }),
      h('button', { class: 'primary' }, 'Yes, it is mine'),
    ]),
  ])

export const addressConfirmedPage = (): Page =>
  plainPage('Your address is confirmed', null, [
    h('p', null, 'Were you invited? Then open the link of the invitation again.'),
    h('p', null, h('a', { class: 'button', href: homePath }, 'Continue')),
  ])

export const askConfirmPage = ({ email, problem }: { email: string; problem: Refusal | null }): Page =>
  plainPage('Confirm your address', problem, [
    h('p', null, 'You get a mail with a link. It works within a day.'),
    h('form', { method: 'post', action: confirmPath, class: 'fill' }, [
      h(Email, { value: email }),
      h('button', { class: 'primary' }, 'Send the mail'),
    ]),
    h('p', { class: 'links' }, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])

/** The same for every address, so that nobody learns who has an account. */
export const confirmSentPage = (email: string): Page =>
  plainPage('Check your mail', null, [
    h('p', null, [
      'If ',
      h('strong', null, h(Words, { text: email })),
      ' has an account that is not confirmed yet, a mail is on its way to it.',
    ]),
    h('p', null, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])

export function askResetPage({ email, problem }: { email: string; problem: Refusal | null }): Page {
  return plainPage('A new password', problem, [
    h('p', null, 'You get a mail with a link that sets a new password. It works once, within an hour.'),
    h('form', { method: 'post', action: resetPath, class: 'fill' }, [
      h(Email, { value: email }),
      h('button', { class: 'primary' }, 'Send the mail'),
    ]),
    h('p', { class: 'links' }, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])
}

/** The same for every address, so that nobody learns who has an account. */
export const resetSentPage = (email: string): Page =>
  plainPage('Check your mail', null, [
    h('p', null, [
      'If ',
      h('strong', null, h(Words, { text: email })),
      ' has an account, a mail is on its way to it. Its link works once, within an hour.',
    ]),
    h('p', null, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])

export const newPasswordPage = (token: string, problem: Refusal | null): Page =>
  plainPage('A new password', problem, [
    h('p', null, 'It ends every session of yours, on every device.'),
    h('form', { method: 'post', action: resetPath, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'mailed', value: token }),
      h(NewPassword, null),
      h('button', { class: 'primary' }, 'Set the password'),
    ]),
  ])

export const passwordSetPage = (): Page =>
  plainPage('Your password is set', null, [
    h('p', null, 'All your sessions have ended. Sign in with the new password.'),
    h('p', null, h('a', { class: 'button', href: signInPath }, 'Sign in')),
  ])

export function invitedPage(invitation: string, signUp: boolean): Page {
  const back = encodeURIComponent(`${invitationPath}?token=${invitation}`)
  return plainPage('An invitation', null, [
    h('p', null, 'Sign in with the address that it was sent to. Then you can accept it.'),
    h('p', null, h('a', { class: 'button primary', href: `${signInPath}?return=${back}` }, 'Sign in')),
    signUp
      ? h('p', null, [
          'No account yet? ',
          h('a', { href: signUpPath }, 'Create one with that address'),
          ', confirm it, and open this link again.',
        ])
      : null,
  ])
}

/** Opening the link does not accept the invitation; pressing the button does. */
export function acceptPage(given: {
  invitation: string
  email: string
  token: string
  problem: Refusal | null
}): Page {
  return plainPage('An invitation', given.problem, [
    h('p', null, ['You are signed in as ', h('strong', null, h(Words, { text: given.email })), '.']),
    h(PostForm, { action: invitationPath, token: given.token, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'invitation', value: given.invitation }),
      h('button', { class: 'primary' }, 'Accept the invitation'),
    ]),
    h('p', { class: 'quiet small' }, [
      'Only the person with the invited address can accept it. If it was sent to another address of yours, sign out first.',
    ]),
  ])
}

export const joinedPage = ({ name, role }: { name: string; role: string }): Page =>
  plainPage('You have joined', null, [
    h('p', null, ['You are now ', role, ' of ', h('strong', null, h(Words, { text: name })), '.']),
    h('p', null, h('a', { class: 'button', href: homePath }, 'Continue')),
  ])

export const noInvitationPage = (): Page => ({
  ...plainPage('An invitation', null, [
    h('p', null, 'This address has no invitation. Open the whole link of the mail.'),
  ]),
  status: 404,
})
