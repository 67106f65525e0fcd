import { keysPath } from '../../contract/pages.ts'
import { chosenOf, Empty, Pager, Choice, Field, Filters } from '../parts/list.tsx'
import { hasRole, type AgentSessionView, type Organization, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { Labels, Badge, type Tone } from '../parts/state.tsx'
import { Live } from '../parts/layout.tsx'
import { OrganizationName, Words, SessionId } from '../parts/words.tsx'
import { Time } from '../parts/time.tsx'

export async function sessionsPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const chosen = chosenOf(visit.query, [...sessionFilters, 'cursor'])
  const listed = await visit.api.call('GET /agent-sessions', {
    query: { limit: '50', ...(organization === null ? {} : { organization_id: organization.id }), ...chosen },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Agents',
    main: (
      <Sessions
        sessions={listed.body.data}
        base={visit.base}
        next={listed.body.next_cursor}
        chosen={chosen}
        organization={organization}
        now={visit.now}
      />
    ),
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
  return <Badge tone={tone} word={word} />
}

/** `doctor` tests an installed hook (adapters/countersign/hook/doctor/tries.py). But any agent can choose its name. */
const isCheck = ({ agent, session_id }: AgentSessionView): boolean =>
  agent.name === 'doctor' && session_id.startsWith('doctor-')

export const Check = ({ session }: { session: AgentSessionView }) =>
  isCheck(session) ? <Badge tone="off" word="Calls itself a check by doctor" /> : null

interface SessionsProps {
  readonly base: string
  readonly sessions: readonly AgentSessionView[]
  readonly next: string | null
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: Organization | null
  readonly now: Date
}

function Sessions({ sessions, base, next, chosen, organization, now }: SessionsProps) {
  const isSearch = [...sessionFilters, 'cursor'].some((name) => chosen[name] !== undefined)
  const version = sessions
    .map(
      ({ id, status, decisions, last_seen_at }) =>
        `${id}${status}${JSON.stringify(decisions)}${last_seen_at}`,
    )
    .join(' ')
  return (
    <article class="page">
      <header class="headline">
        <h1>
          {organization === null || hasRole(organization.role, 'admin')
            ? 'Sessions of agents'
            : 'Sessions of your agents'}
        </h1>
        {organization === null ? null : (
          <p class="quiet">
            <OrganizationName name={organization.name} />
          </p>
        )}
      </header>
      <Filters path={sessionsPath} chosen={chosen} names={sessionFilters} title="Filter">
        <Choice
          name="status"
          label="State"
          chosen={chosen}
          options={Object.entries(states).map(([status, [, word]]) => [status, word] as const)}
        />
        <Field name="session_id" label="Id of the session" chosen={chosen} />
      </Filters>
      <Live name="sessions" version={version} data-poll="">
        {sessions.length === 0 ? (
          <Nothing isSearch={isSearch} base={base} />
        ) : (
          <ul class="inbox">
            {sessions.map((session) => (
              <SessionRow session={session} now={now} />
            ))}
          </ul>
        )}
      </Live>
      <Pager
        path={sessionsPath}
        chosen={chosen}
        cursor="cursor"
        next={next}
        words={{ first: 'Newest sessions', next: 'Older sessions' }}
      />
    </article>
  )
}

const Nothing = ({ isSearch, base }: { isSearch: boolean; base: string }) =>
  isSearch ? (
    <Empty title="No session matches.">
      Change the filter, or <a href={sessionsPath}>show all sessions</a>.
    </Empty>
  ) : (
    <>
      <Empty title="No agent has asked yet.">
        Make a key with the scope <code>agents:authorize</code> on <a href={keysPath}>Keys</a>. Then type
        these lines on the machine of the agent, with your key in place of KEY. A session stands here after
        its first call.
      </Empty>
      <p>
        <code class="whole">{`curl -sS -o service_hook.py ${base}/api/v1/integrations/service_hook.py`}</code>
      </p>
      <p>
        <code class="whole">
          {`SERVICE_API_URL=${base} SERVICE_API_KEY=KEY python3 service_hook.py install --dialect claude`}
        </code>
      </p>
      <p class="quiet small">
        For another client than Claude Code, write <code>codex</code>, <code>gemini</code>,{' '}
        <code>copilot</code>, <code>opencode</code>, <code>cursor</code> or <code>vscode</code>. While the
        hook cannot reach Countersign, every call is blocked. The guide <code>docs/agents.md</code> explains
        it.
      </p>
    </>
  )

export function SessionRow({ session, now }: { session: AgentSessionView; now: Date }) {
  const { agent, labels, unapproved_calls: unapproved } = session
  return (
    <li class="item run-row">
      <div class="item-words">
        <a class="item-link" href={`${sessionsPath}/${session.id}`}>
          <Words text={agent.name} most={100} />
        </a>
        <div class="item-facts quiet small">
          <span>
            Session <SessionId id={session.session_id} /> of{' '}
            <Words text={session.user_email ?? session.user_id} />
          </span>
          <span>
            Started <Time at={session.started_at} now={now} exact />, last call{' '}
            <Time at={session.last_seen_at} now={now} />
          </span>
        </div>
        {unapproved === 0 ? null : (
          <p>
            <Badge
              tone="bad"
              word={`${unapproved} ${unapproved === 1 ? 'call' : 'calls'} without a decision`}
            />
          </p>
        )}
        <div class="meta">
          <Check session={session} />
          <span>{countsOf(session)}</span>
          {labels.length === 0 ? null : <Labels labels={labels} />}
        </div>
      </div>
      <p class="row-state badges">
        <SessionState status={session.status} />
      </p>
    </li>
  )
}

/** `12 allowed, 1 held, 0 denied` */
const countsOf = ({ decisions: { allow, deny, require_approval: held } }: AgentSessionView): string =>
  [
    `${allow.toLocaleString('en')} allowed`,
    `${held.toLocaleString('en')} held`,
    `${deny.toLocaleString('en')} denied`,
  ].join(', ')
