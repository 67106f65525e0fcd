import { h } from 'preact'
import { homePath, invitationPath, signInPath, signUpPath } from '../../contract/pages.ts'
import { PostForm } from '../parts/layout.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

/** Explains to a person who is not signed in how to accept the invitation. */
export function invitedPage(invitation: string, signUp: boolean): Page {
  const back = encodeURIComponent(`${invitationPath}?token=${invitation}`)
  return plainPage('An invitation', [
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

/**
 * Lets a signed-in person accept the invitation. Opening the link does not accept it; the person must press the button.
 */
export function acceptPage(given: {
  readonly invitation: string
  readonly email: string
  readonly token: string
  readonly problem: Refusal | null
}): Page {
  return plainPage(
    'An invitation',
    [
      h('p', null, ['You are signed in as ', h('strong', null, h(Words, { text: given.email })), '.']),
      h(PostForm, { action: invitationPath, token: given.token, class: 'fill' }, [
        h('input', { type: 'hidden', name: 'invitation', value: given.invitation }),
        h('button', { class: 'primary' }, 'Accept the invitation'),
      ]),
      h(
        'p',
        { class: 'quiet small' },
        'Only the person with the invited address can accept it. If it was sent to another address of yours, sign out first.',
      ),
    ],
    given.problem,
  )
}

export const joinedPage = ({ name, role }: { readonly name: string; readonly role: string }): Page =>
  plainPage('You have joined', [
    h('p', null, ['You are now ', role, ' of ', h('strong', null, h(Words, { text: name })), '.']),
    h('p', null, h('a', { class: 'button', href: homePath }, 'Continue')),
  ])

/** The page for a link whose token cannot be valid. */
export const noInvitationPage = (): Page => ({
  ...plainPage('An invitation', [
    h('p', null, 'This address has no invitation. Open the whole link of the mail.'),
  ]),
  status: 404,
})
