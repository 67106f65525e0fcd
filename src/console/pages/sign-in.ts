import { h } from 'preact'
import { confirmPath, resetPath, signInPath, signUpPath } from '../../contract/pages.ts'
import { Code, Email, Field } from '../parts/field.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

export interface SignIn {
  /** The path to open after the sign-in. */
  readonly place: string
  readonly email: string
  /** Whether people can create accounts here. */
  readonly signUp: boolean
  readonly problem: Refusal | null
}

export function signInPage({ place, email, signUp, problem }: SignIn): Page {
  return plainPage(
    'Sign in',
    [
      h('form', { method: 'post', action: signInPath, class: 'fill' }, [
        h('input', { type: 'hidden', name: 'return', value: place }),
        h(Email, { value: email }),
        h(Field, {
          name: 'password',
          label: 'Password',
          type: 'password',
          autocomplete: 'current-password',
          most: 128,
        }),
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
    ],
    problem,
  )
}

/** The page for the second step of a sign-in. The person enters a code of the authenticator app, or a backup code. */
export function codePage({ place, problem }: Pick<SignIn, 'place' | 'problem'>): Page {
  return plainPage(
    'Second factor',
    [
      h('form', { method: 'post', action: `${signInPath}/code`, class: 'fill' }, [
        h('input', { type: 'hidden', name: 'return', value: place }),
        h(Code, null),
        h('button', { class: 'primary' }, 'Continue'),
      ]),
      h(
        'p',
        null,
        h(
          'a',
          { href: `${signInPath}?return=${encodeURIComponent(place)}` },
          'Start again with the password',
        ),
      ),
    ],
    problem,
  )
}
