import { h } from 'preact'
import type { AgentSessionView } from '../../governance/agents/read.ts'
import type { RunView } from '../../governance/runs/read/read.ts'
import { nothingDone, onceOf, reasonOf, Ask, Waiting } from '../parts/waiting.ts'
import { roleIn, hasRole, type Form, type PersonsVisit, type Problem, type Shown } from '../visit.ts'
import { problemPage } from './plain.ts'
import { receiptOf, sentencesOf, Receipts, type ReceiptsProps } from '../parts/receipts.ts'
import { Alert, Words } from '../parts/words.ts'
import { Facts } from '../parts/values.ts'
import { Live } from '../parts/layout.ts'
import { Badge, Effect, Sources } from '../parts/state.ts'
import { Check, SessionState, sessionsPath } from './sessions.ts'
import { Time } from '../parts/time.ts'

export async function sessionPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<AgentSessionView>('GET /agent-sessions/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const session = found.body
  const [record, receipt, unapproved, sentences] = await Promise.all([
    visit.api.call<Pick<RunView, 'id' | 'waiting_for'>>('GET /runs/{id}', {
      params: { id: session.session_run_id },
      only: ['id', 'waiting_for'],
    }),
    receiptOf(visit, session.session_run_id, 'newest'),
    session.unapproved_calls === 0 ? [] : unapprovedOf(visit, session),
    sentencesOf(visit, {
      kind: 'agent_call',
      requested_by: session.user_id,
      organization_id: session.organization_id,
    }),
  ])
  if (!record.ok) return problemPage(record, visit.place)
  return {
    status: refused?.status ?? 200,
    title: `Session of ${session.agent.name}`,
    main: h(Session, { session, record: record.body, receipt, unapproved, sentences, visit, refused }),
  }
}

/** Entries that are read. Older calls are only counted. */
const mostEntries = '200'

/** The newest calls that ran although no decision had allowed them. Only the audit log records them. */
async function unapprovedOf(
  visit: PersonsVisit,
  session: AgentSessionView,
): Promise<readonly UnapprovedCall[]> {
  const found = await visit.api.call<{ readonly events: readonly UnapprovedCall[] }>(
    'GET /organizations/{id}/governance/audit',
    {
      params: { id: session.organization_id },
      query: {
        event_type: 'agent.unapproved_call',
        user_id: session.user_id,
        since: session.started_at,
        per_page: mostEntries,
      },
    },
  )
  return found.ok ? found.body.events.filter(({ run_id }) => run_id === session.session_run_id) : []
}

/** `POST /console/sessions/{id}`: revokes the agent's session for ever. */
export async function endSession(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const done =
    form.get('action') === 'revoke'
      ? await visit.api.call('POST /agent-sessions/{id}/revoke', {
          params: { id },
          body: reasonOf(form),
          ...onceOf(form),
        })
      : nothingDone
  return done.ok ? { redirect: `/console/sessions/${id}` } : sessionPage(visit, done)
}

/** An audit entry of `agent.unapproved_call`. */
interface UnapprovedCall {
  readonly id: string
  readonly run_id: string | null
  readonly timestamp: string
  readonly action: string
  readonly metadata: { readonly side_effect?: string }
}

interface SessionProps {
  readonly session: AgentSessionView
  /** Records the calls of this session, and lists the waiting approvals. */
  readonly record: Pick<RunView, 'id' | 'waiting_for'>
  readonly receipt: ReceiptsProps['receipt']
  readonly unapproved: readonly UnapprovedCall[]
  /** What each waiting call would do, by the id of the approval. */
  readonly sentences: ReadonlyMap<string, string>
  readonly visit: PersonsVisit
  readonly refused: Problem | null
}

