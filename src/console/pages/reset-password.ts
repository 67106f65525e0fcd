import { h } from 'preact'
import { resetPath, signInPath } from '../../contract/pages.ts'
import { Email, NewPassword } from '../parts/field.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

/** The page on which a person requests a mail. The link in the mail leads to the page for a new password. */
export function askResetPage({
  email,
  problem,
}: {
  readonly email: string
  readonly problem: Refusal | null
}): Page {
  return plainPage(
    'A new password',
    [
      h('p', null, 'You get a mail with a link that sets a new password. It works once, within an hour.'),
      h('form', { method: 'post', action: resetPath, class: 'fill' }, [
        h(Email, { value: email }),
        h('button', { class: 'primary' }, 'Send the mail'),
      ]),
      h('p', { class: 'links' }, h('a', { href: signInPath }, 'Back to the sign-in')),
    ],
    problem,
  )
}

/** The page is the same for every address, so that nobody learns who has an account. */
export const resetSentPage = (email: string): Page =>
  plainPage('Check your mail', [
    h('p', null, [
      'If ',
      h('strong', null, h(Words, { text: email })),
      ' has an account, a mail is on its way to it. Its link works once, within an hour.',
    ]),
    h('p', null, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])

/** The page on which a person sets a new password. The token comes from the mail. */
export const newPasswordPage = (token: string, problem: Refusal | null): Page =>
  plainPage(
    'A new password',
    [
      h('p', null, 'It ends every session of yours, on every device.'),
      h('form', { method: 'post', action: resetPath, class: 'fill' }, [
        h('input', { type: 'hidden', name: 'mailed', value: token }),
        h(NewPassword, null),
        h('button', { class: 'primary' }, 'Set the password'),
      ]),
    ],
    problem,
  )

export const passwordSetPage = (): Page =>
  plainPage('Your password is set', [
    h('p', null, 'All your sessions have ended. Sign in with the new password.'),
    h('p', null, h('a', { class: 'button', href: signInPath }, 'Sign in')),
  ])
