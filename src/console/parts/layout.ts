import { h, type ComponentChildren } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { accountPath, homePath } from '../../contract/pages.ts'
import { placesOf, type Page, type Person } from '../visit.ts'
import { OrganizationName, Words } from './words.ts'
import { Icon } from './state.ts'
import { visible } from '../../policy/readers/look-alikes.ts'

interface Frame {
  readonly person: Person | null
  readonly token: string
  /** Addresses of the files that the page loads. */
  readonly assets: { readonly style: string; readonly script: string }
  readonly place: string
}

export function document(page: Page, frame: Frame): string {
  const { assets } = frame
  return `<!doctype html>${renderToString(
    h('html', { lang: 'en', 'data-now': new Date().toISOString() }, [
      h('head', null, [
        h('meta', { charset: 'utf-8' }),
        h('title', null, `${visible(page.title)} · Countersign`),
        h('meta', { name: 'viewport', content: 'width=device-width, initial-scale=1' }),
        h('meta', { name: 'color-scheme', content: 'light dark' }),
        h('link', { rel: 'stylesheet', href: assets.style }),
        h('script', { type: 'module', src: assets.script }),
      ]),
      h('body', null, [
        h('a', { class: 'skip', href: '#main' }, 'Skip to the content'),
        h(Header, { frame }),
        h('main', { id: 'main', tabindex: -1 }, page.main),
      ]),
    ]),
  )}`
}

function Header({ frame: { person, token, place } }: { readonly frame: Frame }) {
  const shown = person === null ? [] : placesOf(person)
  return h('header', { class: 'top' }, [
    h('a', { class: 'brand', href: homePath }, [h(Mark, null), 'Countersign']),
    person === null
      ? null
      : [
          h('nav', { 'aria-label': 'Main' }, [
            shown.map(([path, name]) =>
              h('a', { href: path, ...(place.startsWith(path) ? { 'aria-current': 'page' } : {}) }, name),
            ),
          ]),
          h('details', { class: 'account' }, [
            h('summary', null, [
              h(Icon, { name: 'person' }),
              h(Words, { text: person.user.email, most: 60 }),
            ]),
            h('div', { class: 'menu' }, [
              h(OrganizationSwitch, { person, token }),
              h('a', { href: accountPath }, 'Your account'),
              h(PostForm, { action: '/console/sign-out', token }, [
                h('button', { class: 'plain' }, 'Sign out'),
              ]),
            ]),
          ]),
        ],
  ])
}

const Mark = () =>
  h(
    'svg',
    { class: 'mark', viewBox: '0 0 24 24', width: 24, height: 24, 'aria-hidden': 'true', focusable: 'false' },
    [
      h('path', {
        d: 'M5 12.5 9 16.5 13.5 10M11 16.5 12.5 16.5 19 7.5',
        fill: 'none',
        stroke: 'currentColor',
        'stroke-width': 2.2,
        'stroke-linecap': 'round',
        'stroke-linejoin': 'round',
      }),
    ],
  )

function OrganizationSwitch({ person, token }: { person: Person; token: string }) {
  const { organization, organizations } = person
  if (organizations.length < 2)
    return h('p', null, [
      organization === null ? 'No organization' : h(OrganizationName, { name: organization.name }),
    ])
  return h(PostForm, { action: '/console/organization', token }, [
    h('label', { for: 'organization' }, 'Organization'),
    h('select', { id: 'organization', name: 'organization_id' }, [
      organizations.map(({ id, name }) =>
        h('option', { value: id, selected: id === organization?.id }, [
          visible(name.slice(0, 80).toWellFormed()),
        ]),
      ),
    ]),
    h('button', { class: 'plain' }, 'Switch'),
  ])
}

/** A form with this field takes effect only once, even if a second tap sends it again. */
export const OnceField = () => h('input', { type: 'hidden', name: 'once', value: crypto.randomUUID() })

export function PostForm(props: {
  action: string
  token: string
  children?: ComponentChildren
  class?: string
}) {
  const { action, token, children, ...rest } = props
  return h('form', { method: 'post', action, ...rest }, [
    h('input', { type: 'hidden', name: 'token', value: token }),
    children,
  ])
}

/**
 * A part of a page that the script replaces when its version has changed, so the version must change with everything in
 * it. The script replaces only elements that exist, so an empty part has one too.
 */
export function Live(props: {
  readonly name: string
  readonly version: string
  readonly children?: ComponentChildren
  /** The script checks the page for changes as long as a part has this. */
  readonly 'data-poll'?: string | undefined
  readonly 'data-events'?: string | undefined
}) {
  const { name, version, children, ...rest } = props
  return h('div', { class: 'live', 'data-live': name, 'data-version': version, ...rest }, children)
}

/** Until the run has ended, its events tell the script of changes. */
export const pollOf = (runId: string, isOpen: boolean) =>
  isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${runId}/events` } : {}
