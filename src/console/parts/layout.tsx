import type { ComponentChildren } from 'preact'
import { renderToString } from 'preact-render-to-string'
import { accountPath, freezePath, homePath, organizationsPath, searchPath } from '../../contract/pages.ts'
import { areas, placesOf, type Page, type Person } from '../visit.ts'
import { OrganizationName, Words } from './words.tsx'
import { Icon, StandIns } from './state.tsx'
import { ReadersZone } from './time.tsx'
import { visible } from '../../policy/readers/look-alikes.ts'

interface Frame {
  readonly person: Person | null
  readonly token: string
  /** Addresses of the files that the page loads. */
  readonly assets: { readonly style: string; readonly script: string; readonly editor: string }
  readonly place: string
  /** The host of the stand-ins for services. */
  readonly standIns: string | null
}

export function document(page: Page, frame: Frame): string {
  const { assets, person } = frame
  const zone = person?.user.time_zone ?? null
  return `<!doctype html>${renderToString(
    <html lang="en" data-now={new Date().toISOString()} {...(zone === null ? {} : { 'data-zone': zone })}>
      <head>
        <meta charset="utf-8" />
        <title>{`${visible(page.title)} · Countersign`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <link rel="stylesheet" href={assets.style} />
        <script type="module" src={assets.script} />
        {page.script === undefined ? null : <script type="module" src={assets[page.script]} />}
      </head>
      <body class={person === null ? undefined : 'signed-in'}>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <Header frame={frame} />
        <FrozenBanner reason={person?.organization?.frozen ?? null} place={frame.place} />
        {person === null ? null : <Navigation person={person} place={frame.place} />}
        <main id="main" tabindex={-1}>
          <StandIns.Provider value={frame.standIns}>
            <ReadersZone.Provider value={zone ?? 'UTC'}>{page.main}</ReadersZone.Provider>
          </StandIns.Provider>
        </main>
      </body>
    </html>,
  )}`
}

function Header({ frame: { person, token, place } }: { readonly frame: Frame }) {
  return (
    <header class="top">
      <a class="brand" href={homePath}>
        <Mark />
        Countersign
      </a>
      {person === null ? null : (
        <>
          <nav class="daily" aria-label="Daily">
            <Links places={placesOf(person).filter(isDaily)} place={place} />
            <button class="plain" popovertarget="places">
              Menu
            </button>
          </nav>
          <form class="find" method="get" action={searchPath} role="search" aria-label="Everything">
            <Icon name="search" />
            <input
              type="search"
              name="q"
              placeholder="Search"
              aria-label="Search everything"
              aria-keyshortcuts="/ Control+K"
              maxlength={200}
              autocomplete="off"
              spellcheck={false}
            />
            <kbd aria-hidden="true">/</kbd>
          </form>
          <a class="find-page" href={searchPath} aria-label="Search">
            <Icon name="search" />
          </a>
          <details class="account">
            <summary>
              <Icon name="person" />
              <Words text={person.user.email} most={60} />
            </summary>
            <div class="menu">
              <OrganizationSwitch person={person} token={token} />
              <a href={accountPath}>Your account</a>
              <PostForm action="/console/sign-out" token={token}>
                <button class="plain">Sign out</button>
              </PostForm>
            </div>
          </details>
        </>
      )}
    </header>
  )
}

/** Above every page but the one that says more. */
function FrozenBanner({ reason, place }: { reason: string | null; place: string }) {
  if (reason === null || place.startsWith(freezePath)) return null
  return (
    <aside class="frozen" aria-label="Freeze">
      <p>
        <strong>Everything is frozen: every call is denied until an owner unfreezes.</strong>{' '}
        <Words text={reason} most={200} /> <a href={freezePath}>What waits, and who can end it</a>
      </p>
    </aside>
  )
}

/** Stands beside the page. On a phone, the button "Menu" opens it, which needs no script. */
function Navigation({ person, place }: { person: Person; place: string }) {
  const shown = placesOf(person)
  return (
    <nav id="places" class="places" popover="auto" aria-label="Main">
      {areas.map((area) => {
        const own = shown.filter(([, , , each]) => each === area)
        if (own.length === 0) return null
        return (
          <div>
            {area === '' ? null : <p>{area}</p>}
            <Links places={own} place={place} />
          </div>
        )
      })}
    </nav>
  )
}

const Links = ({ places, place }: { places: ReturnType<typeof placesOf>; place: string }) => (
  <>
    {places.map(([path, name]) => (
      <a href={path} {...(isAt(place, path) ? { 'aria-current': 'page' } : {})}>
        {name}
      </a>
    ))}
  </>
)

/** The mark beside them leads home. */
const isDaily = ([path, , , area]: ReturnType<typeof placesOf>[number]): boolean =>
  area === '' && path !== homePath

const isAt = (place: string, path: string): boolean =>
  path === homePath ? place === path : place.startsWith(path)

const Mark = () => (
  <svg class="mark" viewBox="0 0 24 24" width={24} height={24} aria-hidden="true" focusable="false">
    <path
      d="M5 12.5 9 16.5 13.5 10M11 16.5 12.5 16.5 19 7.5"
      fill="none"
      stroke="currentColor"
      stroke-width={2.2}
      stroke-linecap="round"
      stroke-linejoin="round"
    />
  </svg>
)

function OrganizationSwitch({ person, token }: { person: Person; token: string }) {
  const { organization, organizations } = person
  if (organizations.length < 2)
    return (
      <>
        <p>{organization === null ? 'No organization' : <OrganizationName name={organization.name} />}</p>
        {organization?.personal === false ? null : <a href={organizationsPath}>Make an organization</a>}
      </>
    )
  return (
    <PostForm action="/console/organization" token={token}>
      <label for="organization">Organization</label>
      <select id="organization" name="organization_id">
        {organizations.map(({ id, name }) => (
          <option value={id} selected={id === organization?.id}>
            {visible(name.slice(0, 80).toWellFormed())}
          </option>
        ))}
      </select>
      <button class="plain">Switch</button>
    </PostForm>
  )
}

/** A form with this field takes effect only once, even if a second tap sends it again. */
export const OnceField = () => <input type="hidden" name="once" value={crypto.randomUUID()} />

export function PostForm(props: {
  action: string
  token: string
  children?: ComponentChildren
  class?: string
  /** The script sends the form with the action `check` as somebody types. */
  'data-check'?: boolean
  /** For a form with a file. */
  enctype?: 'multipart/form-data'
  /** Opens the answer in another tab. */
  target?: '_blank'
}) {
  const { action, token, children, ...rest } = props
  return (
    <form method="post" action={action} {...rest}>
      <input type="hidden" name="token" value={token} />
      {children}
    </form>
  )
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
  return (
    <div class="live" data-live={name} data-version={version} {...rest}>
      {children}
    </div>
  )
}

/** Until the run has ended, its events tell the script of changes. */
export const pollOf = (runId: string, isOpen: boolean) =>
  isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${runId}/events` } : {}
