import type { AnswerOf } from '../../api/routes/index.ts'
import { nothingDone, reasonOf, Ask, Waiting } from '../parts/waiting.tsx'
import { labelled, onceOf, Refused } from '../parts/form.tsx'
import {
  roleIn,
  hasRole,
  type Form,
  type PersonsVisit,
  type Problem,
  type Shown,
  type AgentSessionView,
  type RunView,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { receiptOf, sentencesOf, Receipts, type ReceiptsProps } from '../parts/receipts.tsx'
import { Words } from '../parts/words.tsx'
import { Facts } from '../parts/values.tsx'
import { Live } from '../parts/layout.tsx'
import { Badge, Effect, Sources } from '../parts/state.tsx'
import { Check, SessionState, sessionsPath } from './sessions.tsx'
import { Time } from '../parts/time.tsx'

export async function sessionPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call('GET /agent-sessions/{id}', { params: { id } })
  if (!found.ok) return problemPage(found, visit.place)
  const session = found.body
  const [record, receipt, unapproved, sentences] = await Promise.all([
    visit.api.call('GET /runs/{id}', {
      params: { id: session.session_run_id },
      only: ['id', 'organization_id', 'waiting_for'],
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
    main: (
      <Session
        session={session}
        record={record.body}
        receipt={receipt}
        unapproved={unapproved}
        sentences={sentences}
        visit={visit}
        refused={refused}
      />
    ),
  }
}

/** Entries that are read. Older calls are only counted. */
const mostEntries = '200'

/** The newest calls that ran although no decision had allowed them. Only the audit log records them. */
async function unapprovedOf(
  visit: PersonsVisit,
  session: AgentSessionView,
): Promise<readonly UnapprovedCall[]> {
  const found = await visit.api.call('GET /organizations/{id}/governance/audit', {
    params: { id: session.organization_id },
    query: {
      event_type: 'agent.unapproved_call',
      user_id: session.user_id,
      since: session.started_at,
      per_page: mostEntries,
    },
  })
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
type UnapprovedCall = AnswerOf<'GET /organizations/{id}/governance/audit'>['events'][number]

interface SessionProps {
  readonly session: AgentSessionView
  /** Records the calls of this session, and lists the waiting approvals. */
  readonly record: Pick<RunView, 'id' | 'organization_id' | 'waiting_for'>
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
  const isOwn = session.user_id === visit.person.user.id
  const version = `${session.status}/${session.last_seen_at}`
  return (
    <article class="page">
      <Live name="session-head" version={version} {...(isRevoked ? {} : { 'data-poll': '' })}>
        <Head session={session} now={now} />
      </Live>
      <Refused filled={labelled({ form: null, problem: refused }, { reason: 'Reason' })} />
      <div class="columns">
        <div class="column">
          <Unapproved session={session} unapproved={unapproved} now={now} />
          <Waiting run={record} role={role} visit={visit} sentences={sentences} />
          <Receipts
            receipt={receipt}
            path={path}
            visit={visit}
            organizationId={session.organization_id}
            words={{ first: 'Newest decisions', next: 'Older decisions' }}
          />
        </div>
        <div class="column">
          <Counts session={session} />
          <Written session={session} />
          <Unclassed session={session} isOwner={hasRole(role, 'owner')} />
          <Labelled session={session} />
          <About session={session} now={now} />
          <Ask
            name="session-revoke"
            isOffered={!isRevoked && (isOwn || hasRole(role, 'admin'))}
            action={path}
            token={visit.token}
            value="revoke"
            open="Revoke the session…"
            explanation="Every later call of this session is denied, and its waiting approvals are withdrawn. This cannot be taken back."
            sure="Yes, revoke it"
          />
        </div>
      </div>
    </article>
  )
}

function Head({ session, now }: { session: AgentSessionView; now: Date }) {
  const { status, revoke_reason: reason, revoked_by: by } = session
  return (
    <header class="headline">
      <p class="crumbs small">
        <a href={sessionsPath}>Sessions of agents</a>
      </p>
      <p class="badges" role="status">
        <SessionState status={status} />
        <Check session={session} />
      </p>
      <h1>
        <Words text={session.agent.name} most={100} />
      </h1>
      <p>
        Works for{' '}
        <strong>
          <Words text={session.user_email ?? session.user_id} most={200} />
        </strong>
        .{' '}
        {status === 'live'
          ? 'Last call '
          : status === 'ended'
            ? 'It has ended; its next call opens it again. Last call '
            : 'Last call '}
        <Time at={session.last_seen_at} now={now} />.
      </p>
      {status !== 'revoked' ? null : (
        <p>
          Revoked
          {by === null ? null : (
            <>
              {' '}
              by <Words text={session.revoked_by_email ?? by} most={200} />
            </>
          )}
          {session.ended_at === null ? null : (
            <>
              {' '}
              <Time at={session.ended_at} now={now} />
            </>
          )}
          {reason === null || reason === '' ? (
            '.'
          ) : (
            <>
              : “<Words text={reason} most={500} />”
            </>
          )}
        </p>
      )}
    </header>
  )
}

function Unapproved(props: Pick<SessionProps, 'session' | 'unapproved'> & { now: Date }) {
  const {
    session: { unapproved_calls: count },
    unapproved,
    now,
  } = props
  const shown = unapproved.slice(0, 20)
  return (
    <Live name="unapproved" version={String(count)}>
      {count === 0 ? null : (
        <section class="card alert-card" aria-labelledby="unapproved">
          <h2 id="unapproved">{`${count.toLocaleString('en')} ${count === 1 ? 'call' : 'calls'} ran without a decision`}</h2>
          <p>The client did not ask, or acted against the answer. Check that its hook is still installed.</p>
          <ul class="rows">
            {shown.map(({ action, metadata, timestamp }) => (
              <li class="row">
                <p class="split">
                  <code>
                    <Words text={action} most={120} />
                  </code>
                  <span class="quiet small">
                    <Time at={timestamp} now={now} />
                  </span>
                </p>
                {typeof metadata['side_effect'] !== 'string' ? null : (
                  <p class="badges">
                    <Effect effect={metadata['side_effect']} />
                  </p>
                )}
              </li>
            ))}
          </ul>
          {count > shown.length ? (
            <p class="quiet small">{`${(count - shown.length).toLocaleString('en')} more are in the audit log as agent.unapproved_call.`}</p>
          ) : null}
        </section>
      )}
    </Live>
  )
}

function Counts({ session }: Pick<SessionProps, 'session'>) {
  const { allow, deny, require_approval: held } = session.decisions
  const rows = [
    ['good', 'Allowed', allow],
    ['hold', 'Held for approval', held],
    ['bad', 'Denied', deny],
  ] as const
  return (
    <Live name="session-counts" version={[allow, deny, held].join('/')}>
      <section class="card" aria-labelledby="counts">
        <h2 id="counts">Decisions</h2>
        <ul class="stack">
          {rows.map(([tone, word, count]) => (
            <li class="split">
              {/* Zero is no alarm. */}
              <Badge tone={count === 0 ? 'off' : tone} word={word} />
              <strong>{count.toLocaleString('en')}</strong>
            </li>
          ))}
        </ul>
      </section>
    </Live>
  )
}

/** A command that may run one of them counts as a script. */
function Written({ session: { written_files: files } }: Pick<SessionProps, 'session'>) {
  return (
    <Live name="session-written" version={JSON.stringify(files)}>
      {files.length === 0 ? null : (
        <section class="card" aria-labelledby="written">
          <h2 id="written">Files that commands would run</h2>
          <p>The agent wrote them in this session. A command that may run one counts as a script.</p>
          <ul class="stack">
            {files.map((file) => (
              <li>
                {file === '*' ? (
                  'any file'
                ) : (
                  <code>
                    <Words text={file} most={100} />
                  </code>
                )}
              </li>
            ))}
          </ul>
        </section>
      )}
    </Live>
  )
}

const mostUnclassed = 50

/** Nobody has said what these tools do, so the names that their servers chose decide. */
function Unclassed({
  session: { unclassed_tools: tools, organization_id: id },
  isOwner,
}: Pick<SessionProps, 'session'> & { readonly isOwner: boolean }) {
  const rest = tools.length - mostUnclassed
  return (
    <Live name="session-unclassed" version={JSON.stringify(tools)}>
      {tools.length === 0 ? null : (
        <section class="card" aria-labelledby="unclassed">
          <h2 id="unclassed">Tools that nobody has classed</h2>
          <p>The agent asked for them. They count as their names say, and their servers chose the names.</p>
          <ul class="stack">
            {tools.slice(0, mostUnclassed).map((tool) => (
              <li>
                <code>
                  <Words text={tool} most={200} />
                </code>
              </li>
            ))}
          </ul>
          {rest > 0 ? <p class="quiet small">{`and ${rest} more`}</p> : null}
          <p class="small">
            {isOwner ? 'You can class them as an owner' : 'An owner can class them'}: give each a side effect
            in the setting <code>external_tools</code>, with{' '}
            <code>{`PATCH /api/v1/organizations/${id}/governance`}</code>. A name such as{' '}
            <code>mcp__github__*</code> means all tools of one server.
          </p>
        </section>
      )}
    </Live>
  )
}

const mostLabels = 50

function Labelled({ session: { label_sources: sources } }: Pick<SessionProps, 'session'>) {
  const version = JSON.stringify(sources.map(({ label, from }) => [label, from.length]))
  return (
    <Live name="session-labels" version={version}>
      <section class="card" aria-labelledby="labels">
        <h2 id="labels">Labels of what it has read</h2>
        {sources.length === 0 ? <p class="quiet">Nothing that it has read has a label.</p> : null}
        <ul class="stack">
          {sources.slice(0, mostLabels).map(({ label, from }) => (
            <li>
              <span class="label">{label}</span> <Sources from={from} isAgents />
            </li>
          ))}
        </ul>
        {sources.length > mostLabels ? (
          <p class="quiet">{`and ${sources.length - mostLabels} more`}</p>
        ) : null}
      </section>
    </Live>
  )
}

function About({ session, now }: { session: AgentSessionView; now: Date }) {
  return (
    <section class="card" aria-labelledby="about">
      <h2 id="about">About this session</h2>
      <Facts
        facts={[
          ['Kind', <Words text={session.agent.kind} most={100} />],
          ['Started', <Time at={session.started_at} now={now} exact />],
          [
            'The client’s id',
            <code>
              <Words text={session.session_id} most={200} />
            </code>,
          ],
          ['Id', <code>{session.id}</code>],
        ]}
      />
    </section>
  )
}
