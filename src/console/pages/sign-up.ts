import { h } from 'preact'
import { resetPath, signInPath, signUpPath } from '../../contract/pages.ts'
import { Email, Field, NewPassword } from '../parts/field.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

export interface SignUp {
  readonly name: string
  readonly email: string
  readonly problem: Refusal | null
}

export function signUpPage({ name, email, problem }: SignUp): Page {
  return plainPage(
    'Create an account',
    [
      h('form', { method: 'post', action: signUpPath, class: 'fill' }, [
        h(Field, { name: 'name', label: 'Your name', autocomplete: 'name', most: 200, value: name }),
        h(Email, { value: email }),
        h(NewPassword, null),
        h('button', { class: 'primary' }, 'Create the account'),
      ]),
      h('p', { class: 'links' }, h('a', { href: signInPath }, 'Have an account? Sign in')),
    ],
    problem,
  )
}

/** The page is the same for every address, so that nobody learns who has an account or an invitation. */
export function signUpSentPage(email: string): Page {
  return plainPage('Check your mail', [
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

/** The page of an installation that takes no new accounts. */
export const signUpClosedPage = (): Page => ({
  ...plainPage('No new accounts', [
    h('p', null, 'This installation accepts no new accounts. Ask its operator.'),
    h('p', null, h('a', { href: signInPath }, 'Sign in')),
  ]),
  status: 403,
})