function Session({ session, record, receipt, unapproved, sentences, visit, refused }: SessionProps) {
  const path = `${sessionsPath}/${session.id}`
  const role = roleIn(visit, session.organization_id)
  const { now } = visit
  const isRevoked = session.status === 'revoked'
  const version = `${session.status}/${session.last_seen_at}`
  return h('article', { class: 'page' }, [
    h(Live, { name: 'session-head', version, ...(isRevoked ? {} : { 'data-poll': '' }) }, [
      h(Head, { session, now }),
    ]),
    h(Alert, { message: refused?.message ?? null }),
    h('div', { class: 'columns' }, [
      h('div', { class: 'column' }, [
        h(Unapproved, { session, unapproved, now }),
        h(Waiting, { run: record, role, visit, sentences }),
        h(Receipts, {
          receipt,
          path,
          visit,
          mayOpenApprovals: hasRole(role, 'member'),
          words: { first: 'Newest decisions', next: 'Older decisions' },
        }),
      ]),
      h('div', { class: 'column' }, [
        h(Counts, { session }),
        h(Unclassed, { session, isOwner: hasRole(role, 'owner') }),
        h(Labelled, { session }),
        h(About, { session, now }),
        h(Ask, {
          name: 'session-revoke',
          isOffered: !isRevoked && hasRole(role, 'admin'),
          action: path,
          token: visit.token,
          value: 'revoke',
          open: 'Revoke the session…',
          explanation:
            'Every later call of this session is denied, and its waiting approvals are withdrawn. This cannot be taken back.',
          sure: 'Yes, revoke it',
        }),
      ]),
    ]),
  ])
}

function Head({ session, now }: { session: AgentSessionView; now: Date }) {
  const { status, revoke_reason: reason, revoked_by: by } = session
  return h('header', { class: 'headline' }, [
    h('p', { class: 'crumbs small' }, h('a', { href: sessionsPath }, 'Sessions of agents')),
    h('p', { class: 'badges', role: 'status' }, [h(SessionState, { status }), h(Check, { session })]),
    h('h1', null, h(Words, { text: session.agent.name, most: 100 })),
    h('p', null, [
      'Works for ',
      h('strong', null, h(Words, { text: session.user_email ?? session.user_id, most: 200 })),
      '. ',
      status === 'live'
        ? 'Last call '
        : status === 'ended'
          ? 'It has ended; its next call opens it again. Last call '
          : 'Last call ',
      h(Time, { at: session.last_seen_at, now }),
      '.',
    ]),
    status !== 'revoked'
      ? null
      : h('p', null, [
          'Revoked',
          by === null ? null : [' by ', h(Words, { text: session.revoked_by_email ?? by, most: 200 })],
          session.ended_at === null ? null : [' ', h(Time, { at: session.ended_at, now })],
          reason === null || reason === '' ? '.' : [': “', h(Words, { text: reason, most: 500 }), '”'],
        ]),
  ])
}

function Unapproved(props: Pick<SessionProps, 'session' | 'unapproved'> & { now: Date }) {
  const {
    session: { unapproved_calls: count },
    unapproved,
    now,
  } = props
  const shown = unapproved.slice(0, 20)
  return h(Live, { name: 'unapproved', version: String(count) }, [
    count === 0
      ? null
      : h('section', { class: 'card alert-card', 'aria-labelledby': 'unapproved' }, [
          h('h2', { id: 'unapproved' }, [
            `${count.toLocaleString('en')} ${count === 1 ? 'call' : 'calls'} ran without a decision`,
          ]),
          h('p', null, [
            'The client did not ask, or acted against the answer. Check that its hook is still installed.',
          ]),
          h('ul', { class: 'rows' }, [
            shown.map(({ action, metadata, timestamp }) =>
              h('li', { class: 'row' }, [
                h('p', { class: 'split' }, [
                  h('code', null, h(Words, { text: action, most: 120 })),
                  h('span', { class: 'quiet small' }, h(Time, { at: timestamp, now })),
                ]),
                metadata.side_effect === undefined
                  ? null
                  : h('p', { class: 'badges' }, h(Effect, { effect: metadata.side_effect })),
              ]),
            ),
          ]),
          count > shown.length
            ? h('p', { class: 'quiet small' }, [
                `${(count - shown.length).toLocaleString('en')} more are in the audit log as agent.unapproved_call.`,
              ])
            : null,
        ]),
  ])
}

