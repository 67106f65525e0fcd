import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { rerunPath, rerunsPath } from '../../contract/pages.ts'
import { runEnded, runStatuses } from '../../contract/status.ts'
import { empty, onceOf, Refused, Select, Told, type Filled } from '../parts/form.tsx'
import { Live, OnceField, PostForm } from '../parts/layout.tsx'
import {
  addressOf,
  Choice,
  chosenOf,
  Empty,
  Field,
  Filters,
  Pager,
  Table,
  type Chosen,
} from '../parts/list.tsx'
import { Badge, RunState, wordOf } from '../parts/state.tsx'
import { Time, zoneWords } from '../parts/time.tsx'
import { Message, OrganizationName, whoOf, Words } from '../parts/words.tsx'
import {
  hasRole,
  isAtLeast,
  organizationId,
  zoneOf,
  type Form,
  type PersonsVisit,
  type Shown,
} from '../visit.ts'
import { repeatChoices } from './again.tsx'
import { problemPage } from './plain.tsx'
import { dayAfter, runsPath, startOf } from './runs.tsx'
import { workflowsFor } from './triggers.tsx'

/* `/console/reruns`: many ended runs are made again by one request, for example after an outage. */

type Rerun = AnswerOf<'GET /organizations/{id}/reruns/{rerun}'>
type Filter = BodyOf<'POST /runs/rerun'>['filter']

const names = ['workflow_id', 'status', 'tool', 'whose', 'from', 'to'] as const

const endings = runStatuses.filter(runEnded)

/** null: the address says nothing of which runs. */
function filterOf(visit: PersonsVisit, query: URLSearchParams): Filter | null {
  const { workflow_id, status, tool, whose, from, to } = chosenOf(query, names)
  if ([workflow_id, status, tool, whose, from, to].every((each) => each === undefined)) return null
  const zone = zoneOf(visit)
  return {
    status: endings.find((each) => each === status) ?? 'failed',
    ...(workflow_id === undefined ? {} : { workflow_id }),
    ...(tool === undefined ? {} : { tool }),
    ...(whose === 'mine' ? { requested_by: visit.person.user.id } : {}),
    ...(from === undefined ? {} : { since: startOf(from, zone) }),
    ...(to === undefined ? {} : { until: startOf(dayAfter(to), zone) }),
  }
}

