import { h } from 'preact'
import type { AgentSessionView } from '../../governance/agents/read.ts'
import type { RunView } from '../../governance/runs/read/read.ts'
import { nothingDone, onceOf, reasonOf } from '../parts/ask.ts'
import { Session, type UnapprovedCall } from '../parts/session.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'
import { receiptOf } from './receipt.ts'
import { sentencesOf } from './sentences.ts'

/** `GET /console/sessions/{id}`: an agent's session. */
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

/** Maximum number of audit entries that the page reads to list unapproved calls. Older calls are only counted. */
const mostEntries = '200'

/**
 * Returns the newest unapproved calls of the session. Such a call ran although no decision had allowed it. Only the
 * audit log records these calls.
 */
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