function Counts({ session }: Pick<SessionProps, 'session'>) {
  const { allow, deny, require_approval: held } = session.decisions
  const rows = [
    ['good', 'Allowed', allow],
    ['hold', 'Held for approval', held],
    ['bad', 'Denied', deny],
  ] as const
  return h(Live, { name: 'session-counts', version: [allow, deny, held].join('/') }, [
    h('section', { class: 'card', 'aria-labelledby': 'counts' }, [
      h('h2', { id: 'counts' }, 'Decisions'),
      h('ul', { class: 'stack' }, [
        rows.map(([tone, word, count]) =>
          h('li', { class: 'split' }, [
            // Zero is no alarm.
            h(Badge, { tone: count === 0 ? 'off' : tone, word }),
            h('strong', null, count.toLocaleString('en')),
          ]),
        ),
      ]),
    ]),
  ])
}

const mostUnclassed = 50

/** Nobody has said what these tools do, so the names that their servers chose decide. */
function Unclassed({
  session: { unclassed_tools: tools, organization_id: id },
  isOwner,
}: Pick<SessionProps, 'session'> & { readonly isOwner: boolean }) {
  const rest = tools.length - mostUnclassed
  return h(Live, { name: 'session-unclassed', version: JSON.stringify(tools) }, [
    tools.length === 0
      ? null
      : h('section', { class: 'card', 'aria-labelledby': 'unclassed' }, [
          h('h2', { id: 'unclassed' }, 'Tools that nobody has classed'),
          h('p', null, [
            'The agent asked for them. They count as their names say, and their servers chose the names.',
          ]),
          h('ul', { class: 'stack' }, [
            tools
              .slice(0, mostUnclassed)
              .map((tool) => h('li', null, h('code', null, h(Words, { text: tool, most: 200 })))),
          ]),
          rest > 0 ? h('p', { class: 'quiet small' }, `and ${rest} more`) : null,
          h('p', { class: 'small' }, [
            isOwner ? 'You can class them as an owner' : 'An owner can class them',
            ': give each a side effect in the setting ',
            h('code', null, 'external_tools'),
            ', with ',
            h('code', null, `PATCH /api/v1/organizations/${id}/governance`),
            '. A name such as ',
            h('code', null, 'mcp__github__*'),
            ' means all tools of one server.',
          ]),
        ]),
  ])
}

const mostLabels = 50

function Labelled({ session: { label_sources: sources } }: Pick<SessionProps, 'session'>) {
  const version = JSON.stringify(sources.map(({ label, from }) => [label, from.length]))
  return h(Live, { name: 'session-labels', version }, [
    h('section', { class: 'card', 'aria-labelledby': 'labels' }, [
      h('h2', { id: 'labels' }, 'Labels of what it has read'),
      sources.length === 0 ? h('p', { class: 'quiet' }, 'Nothing that it has read has a label.') : null,
      h('ul', { class: 'stack' }, [
        sources
          .slice(0, mostLabels)
          .map(({ label, from }) =>
            h('li', null, [h('span', { class: 'label' }, label), ' ', h(Sources, { from, isAgents: true })]),
          ),
      ]),
      sources.length > mostLabels
        ? h('p', { class: 'quiet' }, `and ${sources.length - mostLabels} more`)
        : null,
    ]),
  ])
}

function About({ session, now }: { session: AgentSessionView; now: Date }) {
  return h('section', { class: 'card', 'aria-labelledby': 'about' }, [
    h('h2', { id: 'about' }, 'About this session'),
    h(Facts, {
      facts: [
        ['Kind', h(Words, { text: session.agent.kind, most: 100 })],
        ['Started', h(Time, { at: session.started_at, now, exact: true })],
        ['The client’s id', h('code', null, h(Words, { text: session.session_id, most: 200 }))],
        ['Id', h('code', null, session.id)],
      ],
    }),
  ])
}
