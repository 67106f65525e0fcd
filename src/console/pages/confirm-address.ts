import { h } from 'preact'
import { confirmPath, homePath, signInPath } from '../../contract/pages.ts'
import { Email } from '../parts/field.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

/**
 * The page that a mailed link opens. Opening the page confirms nothing, because programs that scan mail also open
 * links. A person must press the button.
 */
export const confirmAddressPage = (token: string): Page =>
  plainPage('Confirm your address', [
    h('p', null, 'Did you sign up with this address? If it was not you, close this page.'),
    h('form', { method: 'post', action: confirmPath, class: 'fill' }, [
      h('input', { type: 'hidden', name: 'mailed', value: token }),
      h('button', { class: 'primary' }, 'Yes, it is mine'),
    ]),
  ])

export const addressConfirmedPage = (): Page =>
  plainPage('Your address is confirmed', [
    h('p', null, 'Were you invited? Then open the link of the invitation again.'),
    h('p', null, h('a', { class: 'button', href: homePath }, 'Continue')),
  ])

/** The page for a person who has no valid link. The person can request a mail with a new link. */
export const askConfirmPage = ({
  email,
  problem,
}: {
  readonly email: string
  readonly problem: Refusal | null
}): Page =>
  plainPage(
    'Confirm your address',
    [
      h('p', null, 'You get a mail with a link. It works within a day.'),
      h('form', { method: 'post', action: confirmPath, class: 'fill' }, [
        h(Email, { value: email }),
        h('button', { class: 'primary' }, 'Send the mail'),
      ]),
      h('p', { class: 'links' }, h('a', { href: signInPath }, 'Back to the sign-in')),
    ],
    problem,
  )

/** The page is the same for every address, so that nobody learns who has an account. */
export const confirmSentPage = (email: string): Page =>
  plainPage('Check your mail', [
    h('p', null, [
      'If ',
      h('strong', null, h(Words, { text: email })),
      ' has an account that is not confirmed yet, a mail is on its way to it.',
    ]),
    h('p', null, h('a', { href: signInPath }, 'Back to the sign-in')),
  ])
