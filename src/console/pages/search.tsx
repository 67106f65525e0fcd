import type { ComponentChild } from 'preact'
import { auditEvents } from '../../contract/audit-events.ts'
import { idPrefixes, type IdKind } from '../../contract/ids.ts'
import {
  auditPath,
  connectionPath,
  docsPath,
  groupsPath,
  inboxPath,
  peoplePath,
  rerunPath,
  rulesPath,
  searchPath,
  settingsPath,
  workflowPath,
  workflowsPath,
} from '../../contract/pages.ts'
import { addressOf, Empty } from '../parts/list.tsx'
import { settingTitles } from '../parts/setting-words.ts'
import { RuleStatus, RuleVerdict } from '../parts/rule.tsx'
import { Asks, ApprovalState, RunState } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { capital, whoOf, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, placesOf, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { foundIn } from './documents.tsx'
import { eventWords } from './audit.tsx'
import { runsPath } from './runs.tsx'
import { sessionsPath } from './sessions.tsx'

/* `/console/search`: one field over everything that the reader may see. */

/** Rows of each part. */
const shown = 5
const most = 200

/** `GET /console/search` */
export async function searchPage(visit: PersonsVisit): Promise<Shown> {
  const sought = (visit.query.get('q') ?? '').trim().slice(0, most).toWellFormed()
  const place = placeOfId(sought)
  if (place !== null) return { redirect: place }
  const parts = sought === '' ? [] : await partsOf(visit, sought)
  const found = parts.filter(({ rows }) => rows.length > 0)
  return {
    status: 200,
    title: sought === '' ? 'Search' : `Search: ${sought}`,
    main: (
      <article class="page">
        <header class="headline">
          <h1>Search</h1>
        </header>
        <form method="get" action={searchPath} role="search" aria-label="Search" class="search">
          <div>
            <label for="sought">Name, address or id</label>
            <input
              id="sought"
              name="q"
              value={sought}
              maxlength={most}
              autocomplete="off"
              spellcheck={false}
            />
          </div>
          <button class="primary">Search</button>
        </form>
        {sought === '' ? (
          <p class="quiet">
            Searches {listed(visit)}. An id, such as one of a mail or a log, leads to its page. Press{' '}
            <kbd>/</kbd> on any page to search.
          </p>
        ) : found.length === 0 ? (
          <Empty title="Nothing is like this.">
            Try another part of the name. What you may not see is not searched.
          </Empty>
        ) : (
          found.map((part) => <Found part={part} />)
        )}
      </article>
    ),
  }
}

const listed = (visit: PersonsVisit): string =>
  [
    'workflows, runs',
    ...(isAtLeast(visit, 'member') ? [', approvals, rules'] : []),
    ...(isAtLeast(visit, 'owner') ? [', people'] : []),
    ...(isAtLeast(visit, 'admin') ? [', events of the audit log'] : []),
    ', documents and pages',
  ].join('')

/** The page of an object, by the kind of its id. */
const pageOfKind: Partial<Record<IdKind, (id: string) => string>> = {
  workflow: workflowPath,
  run: (id) => `${runsPath}/${id}`,
  approval: (id) => `${inboxPath}/${id}`,
  rule: (id) => `${rulesPath}/${id}`,
  session: (id) => `${sessionsPath}/${id}`,
  connection: connectionPath,
  group: (id) => `${groupsPath}/${id}`,
  key: (id) => `/console/keys/${id}`,
  rerun: rerunPath,
  user: (id) => addressOf(auditPath, { user_id: id }),
  event: (id) => addressOf(auditPath, { search: id }),
}

/** null for a text that is not an id with a page. */
function placeOfId(text: string): string | null {
  const [, prefix] = /^([a-z]+)_[0-9A-Z]{26}$/.exec(text) ?? []
  const kind = (Object.keys(pageOfKind) as IdKind[]).find((each) => idPrefixes[each] === prefix)
  return kind === undefined ? null : (pageOfKind[kind]?.(text) ?? null)
}

interface Part {
  readonly title: string
  readonly rows: readonly Row[]
  /** Where all of them are; null if these are all. */
  readonly all: string | null
}

interface Row {
  readonly path: string
  readonly name: ComponentChild
  readonly about: ComponentChild
}

/** The lists are read at the same time. Those that the reader's role may not see are not. */
async function partsOf(visit: PersonsVisit, sought: string): Promise<readonly Part[]> {
  const isMember = isAtLeast(visit, 'member')
  const read = await Promise.all([
    workflows(visit, sought),
    runs(visit, sought),
    isMember || placesOf(visit.person).some(([path]) => path === inboxPath) ? approvals(visit, sought) : null,
    isMember ? rules(visit, sought) : null,
    isAtLeast(visit, 'owner') ? people(visit, sought) : null,
  ])
  return [
    pages(visit, sought),
    ...read.filter((part) => part !== null),
    ...(isAtLeast(visit, 'admin') ? [events(sought)] : []),
    documents(visit, sought),
  ]
}

interface List<T> {
  readonly data: readonly T[]
  readonly next_cursor: string | null
}

function part<T>(title: string, answer: Result<List<T>>, all: string, rowOf: (item: T) => Row): Part {
  if (!answer.ok) return { title, rows: [], all: null }
  return {
    title,
    rows: answer.body.data.map(rowOf),
    all: answer.body.next_cursor === null ? null : all,
  }
}

const queryOf = (visit: PersonsVisit, sought: string) => ({
  organization_id: organizationId(visit),
  limit: String(shown),
  search: sought,
})
const ofOrganization = (visit: PersonsVisit, sought: string) => ({
  params: { id: organizationId(visit) },
  query: { limit: String(shown), search: sought },
})

async function workflows(visit: PersonsVisit, sought: string): Promise<Part> {
  const answer = await visit.api.call('GET /workflows', { query: queryOf(visit, sought) })
  return part('Workflows', answer, addressOf(workflowsPath, { search: sought }), (each) => ({
    path: workflowPath(each.id),
    name: <Words text={each.name} most={120} />,
    about: each.description === '' ? each.slug : <Words text={each.description} most={120} />,
  }))
}

async function runs(visit: PersonsVisit, sought: string): Promise<Part> {
  const query = { organization_id: organizationId(visit), limit: String(shown), workflow_name: sought }
  const answer = await visit.api.call('GET /runs', { query })
  return part('Runs', answer, addressOf(runsPath, { workflow_name: sought }), (each) => ({
    path: `${runsPath}/${each.id}`,
    name: <Words text={each.workflow_name ?? 'A run'} most={120} />,
    about: (
      <>
        <RunState status={each.status} /> <Words text={whoOf(each.requester_email)} most={120} />,{' '}
        <Time at={each.created_at} now={visit.now} />
      </>
    ),
  }))
}

async function approvals(visit: PersonsVisit, sought: string): Promise<Part> {
  const answer = await visit.api.call('GET /approvals', { query: queryOf(visit, sought) })
  return part('Approvals', answer, addressOf(inboxPath, { search: sought }), (each) => ({
    path: `${inboxPath}/${each.id}`,
    name: <Asks approval={each} />,
    about: (
      <>
        <ApprovalState approval={each} />{' '}
        <Words text={whoOf(each.requester_email ?? each.requested_by)} most={120} />,{' '}
        <Time at={each.created_at} now={visit.now} />
      </>
    ),
  }))
}

async function rules(visit: PersonsVisit, sought: string): Promise<Part> {
  const answer = await visit.api.call('GET /organizations/{id}/rules', ofOrganization(visit, sought))
  return part('Rules', answer, addressOf(rulesPath, { search: sought }), (each) => ({
    path: `${rulesPath}/${each.id}`,
    name: <Words text={each.name} most={200} />,
    about: (
      <>
        <RuleVerdict verdict={each.verdict} /> <RuleStatus status={each.status} />
      </>
    ),
  }))
}

async function people(visit: PersonsVisit, sought: string): Promise<Part> {
  const answer = await visit.api.call('GET /organizations/{id}/members', ofOrganization(visit, sought))
  return part('People', answer, addressOf(peoplePath, { search: sought }), (each) => ({
    path: addressOf(peoplePath, { search: each.email }),
    name: <Words text={each.name} most={100} />,
    about: (
      <>
        <Words text={each.email} most={254} />, {capital(each.role)}.{' '}
        <a href={addressOf(auditPath, { user_id: each.user_id })}>
          What they did<span class="unseen">{`: ${each.email}`}</span>
        </a>
      </>
    ),
  }))
}

const has = (text: string, sought: string): boolean => text.toLowerCase().includes(sought.toLowerCase())

function pages(visit: PersonsVisit, sought: string): Part {
  const rows = placesOf(visit.person)
    .filter(([, name]) => has(name, sought))
    .map(([path, name, , area]): Row => ({ path, name, about: area }))
  if (isAtLeast(visit, 'admin'))
    for (const [name, title] of Object.entries(settingTitles))
      if (has(title, sought) || name === sought)
        rows.push({ path: `${settingsPath}#setting-${name}`, name: title, about: 'Settings and limits' })
  return { title: 'Pages', rows: rows.slice(0, shown), all: null }
}

function documents(visit: PersonsVisit, sought: string): Part {
  const found = foundIn(visit, sought)
  const rows = found.slice(0, shown).map(({ path, title, within }) => ({ path, name: title, about: within }))
  return {
    title: 'Documents',
    rows,
    all: found.length > shown ? addressOf(docsPath, { search: sought }) : null,
  }
}

/** Kinds of entries, and all entries that have the text. */
function events(sought: string): Part {
  const kinds = Object.entries(auditEvents)
    .filter(([type]) => has(eventWords(type), sought) || type === sought)
    .map(([type, { when }]) => ({
      path: addressOf(auditPath, { event_type: type }),
      name: eventWords(type),
      about: when,
    }))
  const anywhere = {
    path: addressOf(auditPath, { search: sought }),
    name: (
      <>
        Entries with “<Words text={sought} most={60} />”
      </>
    ),
    about: 'Anywhere in an entry: an id, an address, a name.',
  }
  return { title: 'Audit log', rows: [anywhere, ...kinds.slice(0, shown - 1)], all: null }
}

function Found({ part: { title, rows, all } }: { part: Part }) {
  const id = title.toLowerCase().replace(' ', '-')
  return (
    <section class="stack" aria-labelledby={id}>
      <div class="split">
        <h2 id={id}>{title}</h2>
        {all === null ? null : (
          <a href={all}>
            Show all<span class="unseen">{` ${title.toLowerCase()}`}</span>
          </a>
        )}
      </div>
      <ul class="inbox">
        {rows.map(({ path, name, about }) => (
          <li class="item">
            <div class="item-words">
              <a class="item-link" href={path}>
                {name}
              </a>
              {about === null || about === '' ? null : <p class="quiet small">{about}</p>}
            </div>
          </li>
        ))}
      </ul>
    </section>
  )
}
