import { h } from 'preact'
import { Alert } from '../parts/alert.ts'
import type { Page } from '../visit.ts'

export interface SignIn {
  /** Where to go then. */
  readonly place: string
  readonly email: string
  readonly problem: Refusal | null
}

/** Why the attempt before failed. */
export interface Refusal {
  /** 429 after too many attempts, else 401. */
  readonly status: number
  readonly message: string
}

export function signInPage({ place, email, problem }: SignIn): Page {
  return {
    status: problem?.status ?? 200,
    title: 'Sign in',
    main: h('article', { class: 'narrow card' }, [
      h('h1', null, 'Sign in'),
      h(Alert, { message: problem?.message ?? null }),
      h('form', { method: 'post', action: '/console/sign-in', class: 'stack' }, [
        h('input', { type: 'hidden', name: 'return', value: place }),
        h('label', { for: 'email' }, 'E-mail address'),
        h('input', {
          id: 'email',
          name: 'email',
          type: 'email',
          autocomplete: 'username',
          required: true,
          maxlength: 254,
          value: email,
        }),
        h('label', { for: 'password' }, 'Password'),
        h('input', {
          id: 'password',
          name: 'password',
          type: 'password',
          autocomplete: 'current-password',
          required: true,
          maxlength: 128,
        }),
        h('button', { class: 'primary' }, 'Sign in'),
      ]),
    ]),
  }
}

/** The second step: a code of the authenticator app, or a backup code. */
export function codePage({ place, problem }: Omit<SignIn, 'email'>): Page {
  return {
    status: problem?.status ?? 200,
    title: 'Second factor',
    main: h('article', { class: 'narrow card' }, [
      h('h1', null, 'Second factor'),
      h(Alert, { message: problem?.message ?? null }),
      h('form', { method: 'post', action: '/console/sign-in/code', class: 'stack' }, [
        h('input', { type: 'hidden', name: 'return', value: place }),
        h('label', { for: 'code' }, 'Code of your authenticator app, or a backup code'),
        h('input', {
          id: 'code',
          name: 'code',
          autocomplete: 'one-time-code',
          inputmode: 'text',
          required: true,
          maxlength: 40,
          spellcheck: false,
        }),
        h('button', { class: 'primary' }, 'Go on'),
      ]),
      h('p', null, h('a', { href: '/console/sign-in' }, 'Start again')),
    ]),
  }
}
