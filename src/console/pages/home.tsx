import type { ComponentChild, ComponentChildren } from 'preact'
import {
  organizationsPath,
  connectPath,
  inboxPath,
  newWorkflowPath,
  peoplePath,
  ruleTemplatesPath,
  settingsPath,
  workflowsPath,
} from '../../contract/pages.ts'
import { Live } from '../parts/layout.tsx'
import { addressOf } from '../parts/list.tsx'
import { OnPhone } from '../parts/on-phone.tsx'
import { StandInForms, standInsFor } from '../parts/stand-in.tsx'
import { Asks, sentenceOf } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { whoOf, OrganizationName, Words } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  zoneOf,
  type PersonsVisit,
  type RunHead,
  type Result,
  type Shown,
} from '../visit.ts'
import { RunRow, runsPath } from './runs.tsx'
import { SessionRow, sessionsPath } from './sessions.tsx'

/* `/console/`: what needs somebody now, and what an owner does first. */

/** Rows of each part. */
const shown = 5

/** `GET /console/` */
export async function homePage(visit: PersonsVisit): Promise<Shown> {
  // Who is in no organization makes one on that page.
  if (visit.person.organization === null) return { redirect: organizationsPath }
  const [steps, now] = await Promise.all([isAtLeast(visit, 'admin') ? firstSteps(visit) : [], readNow(visit)])
  return {
    status: 200,
    title: 'Home',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Home</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
        </header>
        {steps.every(({ isDone }) => isDone) ? null : <FirstSteps steps={steps} />}
        <Now now={now} visit={visit} />
      </article>
    ),
  }
}

interface FirstStep {
  readonly isDone: boolean
  readonly title: string
  readonly why: string
  readonly path: string
  readonly beside?: ComponentChild
  /** It is shown although it is done, because there is more of it to do. */
  readonly isKept?: boolean
}

/** In the order in which they are useful. A part that cannot be read is not done. */
async function firstSteps(visit: PersonsVisit): Promise<readonly FirstStep[]> {
  const { api } = visit
  const params = { id: organizationId(visit) }
  const own = { organization_id: params.id }
  const [settings, members, rules, connections, workflows, runs, approved, sessions, services] =
    await Promise.all([
      api.call('GET /organizations/{id}/governance', { params }),
      // Only owners see and invite members.
      isAtLeast(visit, 'owner')
        ? api.call('GET /organizations/{id}/members', { params, query: { limit: '2' } })
        : null,
      api.call('GET /organizations/{id}/rules', { params, query: { limit: '1' } }),
      api.call('GET /connections', { query: { ...own, limit: '1' } }),
      api.call('GET /workflows', { query: { ...own, limit: '1' } }),
      api.call('GET /runs', { query: { ...own, limit: '1' } }),
      api.call('GET /approvals', { query: { ...own, limit: '1', status: 'approved' } }),
      api.call('GET /agent-sessions', { query: { ...own, limit: '1' } }),
      api.call('GET /services'),
    ])
  const standIns = await standInsFor(visit, services.ok ? services.body.data : [])
  return [
    {
      isDone: rules.ok && rules.body.data.length > 0,
      title: 'Write the first rule',
      why: 'Without a rule every call is allowed.',
      path: ruleTemplatesPath,
    },
    {
      isDone: settings.ok && settings.body.approvals_enabled,
      title: 'Turn approvals on',
      why: isAtLeast(visit, 'owner')
        ? 'While they are off, a call that a rule holds is denied.'
        : 'While they are off, a call that a rule holds is denied. An owner turns them on.',
      path: settingsPath,
    },
    ...(members === null
      ? []
      : [
          {
            isDone: members.ok && members.body.data.length > 1,
            title: 'Invite a colleague',
            why: 'Nobody approves a call of their own, so approvals need a second person.',
            path: peoplePath,
          },
        ]),
    {
      isDone: connections.ok && connections.body.data.length > 0,
      title: 'Connect a service',
      why: 'Tools of GitHub, Slack, Google and others need an account.',
      path: connectPath,
      beside: <StandInForms offered={standIns} visit={visit} />,
      isKept: standIns.length > 0,
    },
    {
      isDone: workflows.ok && workflows.body.data.length > 0,
      title: 'Save a workflow',
      why: 'Its form shows what would wait, before anything runs.',
      path: newWorkflowPath,
    },
    {
      isDone: runs.ok && runs.body.data.length > 0,
      title: 'Start a run',
      why: 'Each of its calls leaves a receipt.',
      path: workflowsPath,
    },
    {
      isDone: approved.ok && approved.body.data.length > 0,
      title: 'Approve a call',
      why: 'The page shows exactly what would be sent, on a phone too.',
      path: inboxPath,
      beside: <OnPhone base={visit.base} path={inboxPath} title="On a phone" />,
    },
    {
      isDone: sessions.ok && sessions.body.data.length > 0,
      title: 'Govern a coding agent',
      why: 'Its hook asks before each call.',
      path: sessionsPath,
    },
  ]
}

function FirstSteps({ steps }: { steps: readonly FirstStep[] }) {
  const done = steps.filter(({ isDone }) => isDone)
  return (
    <section class="card" aria-labelledby="first">
      <div class="split">
        <h2 id="first">First steps</h2>
        <p class="quiet small">{`${done.length} of ${steps.length} done`}</p>
      </div>
      <ol class="rows">
        {steps
          .filter(({ isDone, isKept }) => !isDone || isKept === true)
          .map(({ isDone, title, why, path, beside }) => (
            <li class="row">
              <a href={path}>{title}</a>
              <p class="quiet small">{isDone ? 'Done. There is more to connect.' : why}</p>
              {beside}
            </li>
          ))}
      </ol>
    </section>
  )
}

