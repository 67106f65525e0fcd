import { h } from 'preact'
import type { AgentSessionView } from '../../governance/agents/read.ts'
import type { Page as ListPage } from '../../governance/page.ts'
import { chosenOf, Pager, Choice, Field, Filters } from '../parts/filters.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './plain.ts'
import { Labels, Badge, type Tone } from '../parts/state.ts'
import { Live } from '../parts/layout.ts'
import { OrganizationName, Words, SessionId } from '../parts/words.ts'
import { Time } from '../parts/time.ts'

export async function sessionsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...sessionFilters, 'cursor'])
  const listed = await visit.api.call<ListPage<AgentSessionView>>('GET /agent-sessions', {
    query: { limit: '50', ...(organization === null ? {} : { organization_id: organization.id }), ...chosen },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Agents',
    main: h(Sessions, {
      sessions: listed.body.data,
      next: listed.body.next_cursor,
      chosen,
      organization: organization?.name ?? null,
      now: visit.now,
    }),
  }
}

export const sessionsPath = '/console/sessions'
const sessionFilters = ['status', 'session_id'] as const

const states = {
  live: ['go', 'Live'],
  ended: ['off', 'Ended'],
  revoked: ['bad', 'Revoked'],
} as const satisfies Record<AgentSessionView['status'], readonly [Tone, string]>

export function SessionState({ status }: Pick<AgentSessionView, 'status'>) {
  const [tone, word] = states[status]
  return h(Badge, { tone, word })
}

/** `doctor` tests an installed hook (adapters/src/hook/doctor_tries.py). But any agent can choose its name. */
const isCheck = ({ agent, session_id }: AgentSessionView): boolean =>
  agent.name === 'doctor' && session_id.startsWith('doctor-')

export const Check = ({ session }: { session: AgentSessionView }) =>
  isCheck(session) ? h(Badge, { tone: 'off', word: 'Calls itself a check by doctor' }) : null

interface SessionsProps {
  readonly sessions: readonly AgentSessionView[]
  readonly next: string | null
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: string | null
  readonly now: Date
}

function Sessions({ sessions, next, chosen, organization, now }: SessionsProps) {
  const isSearch = [...sessionFilters, 'cursor'].some((name) => chosen[name] !== undefined)
  const version = sessions
    .map(
      ({ id, status, decisions, last_seen_at }) =>
        `${id}${status}${JSON.stringify(decisions)}${last_seen_at}`,
    )
    .join(' ')
  return h('article', { class: 'page' }, [
    h('header', { class: 'headline' }, [
      h('h1', null, 'Sessions of agents'),
      organization === null ? null : h('p', { class: 'quiet' }, h(OrganizationName, { name: organization })),
    ]),
    h(Filters, { path: sessionsPath, chosen, names: sessionFilters, title: 'Filter' }, [
      h(Choice, {
        name: 'status',
        label: 'State',
        chosen,
        options: Object.entries(states).map(([status, [, word]]) => [status, word] as const),
      }),
      h(Field, { name: 'session_id', label: 'Id of the session', chosen }),
    ]),
    h(Live, { name: 'sessions', version, 'data-poll': '' }, [
      sessions.length === 0
        ? h(Nothing, { isSearch })
        : h('ul', { class: 'inbox' }, [sessions.map((session) => h(Row, { session, now }))]),
    ]),
    h(Pager, {
      path: sessionsPath,
      chosen,
      cursor: 'cursor',
      next,
      words: { first: 'Newest sessions', next: 'Older sessions' },
    }),
  ])
}

function Nothing({ isSearch }: { isSearch: boolean }) {
  return h('div', { class: 'card stack' }, [
    isSearch
      ? [
          h('p', null, h('strong', null, 'No session matches.')),
          h('p', null, ['Change the filter, or ', h('a', { href: sessionsPath }, 'show all sessions'), '.']),
        ]
      : [
          h('p', null, h('strong', null, 'No agent has asked yet.')),
          h('p', null, [
            'Install the hook on the machine of an agent: the guide ',
            h('code', null, 'docs/agents.md'),
            ' has the commands. A session stands here after its first call.',
          ]),
        ],
  ])
}

function Row({ session, now }: { session: AgentSessionView; now: Date }) {
  const { agent, labels, unapproved_calls: unapproved } = session
  return h('li', { class: 'item run-row' }, [
    h('div', { class: 'item-words' }, [
      h('a', { class: 'item-link', href: `${sessionsPath}/${session.id}` }, [
        h(Words, { text: agent.name, most: 100 }),
      ]),
      h('div', { class: 'item-facts quiet small' }, [
        h('span', null, [
          'Session ',
          h(SessionId, { id: session.session_id }),
          ' of ',
          h(Words, { text: session.user_email ?? session.user_id }),
        ]),
        h('span', null, [
          'Started ',
          h(Time, { at: session.started_at, now, exact: true }),
          ', last call ',
          h(Time, { at: session.last_seen_at, now }),
        ]),
      ]),
      unapproved === 0
        ? null
        : h('p', null, [
            h(Badge, {
              tone: 'bad',
              word: `${unapproved} ${unapproved === 1 ? 'call' : 'calls'} without a decision`,
            }),
          ]),
      h('div', { class: 'meta' }, [
        h('span', null, countsOf(session)),
        labels.length === 0 ? null : h(Labels, { labels }),
      ]),
    ]),
    h('p', { class: 'row-state badges' }, [
      h(Check, { session }),
      h(SessionState, { status: session.status }),
    ]),
  ])
}

/** `12 allowed, 1 held, 0 denied` */
const countsOf = ({ decisions: { allow, deny, require_approval: held } }: AgentSessionView): string =>
  [
    `${allow.toLocaleString('en')} allowed`,
    `${held.toLocaleString('en')} held`,
    `${deny.toLocaleString('en')} denied`,
  ].join(', ')
