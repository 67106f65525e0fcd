import { h, type ComponentChild } from 'preact'
import type { RunHead } from '../../governance/runs/read/read.ts'
import { runEnded, runStatuses } from '../../contract/status.ts'
import { Choice, Field, Filters } from './filters.ts'
import { countedFromOne } from './items.ts'
import { Live } from './live.ts'
import { OrganizationName } from './organization.ts'
import { Pager } from './pager.ts'
import { RunState, wordOf } from './state.ts'
import { duration, Time } from './time.ts'
import { Message, Words } from './words.ts'

export const runsPath = '/console/runs'
/** Query parameters of the list's search. Dates are days in UTC. */
export const runFilters = ['workflow_name', 'status', 'requester_email', 'from', 'to'] as const

export interface RunsProps {
  readonly runs: readonly RunHead[]
  readonly next: string | null
  /** The filters and the cursor from the page's address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: string | null
  readonly now: Date
}

export function Runs({ runs, next, chosen, organization, now }: RunsProps): ComponentChild {
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
        : h(
            'ul',
            { class: 'inbox' },
            runs.map((run) => h(Row, { run, now })),
          ),
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

function Search({ chosen }: { readonly chosen: Readonly<Record<string, string>> }): ComponentChild {
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

function Nothing({ isSearch }: { readonly isSearch: boolean }): ComponentChild {
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

/** Runs in these states need no explanation in the list. */
const plainStates = new Set(['completed', 'running'])

function Row({ run, now }: { readonly run: RunHead; readonly now: Date }): ComponentChild {
  const { id, status, status_reason, waiting_since, created_at, duration_ms } = run
  return h('li', { class: 'item run-row' }, [
    h('div', { class: 'item-words' }, [
      h(
        'a',
        { href: `${runsPath}/${id}`, class: 'item-link' },
        h(Words, { text: run.workflow_name ?? 'A run', most: 120 }),
      ),
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