type Now = Awaited<ReturnType<typeof readNow>>

/** Viewers read no approvals or agents, except what a group of theirs decides. */
async function readNow(visit: PersonsVisit) {
  const { api } = visit
  const query = { organization_id: organizationId(visit), limit: String(shown) }
  const since = new Date(visit.now.getTime() - day).toISOString()
  const isMember = isAtLeast(visit, 'member')
  const [mine, unknown, failed, agents] = await Promise.all([
    api.call('GET /approvals', { query: { ...query, status: 'pending', mine: 'true' } }),
    isMember ? api.call('GET /approvals', { query: { ...query, kind: 'resolution' } }) : null,
    api.call('GET /runs', { query: { ...query, limit: '50', status: 'failed', since } }),
    isMember ? api.call('GET /agent-sessions', { query: { ...query, status: 'live' } }) : null,
  ])
  return {
    mine: listOf(mine),
    unknown: listOf(unknown),
    failed: stillFailed(listOf(failed)),
    agents: listOf(agents),
    since,
  }
}

/** Milliseconds. */
const day = 86_400_000

/** Without those that were made again. */
function stillFailed({ data, next_cursor: next }: List<RunHead>): List<RunHead> {
  const open = data.filter(({ made_again_as: again }) => again === null)
  return { data: open.slice(0, shown), next_cursor: open.length > shown ? 'more' : next }
}

interface List<Row> {
  readonly data: readonly Row[]
  readonly next_cursor: string | null
}

const listOf = <Row,>(answer: Result<List<Row>> | null): List<Row> =>
  answer?.ok === true ? answer.body : { data: [], next_cursor: null }

/** `2026-01-31`, in the zone. */
const dayOf = (at: Date, timeZone: string): string =>
  new Intl.DateTimeFormat('en-CA', { timeZone, dateStyle: 'short' }).format(at)

function Now({ now: { mine, unknown, failed, agents, since }, visit }: { now: Now; visit: PersonsVisit }) {
  const all = [...mine.data, ...unknown.data, ...failed.data, ...agents.data]
  const version = all
    .map((each) => ('last_seen_at' in each ? each.id + each.last_seen_at : each.id))
    .join(' ')
  const isMember = isAtLeast(visit, 'member')
  return (
    <Live name="now" version={version} data-poll="">
      <div class="page">
        <Part
          id="waiting"
          title="Waits for you"
          all={addressOf(inboxPath, { mine: 'true' })}
          list={mine}
          nothing="Nothing waits for your decision."
        >
          {mine.data.map((approval) => (
            <li class="item">
              <div class="item-words">
                <a class="item-link" href={`${inboxPath}/${approval.id}`}>
                  <Asks approval={approval} />
                </a>
                <p class="quiet small">
                  {approval.kind === 'revision' ? <strong>Changes requested, </strong> : null}
                  <Words text={whoOf(approval.requester_email ?? approval.requested_by)} most={120} />,{' '}
                  <Time at={approval.created_at} now={visit.now} />
                </p>
              </div>
            </li>
          ))}
        </Part>
        {unknown.data.length === 0 ? null : (
          <Part
            id="unknown"
            title="Nobody knows whether these happened"
            all={addressOf(inboxPath, { kind: 'resolution' })}
            list={unknown}
            nothing=""
          >
            {unknown.data.map((each) => (
              <li class="item">
                <div class="item-words">
                  <a class="item-link" href={`${runsPath}/${each.run_id ?? ''}#waits`}>
                    <Words text={sentenceOf(each)} />
                  </a>
                  <p class="quiet small">
                    Sent <Time at={each.created_at} now={visit.now} />
                  </p>
                </div>
              </li>
            ))}
          </Part>
        )}
        <Part
          id="failed"
          title="Failed in the last 24 hours"
          all={addressOf(runsPath, { status: 'failed', from: dayOf(new Date(since), zoneOf(visit)) })}
          list={failed}
          nothing="No run has failed, or each was made again."
        >
          {failed.data.map((run) => (
            <RunRow run={run} now={visit.now} />
          ))}
        </Part>
        {isMember ? (
          <Part
            id="agents"
            title="Agents at work"
            all={addressOf(sessionsPath, { status: 'live' })}
            list={agents}
            nothing="No agent is at work."
          >
            {agents.data.map((session) => (
              <SessionRow session={session} now={visit.now} />
            ))}
          </Part>
        ) : null}
      </div>
    </Live>
  )
}

function Part(props: {
  readonly id: string
  readonly title: string
  readonly all: string
  readonly list: List<unknown>
  readonly nothing: string
  readonly children: ComponentChildren
}) {
  const { id, title, all, list, nothing, children } = props
  return (
    <section class="stack" aria-labelledby={id}>
      <div class="split">
        <h2 id={id}>{title}</h2>
        {list.data.length === 0 && list.next_cursor === null ? null : (
          <a href={all}>{list.next_cursor === null ? 'Open the list' : 'All'}</a>
        )}
      </div>
      {list.data.length === 0 ? <p class="quiet">{nothing}</p> : <ul class="inbox">{children}</ul>}
    </section>
  )
}
