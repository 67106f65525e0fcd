import { h, type ComponentChildren } from 'preact'
import { encode } from 'uqr'
import { secondFactorPath } from '../../contract/pages.ts'
import { Code, FirstCode, Password } from '../parts/field.ts'
import { PostForm } from '../parts/layout.ts'
import { Badge } from '../parts/state.ts'
import { Words } from '../parts/words.ts'
import type { Page } from '../visit.ts'
import { plainPage, type Refusal } from './plain.ts'

export interface FactorVisit {
  readonly token: string
  readonly place: string
  readonly problem: Refusal | null
}

function ActionForm(props: { visit: FactorVisit; action: string; children?: ComponentChildren }) {
  const {
    visit: { token, place },
    action,
    children,
  } = props
  return h(PostForm, { action: secondFactorPath, token, class: 'fill' }, [
    h('input', { type: 'hidden', name: 'return', value: place }),
    h('input', { type: 'hidden', name: 'action', value: action }),
    children,
  ])
}

const Back = ({ visit }: { visit: FactorVisit }) =>
  h('p', { class: 'links' }, h('a', { href: visit.place }, 'Back'))

export const beginFactorPage = (visit: FactorVisit): Page =>
  plainPage('Add a second factor', visit.problem, [
    h('p', null, [
      'With a second factor, a sign-in needs your password and a code of an authenticator app on your phone.',
    ]),
    h(ActionForm, { visit, action: 'begin' }, [
      h(Password, null),
      h('button', { class: 'primary' }, 'Continue'),
    ]),
    h(Back, { visit }),
  ])

/** A second factor may be added only after the confirmation. */
export const confirmFirstPage = (visit: FactorVisit): Page =>
  plainPage('Confirm your address first', visit.problem, [
    h('p', null, 'A second factor can be added once your e-mail address is confirmed.'),
    h(ActionForm, { visit, action: 'mail' }, h('button', { class: 'primary' }, 'Send the mail again')),
    h(Back, { visit }),
  ])

export const mailSentPage = (): Page =>
  plainPage('Check your mail', null, [
    h('p', null, 'A mail with a link that confirms your address is on its way.'),
    h('p', null, h('a', { href: secondFactorPath }, 'Then come back here')),
  ])

/** No later page shows these codes or this key again. */
export function enrolPage(visit: FactorVisit, uri: string, codes: readonly string[]): Page {
  const key = new URL(uri).searchParams.get('secret') ?? ''
  return plainPage('Add a second factor', visit.problem, [
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
        h('p', { class: 'small' }, [
          'Each is good for one sign-in without the phone. They are shown only now.',
        ]),
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
  ])
}

const Codes = ({ codes }: { codes: readonly string[] }) =>
  h('ul', { class: 'codes' }, [codes.map((code) => h('li', null, h('code', null, code)))])

/** After a wrong first code. The app already has the key. */
export const enrolAgainPage = (visit: FactorVisit): Page =>
  plainPage('Add a second factor', visit.problem, [
    h('p', null, 'The key is in your app. Type the code that the app shows now.'),
    h(ActionForm, { visit, action: 'verify' }, [
      h(FirstCode, null),
      h('button', { class: 'primary' }, 'Turn it on'),
    ]),
    h('p', { class: 'links' }, [
      h('a', { href: secondFactorPath }, 'Start again with a new key'),
      h('a', { href: visit.place }, 'Back'),
    ]),
  ])

/** For a person who has a second factor, but signed in without it. */
export const proveFactorPage = (visit: FactorVisit): Page =>
  plainPage('Second factor', visit.problem, [
    h('p', null, 'This session was opened without your second factor.'),
    h(ActionForm, { visit, action: 'prove' }, [h(Code, null), h('button', { class: 'primary' }, 'Continue')]),
    h(Back, { visit }),
  ])

export interface KeyToConfirm {
  readonly id: string
  readonly name: string
  readonly last4: string
}

export function factorOnPage(visit: FactorVisit, keys: readonly KeyToConfirm[]): Page {
  return plainPage('Second factor', visit.problem, [
    h('p', { class: 'badges' }, h(Badge, { tone: 'good', word: 'It is on' })),
    keys.length === 0
      ? null
      : h('section', { class: 'stack', 'aria-labelledby': 'keys' }, [
          h('h2', { id: 'keys' }, 'API keys to confirm'),
          h('p', { class: 'quiet small' }, [
            'These keys were made without a factor. The organization refuses them until you confirm them.',
          ]),
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
  ])
}

export const newCodesPage = (codes: readonly string[]): Page =>
  plainPage('New backup codes', null, [
    h('p', null, 'Each is good for one sign-in. They are shown only now, and the codes before have ended.'),
    h(Codes, { codes }),
    h('p', null, h('a', { class: 'button', href: secondFactorPath }, 'I have kept them')),
  ])

/** Modules of the empty border that readers of QR codes need. */
const quiet = 4

/** Dark on light in every theme, because many readers accept no other colours. */
function QrCode({ text, label }: { text: string; label: string }) {
  const { data, size } = encode(text, { border: 0 })
  const path = data.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + quiet} ${y + quiet}h1v1h-1z`] : [])),
  )
  const side = size + 2 * quiet
  return h('svg', { class: 'qr', viewBox: `0 0 ${side} ${side}`, role: 'img', 'aria-label': label }, [
    h('rect', { width: side, height: side, fill: '#ffffff' }),
    h('path', { d: path.join(''), fill: '#000000' }),
  ])
}
