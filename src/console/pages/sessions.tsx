import { installPath } from '../../contract/pages.ts'
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
        own={visit.person.user.id}
        next={listed.body.next_cursor}
        chosen={chosen}
        organization={organization}
        now={visit.now}
      />
    ),
  }
}

export const sessionsPath = '/console/sessions'
const sessionFilters = ['status', 'user_id', 'session_id'] as const

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

/** A check asks twice at most. An agent that asks more only calls itself so. */
const isFolded = (session: AgentSessionView): boolean => {
  const { allow, deny, require_approval: held } = session.decisions
  return isCheck(session) && session.unapproved_calls === 0 && allow + deny + held <= 2
}

export const Check = ({ session }: { session: AgentSessionView }) =>
  isCheck(session) ? <Badge tone="off" word="Calls itself a check by doctor" /> : null

interface SessionsProps {
  /** The reader. */
  readonly own: string
  readonly sessions: readonly AgentSessionView[]
  readonly next: string | null
  readonly chosen: Readonly<Record<string, string>>
  readonly organization: Organization | null
  readonly now: Date
}

function Sessions({ sessions, own, next, chosen, organization, now }: SessionsProps) {
  const seesAll = organization === null || hasRole(organization.role, 'admin')
  const isSearch = [...sessionFilters, 'cursor'].some((name) => chosen[name] !== undefined)
  const checks = sessions.filter(isFolded)
  const version = sessions
    .map(
      ({ id, status, decisions, last_seen_at }) =>
        `${id}${status}${JSON.stringify(decisions)}${last_seen_at}`,
    )
    .join(' ')
  return (
    <article class="page">
      <header class="headline">
        <div class="split">
          <h1>{seesAll ? 'Sessions of agents' : 'Sessions of your agents'}</h1>
          <a class="button" href={installPath}>
            Install the hook
          </a>
        </div>
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
        {seesAll ? <Choice name="user_id" label="Whose" chosen={chosen} options={[[own, 'mine']]} /> : null}
        <Field name="session_id" label="Id of the session" chosen={chosen} />
      </Filters>
      <Live name="sessions" version={version} data-poll="">
        {sessions.length === 0 ? (
          <Nothing isSearch={isSearch} />
        ) : (
          <SessionList sessions={sessions.filter((session) => !checks.includes(session))} now={now} />
        )}
        {checks.length === 0 ? null : (
          <details id="checks">
            <summary>
              {checks.length === 1
                ? '1 that calls itself a check by doctor'
                : `${checks.length} that call themselves checks by doctor`}
            </summary>
            <SessionList sessions={checks} now={now} />
          </details>
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

const SessionList = ({ sessions, now }: Pick<SessionsProps, 'sessions' | 'now'>) => (
  <ul class="inbox">
    {sessions.map((session) => (
      <SessionRow session={session} now={now} />
    ))}
  </ul>
)

const Nothing = ({ isSearch }: { isSearch: boolean }) =>
  isSearch ? (
    <Empty title="No session matches.">
      Change the filter, or <a href={sessionsPath}>show all sessions</a>.
    </Empty>
  ) : (
    <Empty title="No agent has asked yet.">
      <a href={installPath}>Install the hook</a> in Claude Code or another client, with a key that can only
      ask. A session stands here after its first call.
    </Empty>
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
