import { h, type ComponentChild, type ComponentChildren } from 'preact'
import { secondFactorPath } from '../../contract/pages.ts'
import { Code, Field, FirstCode } from '../parts/field.ts'
import { PostForm } from '../parts/layout.ts'
import { QrCode } from '../parts/qr-code.ts'
import { Badge } from '../parts/state.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

/** The data about a signed-in person that the pages of the second factor need. */
export interface FactorVisit {
  readonly token: string
  /** The path to open after the person has proven the second factor. */
  readonly place: string
  readonly problem: Refusal | null
}

function ActionForm({
  visit: { token, place },
  action,
  children,
}: {
  readonly visit: FactorVisit
  readonly action: string
  readonly children?: ComponentChildren
}): ComponentChild {
  return h(PostForm, { action: secondFactorPath, token, class: 'fill' }, [
    h('input', { type: 'hidden', name: 'return', value: place }),
    h('input', { type: 'hidden', name: 'action', value: action }),
    children,
  ])
}

/** Shows a link back to the page that the person came from. */
const Back = ({ visit }: { readonly visit: FactorVisit }): ComponentChild =>
  h('p', { class: 'links' }, h('a', { href: visit.place }, 'Back'))

const Password = (): ComponentChild =>
  h(Field, {
    name: 'password',
    label: 'Password',
    type: 'password',
    autocomplete: 'current-password',
    most: 128,
  })

/** The page for a person without a second factor. */
export const beginFactorPage = (visit: FactorVisit): Page =>
  plainPage(
    'Add a second factor',
    [
      h(
        'p',
        null,
        'With a second factor, a sign-in needs your password and a code of an authenticator app on your phone.',
      ),
      h(ActionForm, { visit, action: 'begin' }, [
        h(Password, null),
        h('button', { class: 'primary' }, 'Continue'),
      ]),
      h(Back, { visit }),
    ],
    visit.problem,
  )

/** The page for a person whose address is not confirmed. A second factor may be added only after the confirmation. */
export const confirmFirstPage = (visit: FactorVisit): Page =>
  plainPage(
    'Confirm your address first',
    [
      h('p', null, 'A second factor can be added once your e-mail address is confirmed.'),
      h(ActionForm, { visit, action: 'mail' }, h('button', { class: 'primary' }, 'Send the mail again')),
      h(Back, { visit }),
    ],
    visit.problem,
  )

export const mailSentPage = (): Page =>
  plainPage('Check your mail', [
    h('p', null, 'A mail with a link that confirms your address is on its way.'),
    h('p', null, h('a', { href: secondFactorPath }, 'Then come back here')),
  ])

/** Shows the backup codes, and the key for the authenticator app. No later page shows these codes or this key again. */
export function enrolPage(visit: FactorVisit, uri: string, codes: readonly string[]): Page {
  const key = new URL(uri).searchParams.get('secret') ?? ''
  return plainPage(
    'Add a second factor',
    [
      h('ol', { class: 'steps' }, [
        h('li', { class: 'stack' }, [
          h('h2', null, 'Add the key to your authenticator app'),
          h(QrCode, { text: uri, label: 'QR code with the key for your authenticator app' }),
          h('p', { class: 'small' }, [
            'On this phone? ',
            h('a', { href: uri }, 'Open the app'),
            ', or type the key: ',
            h('code', null, key.replaceAll(/(.{4})(?=.)/g, '$1 ')),
          ]),
        ]),
        h('li', { class: 'stack' }, [
          h('h2', null, 'Keep the backup codes'),
          h(
            'p',
            { class: 'small' },
            'Each is good for one sign-in without the phone. They are shown only now.',
          ),
          h(Codes, { codes }),
        ]),
        h('li', { class: 'stack' }, [
          h('h2', null, 'Type the code that the app shows'),
          h(ActionForm, { visit, action: 'verify' }, [
            h(FirstCode, null),
            h('button', { class: 'primary' }, 'Turn it on'),
          ]),
          h('p', { class: 'quiet small' }, 'It ends your sessions on other devices.'),
        ]),
      ]),
      h(Back, { visit }),
    ],
    visit.problem,
  )
}

const Codes = ({ codes }: { readonly codes: readonly string[] }): ComponentChild =>
  h(
    'ul',
    { class: 'codes' },
    codes.map((code) => h('li', null, h('code', null, code))),
  )

/** The page after a wrong first code. The app already has the key, so the page does not show the key again. */
export const enrolAgainPage = (visit: FactorVisit): Page =>
  plainPage(
    'Add a second factor',
    [
      h('p', null, 'The key is in your app. Type the code that the app shows now.'),
      h(ActionForm, { visit, action: 'verify' }, [
        h(FirstCode, null),
        h('button', { class: 'primary' }, 'Turn it on'),
      ]),
      h('p', { class: 'links' }, [
        h('a', { href: secondFactorPath }, 'Start again with a new key'),
        h('a', { href: visit.place }, 'Back'),
      ]),
    ],
    visit.problem,
  )

/** Asks a person for the second factor. The person has a second factor, but signed in without this factor. */
export const proveFactorPage = (visit: FactorVisit): Page =>
  plainPage(
    'Second factor',
    [
      h('p', null, 'This session was opened without your second factor.'),
      h(ActionForm, { visit, action: 'prove' }, [
        h(Code, null),
        h('button', { class: 'primary' }, 'Continue'),
      ]),
      h(Back, { visit }),
    ],
    visit.problem,
  )

export interface KeyToConfirm {
  readonly id: string
  readonly name: string
  readonly last4: string
}

/** The page for a sign-in session with the second factor. The person can confirm API keys, or get new backup codes. */
export function factorOnPage(visit: FactorVisit, keys: readonly KeyToConfirm[]): Page {
  return plainPage(
    'Second factor',
    [
      h('p', { class: 'badges' }, h(Badge, { tone: 'good', word: 'It is on' })),
      keys.length === 0
        ? null
        : h('section', { class: 'stack', 'aria-labelledby': 'keys' }, [
            h('h2', { id: 'keys' }, 'API keys to confirm'),
            h(
              'p',
              { class: 'quiet small' },
              'These keys were made without a factor. The organization refuses them until you confirm them.',
            ),
            keys.map(({ id, name, last4 }) =>
              h(ActionForm, { visit, action: 'key' }, [
                h('input', { type: 'hidden', name: 'key', value: id }),
                h('p', null, [h(Words, { text: name, most: 100 }), ` (…${last4})`]),
                h('button', { 'aria-label': `Confirm the key that ends in ${last4}` }, 'Confirm'),
              ]),
            ),
          ]),
      h('details', null, [
        h('summary', null, 'New backup codes'),
        h(ActionForm, { visit, action: 'codes' }, [h(Password, null), h('button', null, 'Show new codes')]),
      ]),
      h('p', null, h('a', { class: 'button', href: visit.place }, 'Continue')),
    ],
    visit.problem,
  )
}

export const newCodesPage = (codes: readonly string[]): Page =>
  plainPage('New backup codes', [
    h('p', null, 'Each is good for one sign-in. They are shown only now, and the codes before have ended.'),
    h(Codes, { codes }),
    h('p', null, h('a', { class: 'button', href: secondFactorPath }, 'I have kept them')),
  ])
