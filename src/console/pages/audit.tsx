import type { ComponentChild } from 'preact'
import type { AnswerOf } from '../../api/routes/index.ts'
import { auditEvents } from '../../contract/audit-events.ts'
import {
  auditPath,
  connectionPath,
  filePath,
  groupsPath,
  inboxPath,
  labelRulePath,
  memoryPath,
  rulesPath,
  settingsPath,
  toolPath,
  webhookPath,
  workflowPath,
} from '../../contract/pages.ts'
import { list } from '../../policy/text.ts'
import { Diff } from '../parts/contents.tsx'
import { PostForm } from '../parts/layout.tsx'
import { addressOf, Choice, chosenOf, Empty, Field, Filters, Pager, Table } from '../parts/list.tsx'
import { settingTitles } from '../parts/setting-words.ts'
import { Moment, Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { capital, LongText, OrganizationName, Words } from '../parts/words.tsx'
import { organizationId, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { dayAfter, runsPath } from './runs.tsx'

/* `/console/audit`: admins read, verify and export the audit log. */

type Log = AnswerOf<'GET /organizations/{id}/governance/audit'>
type Entry = Log['events'][number]
type Verified = Result<AnswerOf<'GET /organizations/{id}/audit-events/verify'>>

const filters = ['event_type', 'user_id', 'since', 'until', 'search'] as const
const perPage = 50

/** `GET /console/audit` */
export async function auditPage(visit: PersonsVisit, verified: Verified | null = null): Promise<Shown> {
  const chosen = chosenOf(visit.query, [...filters, 'page', 'beyond'])
  const read = await visit.api.call('GET /organizations/{id}/governance/audit', {
    params: { id: organizationId(visit) },
    query: {
      ...chosen,
      per_page: String(perPage),
      people: 'true',
      // The filter names the last day, and the route the first moment after it.
      ...(chosen.until === undefined ? {} : { until: dayAfter(chosen.until) }),
    },
  })
  if (!read.ok) return problemPage(read, visit.place)
  const log = read.body
  return {
    status: 200,
    title: 'Audit log',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Audit log</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>What people, programs and the service did. Nobody can change an entry unseen.</p>
        </header>
        <Proof visit={visit} verified={verified} />
        <Filters path={auditPath} chosen={chosen} names={filters} title="Filter">
          <Choice name="event_type" label="Event" chosen={chosen} options={events} />
          <Choice name="user_id" label="Person" chosen={chosen} options={peopleOf(log, visit)} />
          <Field name="search" label="Text in the entry, or an id" chosen={chosen} />
          <div class="days">
            <Field name="since" label="From the day (UTC)" type="date" chosen={chosen} />
            <Field name="until" label="To the day (UTC)" type="date" chosen={chosen} />
          </div>
        </Filters>
        <Count log={log} />
        {log.events.length === 0 && typeof log.searched?.beyond === 'number' ? null : log.events.length ===
          0 ? (
          <Empty title="No entry is like this.">
            <a href={auditPath}>Show all entries</a>, or choose other days.
          </Empty>
        ) : (
          <Table
            label="Entries"
            head={['Event', 'Who', 'What it is about', 'When']}
            rows={log.events.map((entry) => rowOf(entry, log, visit))}
          />
        )}
        {log.searched === undefined ? (
          <Pager
            path={auditPath}
            chosen={chosen}
            cursor="page"
            next={log.page * perPage < log.total ? String(log.page + 1) : null}
            words={{ first: 'Newest entries', next: 'Older entries' }}
          />
        ) : (
          <Pager
            path={auditPath}
            chosen={chosen}
            cursor="beyond"
            next={log.searched.beyond === null ? null : String(log.searched.beyond)}
            words={{ first: 'From the beginning', next: goesOn[log.searched.order] }}
          />
        )}
      </article>
    ),
  }
}

const goesOn = { newest: 'Search in older entries', oldest: 'Search in later entries' } as const

/** A search says how far it has come, because it reads only so many entries. */
function Count({ log: { total, searched } }: { log: Log }) {
  const count = `${total.toLocaleString('en')} ${total === 1 ? 'entry' : 'entries'}`
  if (searched === undefined || searched.until === null) return <p class="quiet">{count}</p>
  const { beyond, until, order } = searched
  return (
    <p class="quiet" role="status">
      {`${count}. `}
      {beyond === null ? (
        order === 'oldest' ? (
          'All entries since the object was made were searched.'
        ) : (
          'All entries were searched.'
        )
      ) : (
        <>
          {order === 'oldest' ? 'Searched from when the object was made to ' : 'Searched back to '}
          <Moment at={until} />.
        </>
      )}
    </p>
  )
}

export const eventWords = (type: string): string =>
  type === 'workflow.execute'
    ? 'Run accepted or ended'
    : capital((/[a-z]/.test(type) ? type : type.toLowerCase()).replaceAll(/[._]/g, ' '))

/** What happened, and the state where the event's own words do not say it. */
function happened({ event_type: type, action, status }: Entry): readonly [words: string, state: string] {
  const state = status === 'success' ? '' : status.replaceAll('_', ' ')
  if (type === 'workflow.execute') return action === 'finish' ? ['Run ended', state] : ['Run accepted', state]
  const words = eventWords(type)
  return [words, words.endsWith(` ${state}`) ? '' : state]
}

const events = Object.keys(auditEvents)
  .toSorted()
  .map((type) => [type, eventWords(type)] as const)

/** The reader first. A click on a name shows what only that person did. */
const peopleOf = ({ people = [] }: Log, { person }: PersonsVisit) => [
  [person.user.id, `You (${person.user.email})`] as const,
  ...people.flatMap(({ id, name }) => (id === person.user.id ? [] : [[id, name] as const])),
]

function rowOf(entry: Entry, { names }: Log, { now }: PersonsVisit) {
  const [words, state] = happened(entry)
  return [
    <>
      {words}
      {state === '' ? null : (
        <>
          {' '}
          <span class="quiet">
            <Words text={state} most={60} />
          </span>
        </>
      )}
      <Details entry={entry} names={names} />
    </>,
    whoOf(entry, names),
    aboutOf(entry, names),
    <Time at={entry.timestamp} now={now} />,
  ]
}

function whoOf({ actor, user_id: person }: Entry, names: Log['names']) {
  const id = person ?? actor.id
  const name = names[id]
  return name === undefined ? (
    <Words text={actor.type === 'system' ? 'The service' : `${capital(actor.type)} ${actor.id}`} most={100} />
  ) : (
    <a href={addressOf(auditPath, { user_id: id })}>
      <Words text={name} most={200} />
    </a>
  )
}

/** The page of an object, by the field that names it. */
const pageOf: Readonly<Record<string, readonly [string, (id: string) => string]>> = {
  approval_id: ['approval', (id) => `${inboxPath}/${id}`],
  rule_id: ['rule', (id) => `${rulesPath}/${id}`],
  label_rule_id: ['label rule', labelRulePath],
  file_id: ['file', filePath],
  group_id: ['group', (id) => `${groupsPath}/${id}`],
  connection_id: ['connection', connectionPath],
  tool_name: ['tool', toolPath],
  webhook_id: ['webhook', webhookPath],
}

const named: ReadonlySet<string> = new Set(['group', 'label rule', 'rule'])

/** What has no page of its own. */
const withoutPage = [
  ['key_id', 'key'],
  ['account_id', 'service account'],
  ['member_id', 'person'],
] as const

const settingsIn = (changes: unknown): (readonly [string, string, string])[] =>
  Object.keys(typeof changes === 'object' && changes !== null ? changes : {}).map((name) => [
    'setting',
    settingTitles[name] ?? name.replaceAll('_', ' '),
    `${settingsPath}#setting-${name}`,
  ])

function aboutOf(
  { event_type: type, run_id: run, workflow_id: workflow, metadata }: Entry,
  names: Log['names'],
) {
  const textIn = (field: string): string => {
    const given = metadata[field]
    return typeof given === 'string' ? given : ''
  }
  const nameIn = (word: string): string => textIn(`${word}_name`) || textIn('name')
  // A deleted rule keeps its page.
  const isGone = type === 'file.deleted' || type === 'memory.deleted'
  const links: (readonly [word: string, name: string, path: string | null])[] = [
    ...(run === null ? [] : [['run', '', `${runsPath}/${run}`] as const]),
    ...(workflow === null ? [] : [['workflow', names[workflow] ?? '', workflowPath(workflow)] as const]), // prettier-ignore
    ...Object.entries(pageOf).flatMap(([field, [word, path]]) => {
      const id = textIn(field)
      if (id === '') return []
      const name = word === 'tool' ? id : named.has(word) ? nameIn(word) : ''
      return [[word, name, isGone ? null : path(id)] as const]
    }),
    ...(type === 'governance.updated' ? settingsIn(metadata['changes']) : []),
    ...(type.startsWith('memory.')
      ? [['memory', textIn('key'), isGone ? null : memoryPath(textIn('key'))] as const]
      : []),
    ...withoutPage.flatMap(([field, word]) => {
      const id = textIn(field)
      return id === '' ? [] : [[word, names[id] ?? (word === 'key' ? id : nameIn(word)), null] as const]
    }),
  ]
  if (links.length === 0) return <span class="quiet">–</span>
  return links.map(([word, name, path], place) => (
    <>
      {place === 0 ? '' : ', '}
      {path === null ? (
        <Named word={word} name={name} />
      ) : (
        <a href={path}>
          <Named word={word} name={name} />
        </a>
      )}
    </>
  ))
}

const Named = ({ word, name }: { word: string; name: string }) => (
  <>
    {word}
    {name === '' ? null : (
      <>
        {' '}
        <Words text={name} most={100} />
      </>
    )}
  </>
)

/** `when` says what such an entry means. Before and after stand side by side. */
function Details({ entry, names }: { entry: Entry; names: Log['names'] }) {
  const { before, after, ...rest } = entry.metadata
  const known = (auditEvents as Readonly<Record<string, { readonly when: string } | undefined>>)[entry.event_type] // prettier-ignore
  return (
    <details>
      <summary>
        Details<span class="unseen">{` of entry ${entry.seq}`}</span>
      </summary>
      <div class="stack">
        {known === undefined ? null : <p class="quiet small">{known.when}</p>}
        {before === undefined && after === undefined ? null : (
          <Diff
            diff={{ before: jsonOf(before), after: jsonOf(after) ?? '', skipped: 0 }}
            sides={{ before: 'as it was before', nothing: 'There was nothing before. ', after: 'afterwards' }}
            kind="json"
          />
        )}
        <Facts facts={[...factsOf(rest, names), ['From', entry.ip_address]]} />
        <details class="exact">
          <summary>Exactly as it was written</summary>
          <LongText text={JSON.stringify(entry, null, 2)} kind="json" />
        </details>
      </div>
    </details>
  )
}

const jsonOf = (value: unknown): string | null =>
  value === undefined || value === null ? null : JSON.stringify(value, null, 2)

/** Hashes prove something only in the exact entry. */
const factsOf = (metadata: Entry['metadata'], names: Log['names']) =>
  Object.entries(metadata).flatMap(([field, value]): [string, ComponentChild][] => {
    if (value === null || /_hash$|^policy_version$/.test(field)) return []
    const text = typeof value === 'object' ? JSON.stringify(value) : `${value as string | number | boolean}`
    return [[capital(field.replaceAll('_', ' ')), <Words text={names[text] ?? text} most={500} />]]
  })

function Proof({ visit, verified }: { visit: PersonsVisit; verified: Verified | null }) {
  const api = `/api/v1/organizations/${organizationId(visit)}/audit-events`
  return (
    <section class="card stack" aria-labelledby="proof">
      <h2 id="proof">Is it complete and unchanged?</h2>
      {verified === null ? (
        <p>Each entry has a hash that covers all entries before it. Verify computes them all anew.</p>
      ) : (
        <VerifiedWords verified={verified} />
      )}
      <div class="links">
        <PostForm action={auditPath} token={visit.token}>
          <button class="primary">Verify now</button>
        </PostForm>
        <a class="button" href={`${api}/export`} download={`audit-${organizationId(visit)}.jsonl`}>
          Export all entries
        </a>
        <a class="button" href={`${api}/checkpoint`} download={`checkpoint-${organizationId(visit)}.txt`}>
          Signed checkpoint
        </a>
      </div>
      <p class="quiet small">
        The last line of an export has the checkpoint and the key that checks it. Keep checkpoints elsewhere:{' '}
        <code>countersign verify-audit</code> checks an export without this service.
      </p>
    </section>
  )
}

const reasons: Readonly<Record<string, string>> = {
  hash: 'its content was changed',
  link: 'it does not follow the entry before it',
  gap: 'an entry before it is missing',
  truncated: 'entries at the end are missing',
  foreign: 'the service did not write it',
  checkpoint: 'it is not what the checkpoint outside the database says',
}

function VerifiedWords({ verified }: { verified: Verified }) {
  if (!verified.ok)
    return (
      <p class="alert" role="alert">
        It could not be verified now: <Words text={verified.message} most={1_000} />
      </p>
    )
  const { valid, entries, first_mismatch: wrong } = verified.body
  const count = `${entries.toLocaleString('en')} entries`
  if (valid || wrong === null)
    return (
      <p class="note" role="status">
        {`All ${count} are there, in their order and unchanged, and the checkpoint outside the database agrees.`}
      </p>
    )
  return (
    <p class="alert" role="alert">
      <strong>{`The log was changed. Entry ${wrong.seq.toLocaleString('en')} is wrong: ${reasons[wrong.reason] ?? wrong.reason}.`}</strong>{' '}
      {`Keep the database as it is, and tell ${list(['an owner', 'the operator'], 'and')}.`}
    </p>
  )
}

/** `POST /console/audit` */
export async function verifyAudit(visit: PersonsVisit): Promise<Shown> {
  const params = { id: organizationId(visit) }
  return auditPage(visit, await visit.api.call('GET /organizations/{id}/audit-events/verify', { params }))
}
