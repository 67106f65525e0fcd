import { h } from 'preact'
import type { Page as ListPage } from '../../governance/page.ts'
import type { RunHead } from '../../governance/runs/read/read.ts'
import { chosenOf, Pager, Choice, Field, Filters } from '../parts/filters.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './plain.ts'
import { runEnded, runStatuses } from '../../contract/status.ts'
import { countedFromOne } from '../parts/items.ts'
import { Live } from '../parts/layout.ts'
import { OrganizationName, Message, Words } from '../parts/words.ts'
import { RunState, wordOf } from '../parts/state.ts'
import { duration, Time } from '../parts/time.ts'

export async function runsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...runFilters, 'cursor'])
  const { from, to, ...same } = chosen
  const listed = await visit.api.call<ListPage<RunHead>>('GET /runs', {
    query: {
      limit: '50',
      ...(organization === null ? {} : { organization_id: organization.id }),
      ...same,
      ...(from === undefined ? {} : { since: from }),
      ...(to === undefined ? {} : { until: dayAfter(to) }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Runs',
    main: h(Runs, {
      runs: listed.body.data,
      next: listed.body.next_cursor,
      chosen,
      organization: organization?.name ?? null,
      now: visit.now,
    }),
  }
}

/** The API's search ends at the beginning of a day, so this one includes `day`. A text that is not a day stays. */
function dayAfter(day: string): string {
  const time = Date.parse(`${day}T00:00:00Z`)
  return /^\d{4}-\d\d-\d\d$/.test(day) && !Number.isNaN(time)
    ? new Date(time + 86_400_000).toISOString().slice(0, 10)
    : day
}

export const runsPath = '/console/runs'
/** Dates are days in UTC. */
export const runFilters = ['workflow_name', 'status', 'requester_email', 'from', 'to'] as const

export interface RunsProps {
  readonly runs: readonly RunHead[]
  readonly next: string | null
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: string | null
  readonly now: Date
}

export function Runs({ runs, next, chosen, organization, now }: RunsProps) {
  const isSearch = runFilters.some((name) => chosen[name] !== undefined)
  const version = runs.map(({ id, status, status_reason }) => `${id}${status}${status_reason}`).join(' ')
  const isMoving = runs.some(({ status }) => !runEnded(status))
  return h('article', { class: 'page' }, [
    h('header', { class: 'headline' }, [
      h('h1', null, 'Runs'),
      organization === null ? null : h('p', { class: 'quiet' }, h(OrganizationName, { name: organization })),
    ]),
    h(Search, { chosen }),
    h(Live, { name: 'runs', version, ...(isMoving ? { 'data-poll': '' } : {}) }, [
      runs.length === 0
        ? h(Nothing, { isSearch: isSearch || chosen['cursor'] !== undefined })
        : h('ul', { class: 'inbox' }, [runs.map((run) => h(Row, { run, now }))]),
    ]),
    h(Pager, {
      path: runsPath,
      chosen,
      cursor: 'cursor',
      next,
      words: { first: 'Newest runs', next: 'Older runs' },
    }),
  ])
}

function Search({ chosen }: { chosen: Readonly<Record<string, string>> }) {
  const states = runStatuses.map((each) => [each, wordOf(each)] as const)
  return h(Filters, { path: runsPath, chosen, names: runFilters, title: 'Filter' }, [
    h(Field, { name: 'workflow_name', label: 'Workflow', chosen }),
    h(Choice, { name: 'status', label: 'State', chosen, options: states }),
    h(Field, { name: 'requester_email', label: 'Started by', chosen }),
    h('div', { class: 'days' }, [
      h(Field, { name: 'from', label: 'From (UTC)', type: 'date', chosen }),
      h(Field, { name: 'to', label: 'To (UTC)', type: 'date', chosen }),
    ]),
  ])
}

function Nothing({ isSearch }: { isSearch: boolean }) {
  if (isSearch)
    return h('div', { class: 'card stack' }, [
      h('p', null, h('strong', null, 'No run matches.')),
      h('p', null, ['Change the filter, or ', h('a', { href: runsPath }, 'show all runs'), '.']),
    ])
  return h('div', { class: 'card stack' }, [
    h('p', null, h('strong', null, 'Nothing has run yet.')),
    h('p', null, [
      'Start a workflow with ',
      h('code', null, 'POST /api/v1/workflows/{id}/execute'),
      '. Its runs then stand here, newest first.',
    ]),
  ])
}

const plainStates = new Set(['completed', 'running'])

function Row({ run, now }: { run: RunHead; now: Date }) {
  const { id, status, status_reason, waiting_since, created_at, duration_ms } = run
  return h('li', { class: 'item run-row' }, [
    h('div', { class: 'item-words' }, [
      h('a', { href: `${runsPath}/${id}`, class: 'item-link' }, [
        h(Words, { text: run.workflow_name ?? 'A run', most: 120 }),
      ]),
      plainStates.has(status)
        ? null
        : h('p', { class: 'small' }, [
            h(Message, { text: countedFromOne(status_reason), most: 300 }),
            waiting_since === null
              ? null
              : [' For ', h(Time, { at: waiting_since, now, isLength: true }), '.'],
          ]),
      h('p', { class: 'quiet small' }, [
        h(Words, { text: run.requester_email, most: 120 }),
        ', ',
        h(Time, { at: created_at, now }),
        duration_ms === null ? null : ` · took ${duration(duration_ms)}`,
      ]),
    ]),
    h('p', { class: 'row-state' }, h(RunState, { status })),
  ])
}