/** `GET /console/reruns` */
export async function rerunsPage(visit: PersonsVisit, filled: Filled = empty): Promise<Shown> {
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /organizations/{id}/reruns', {
    params: { id: organizationId(visit) },
    query: { limit: '20', ...(cursor === undefined ? {} : { cursor }) },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  return {
    status: filled.problem?.status ?? 200,
    title: 'Run many again',
    main: (
      <article class="page">
        <header class="headline">
          <p class="crumbs small">
            <a href={runsPath}>Runs</a>
          </p>
          <h1>Run many again</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            After an outage, choose the runs that failed. Each is made again from what failed, one after
            another. A call that an earlier run has made with the same parameters is not made twice without a
            question.
          </p>
        </header>
        <Refused filled={filled} />
        {isAtLeast(visit, 'member') ? await choose(visit) : null}
        <h2>Requests</h2>
        {data.length === 0 ? (
          <Empty title="Nobody has asked for this yet.">Ended requests stay here for 30 days.</Empty>
        ) : (
          <Live
            name="reruns"
            version={data.map(versionOf).join(' ')}
            {...(data.some(({ status }) => status === 'going') ? { 'data-poll': '' } : {})}
          >
            <Table
              label="Requests"
              head={['Runs', 'State', 'Completed', 'By', 'Asked']}
              rows={data.map((rerun) => [
                <a href={rerunPath(rerun.id)}>
                  {rerun.counts.total === 1 ? '1 run' : `${rerun.counts.total.toLocaleString('en')} runs`}
                </a>,
                <State rerun={rerun} />,
                rerun.counts.completed.toLocaleString('en'),
                <Words text={whoOf(rerun.requester_email)} most={120} />,
                <Time at={rerun.created_at} now={visit.now} />,
              ])}
            />
          </Live>
        )}
        <Pager
          path={rerunsPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest requests', next: 'Older requests' }}
        />
      </article>
    ),
  }
}

const versionOf = ({ id, status, counts, reason }: Rerun): string =>
  `${id}${status}${Object.values(counts).join('.')}${reason ?? ''}`

const State = ({ rerun: { status, counts } }: { rerun: Pick<Rerun, 'status' | 'counts'> }) =>
  status === 'going' ? (
    <Badge tone="off" word={`Going on: ${counts.total - counts.waiting} of ${counts.total}`} />
  ) : counts.refused + counts.cancelled > 0 ? (
    <Badge tone="hold" word={`Ended: ${counts.refused + counts.cancelled} not started`} />
  ) : (
    <Badge tone="good" word="Ended" />
  )

async function choose(visit: PersonsVisit) {
  const chosen: Chosen = chosenOf(visit.query, names)
  const filter = filterOf(visit, visit.query)
  return (
    <>
      <Filters path={rerunsPath} chosen={chosen} names={names} title="Choose the runs">
        <Choice name="workflow_id" label="Workflow" chosen={chosen} options={await workflowsFor(visit)} />
        <Choice
          name="status"
          label="State"
          chosen={{ status: 'failed', ...chosen }}
          options={endings.map((each) => [each, wordOf(each)])}
        />
        <Field name="tool" label="A call of this tool did not complete" chosen={chosen} />
        {hasRole(visit.person.organization?.role ?? null, 'admin') ? (
          <Choice name="whose" label="Whose" chosen={chosen} options={[['mine', 'only my own']]} />
        ) : null}
        <div class="days">
          <Field name="from" label={`From (${zoneWords(zoneOf(visit))})`} type="date" chosen={chosen} />
          <Field name="to" label={`To (${zoneWords(zoneOf(visit))})`} type="date" chosen={chosen} />
        </div>
      </Filters>
      {filter === null ? null : await matches(visit, chosen, filter)}
    </>
  )
}

async function matches(visit: PersonsVisit, chosen: Chosen, filter: Filter) {
  const asked = await visit.api.call('POST /runs/rerun', {
    body: { organization_id: organizationId(visit), filter, dry_run: true },
  })
  if (!asked.ok) return <Refused filled={{ form: null, problem: asked }} />
  const body = asked.body as AnswerOf<'POST /runs/rerun'> & { matches?: number }
  const { matches: count = 0, more, already_waiting: waiting } = body
  const others = waiting === 0 ? null : `Besides, ${waiting} wait in another request already.`
  if (count === 0)
    return (
      <Empty title="No run matches.">
        Runs that have not ended, or were made again already, do not count. {others}
      </Empty>
    )
  return (
    <PostForm action={rerunsPath} token={visit.token} class="card fill">
      <OnceField />
      {Object.entries(chosen).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <p>
        <strong>{count === 1 ? 'One run matches.' : `${count.toLocaleString('en')} runs match.`}</strong>{' '}
        {more ? 'These are the oldest; ask again afterwards for the others.' : null} {others}
      </p>
      <Select
        name="version"
        label="Version of the workflow"
        options={[
          ['same', 'The same as before'],
          ['latest', 'The newest one'],
        ]}
      />
      <Select
        name="on_repeat"
        label="What an earlier run has written or sent with the same parameters"
        options={repeatChoices}
      />
      <div class="row">
        <button class="primary">{count === 1 ? 'Run it again' : `Run ${count} again`}</button>
      </div>
    </PostForm>
  )
}

/** `POST /console/reruns` */
export async function createRerun(visit: PersonsVisit, form: Form): Promise<Shown> {
  const filter = filterOf(visit, form) ?? {}
  const made = await visit.api.call('POST /runs/rerun', {
    body: {
      organization_id: organizationId(visit),
      filter,
      version: form.get('version') === 'latest' ? 'latest' : 'same',
      on_repeat:
        repeatChoices.map(([value]) => value).find((each) => each === form.get('on_repeat')) ?? 'hold',
    },
    ...onceOf(form),
  })
  if (!made.ok) return rerunsPage(visit, { form, problem: made })
  return { redirect: 'id' in made.body ? rerunPath(made.body.id) : rerunsPath }
}

/** `GET /console/reruns/{id}` */
export async function rerunPage(visit: PersonsVisit, filled: Filled = empty): Promise<Shown> {
  const params = { id: organizationId(visit), rerun: visit.params['id'] ?? '' }
  const cursor = visit.query.get('cursor') ?? undefined
  const [found, listed] = await Promise.all([
    visit.api.call('GET /organizations/{id}/reruns/{rerun}', { params }),
    visit.api.call('GET /organizations/{id}/reruns/{rerun}/runs', {
      params,
      query: { limit: '50', ...(cursor === undefined ? {} : { cursor }) },
    }),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  if (!listed.ok) return problemPage(listed, visit.place)
  const rerun = found.body
  const isGoing = rerun.status === 'going'
  const mayCancel = isGoing && (isAtLeast(visit, 'admin') || rerun.requested_by === visit.person.user.id)
  const path = rerunPath(rerun.id)
  return {
    status: filled.problem?.status ?? 200,
    title: 'Runs made again',
    main: (
      <article class="page">
        <header class="headline">
          <p class="crumbs small">
            <a href={rerunsPath}>Run many again</a>
          </p>
          <h1>
            {rerun.counts.total === 1 ? 'One run' : `${rerun.counts.total.toLocaleString('en')} runs`} again
          </h1>
          <p class="quiet">
            <Words text={whoOf(rerun.requester_email)} most={120} />,{' '}
            <Time at={rerun.created_at} now={visit.now} />
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={{ cancel: 'No further run starts. What was started goes on.' }} />
        <Live
          name="rerun"
          version={versionOf(rerun)}
          {...(isGoing || rerun.counts.open > 0 ? { 'data-poll': '' } : {})}
        >
          <Progress rerun={rerun} />
        </Live>
        <Live name="rerun-runs" version={versionOf(rerun)}>
          <Table
            label="Runs"
            head={['Run', 'State', 'New run']}
            rows={listed.body.data.map((item) => [
              <a href={`${runsPath}/${item.run_id}`}>
                <code>{item.run_id}</code>
              </a>,
              item.new_run_id === null ? (
                <>
                  {itemWords[item.state]}
                  {item.reason === null ? null : (
                    <>
                      : <Message text={item.reason} most={500} />
                    </>
                  )}
                </>
              ) : (
                <RunState status={item.status ?? 'queued'} />
              ),
              item.new_run_id === null ? (
                '–'
              ) : (
                <a href={`${runsPath}/${item.new_run_id}`}>
                  <code>{item.new_run_id}</code>
                </a>
              ),
            ])}
          />
        </Live>
        <Pager
          path={path}
          chosen={{ cursor }}
          cursor="cursor"
          next={listed.body.next_cursor}
          words={{ first: 'First runs', next: 'More runs' }}
        />
        {mayCancel ? (
          <PostForm action={path} token={visit.token}>
            <button>Start no further run</button>
          </PostForm>
        ) : null}
      </article>
    ),
  }
}

const itemWords = {
  waiting: 'Waits for its turn',
  started: 'Started',
  refused: 'Not started',
  cancelled: 'Not started',
} as const

function Progress({ rerun }: { rerun: Rerun }) {
  const { counts, reason } = rerun
  const parts = [
    [counts.waiting, 'wait for their turn'],
    [counts.open, 'run now'],
    [counts.held, 'wait for a person'],
    [counts.completed, 'completed'],
    [counts.failed, 'ended otherwise'],
    [counts.refused + counts.cancelled, 'not started'],
  ] as const
  return (
    <section class="card stack" aria-labelledby="progress">
      <h2 id="progress">Progress</h2>
      <p>
        <State rerun={rerun} />
      </p>
      <progress
        max={counts.total}
        value={counts.total - counts.waiting - counts.open - counts.held}
        aria-labelledby="progress"
      />
      <p>
        {parts
          .filter(([count]) => count > 0)
          .map(([count, words]) => `${count.toLocaleString('en')} ${words}`)
          .join(', ')}
      </p>
      {reason === null ? null : (
        <p>
          <Message text={reason} most={500} />
        </p>
      )}
    </section>
  )
}

/** `POST /console/reruns/{id}`: no further run starts. */
export async function changeRerun(visit: PersonsVisit): Promise<Shown> {
  const rerun = visit.params['id'] ?? ''
  const done = await visit.api.call('POST /organizations/{id}/reruns/{rerun}/cancel', {
    params: { id: organizationId(visit), rerun },
  })
  return done.ok
    ? { redirect: addressOf(rerunPath(rerun), { done: 'cancel' }) }
    : rerunPage(visit, { form: null, problem: done })
}
