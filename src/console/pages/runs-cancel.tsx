import type { ComponentChildren } from 'preact'
import { cancelRunsPath } from '../../contract/pages.ts'
import { runEnded, runStatuses } from '../../contract/status.ts'
import { Choice, chosenOf, Empty, Field, Filters, type Chosen } from '../parts/list.tsx'
import { onceOf } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { RunState, wordOf } from '../parts/state.tsx'
import { Time, zoneWords } from '../parts/time.tsx'
import { reasonOf } from '../parts/waiting.tsx'
import { capital, Message, OrganizationName, whoOf, Words } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  zoneOf,
  type Form,
  type PersonsVisit,
  type Problem,
  type Result,
  type RunHead,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { dayAfter, runFilters, runsPath, startOf } from './runs.tsx'

/* `/console/runs/cancel`: the open runs that a filter finds, to be cancelled together. Each is cancelled by itself. */

/** At a time. The page says when there are more. */
const mostCancelled = 50

const names = [...runFilters, 'workflow_id'] as const
const openStates = runStatuses.filter((each) => !runEnded(each))

interface Open {
  readonly runs: readonly RunHead[]
  readonly hasMore: boolean
}

/** What a press of the button could not do. */
interface Failed {
  readonly cancelled: number
  readonly failed: readonly { readonly id: string; readonly message: string }[]
}

/** Newest first. Of members, their own. */
async function openRuns(visit: PersonsVisit): Promise<Result<Open>> {
  const { from, to, status, ...same } = chosenOf(visit.query, names)
  const zone = zoneOf(visit)
  const query = {
    organization_id: organizationId(visit),
    limit: String(mostCancelled),
    ...same,
    ...(from === undefined ? {} : { since: startOf(from, zone) }),
    ...(to === undefined ? {} : { until: startOf(dayAfter(to), zone) }),
    ...(isAtLeast(visit, 'admin') ? {} : { requested_by: visit.person.user.id }),
  }
  const states = openStates.some((each) => each === status) ? [status as string] : openStates
  const listed = await Promise.all(
    states.map((each) => visit.api.call('GET /runs', { query: { ...query, status: each } })),
  )
  const refused = listed.find((each) => !each.ok)
  if (refused?.ok === false) return refused
  const found = listed.flatMap((each) => (each.ok ? each.body.data : []))
  const runs = found.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1)).slice(0, mostCancelled)
  const hasMore =
    found.length > runs.length || listed.some((each) => each.ok && each.body.next_cursor !== null)
  return { ok: true, body: { runs, hasMore } }
}

const notMember: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'members cancel their own runs, and admins those of everybody: ask an owner for a role',
}

/** `GET /console/runs/cancel` */
export async function cancelRunsPage(
  visit: PersonsVisit,
  refused: string | null = null,
  done: Failed | null = null,
): Promise<Shown> {
  if (!isAtLeast(visit, 'member')) return problemPage(notMember, visit.place)
  const open = await openRuns(visit)
  return open.ok ? choosePage(visit, open.body, refused, done) : problemPage(open, visit.place)
}

const countOf = (count: number) => (count === 1 ? 'one run' : `${count} runs`)

function choosePage(
  visit: PersonsVisit,
  { runs, hasMore }: Open,
  refused: string | null,
  done: Failed | null,
): Shown {
  const chosen: Chosen = chosenOf(visit.query, names)
  return {
    status: refused === null ? 200 : 422,
    title: 'Cancel many runs',
    main: (
      <article class="page">
        <Head title="Cancel many runs" visit={visit}>
          {isAtLeast(visit, 'admin')
            ? 'These have not ended. Choose the ones that should.'
            : 'These are your own runs that have not ended. Choose the ones that should.'}
        </Head>
        {refused === null ? null : (
          <p class="alert" role="alert">
            {refused}
          </p>
        )}
        {done === null ? null : <WhatFailed done={done} />}
        <Which chosen={chosen} visit={visit} />
        {runs.length === 0 ? (
          <Empty title="No open run matches.">
            Runs that have ended do not count. <a href={runsPath}>All runs</a>
          </Empty>
        ) : (
          <ChooseRuns runs={runs} hasMore={hasMore} chosen={chosen} visit={visit} />
        )}
      </article>
    ),
  }
}

const Head = (props: { title: string; visit: PersonsVisit; children: ComponentChildren }) => (
  <header class="headline">
    <p class="crumbs small">
      <a href={runsPath}>Runs</a>
    </p>
    <h1>{props.title}</h1>
    <p class="quiet">
      <OrganizationName name={props.visit.person.organization?.name ?? ''} />
    </p>
    <p>{props.children}</p>
  </header>
)

const Which = ({ chosen, visit }: { chosen: Chosen; visit: PersonsVisit }) => (
  <Filters path={cancelRunsPath} chosen={chosen} names={runFilters} title="Filter" kept={['workflow_id']}>
    <Field name="workflow_name" label="Workflow" chosen={chosen} />
    <Choice
      name="status"
      label="State"
      chosen={chosen}
      options={openStates.map((each) => [each, wordOf(each)] as const)}
    />
    {isAtLeast(visit, 'admin') ? <Field name="requester_email" label="Started by" chosen={chosen} /> : null}
    <div class="days">
      <Field name="from" label={`From (${zoneWords(zoneOf(visit))})`} type="date" chosen={chosen} />
      <Field name="to" label={`To (${zoneWords(zoneOf(visit))})`} type="date" chosen={chosen} />
    </div>
  </Filters>
)

function ChooseRuns(props: Open & { chosen: Chosen; visit: PersonsVisit }) {
  const { runs, hasMore, chosen, visit } = props
  return (
    <PostForm action={pathOf(chosen)} token={visit.token} class="stack">
      <fieldset class="checks stack">
        <legend>{hasMore ? `The newest ${runs.length} that match` : capital(countOf(runs.length))}</legend>
        <label class="check">
          <input type="checkbox" name="all" value="yes" />
          All of these
        </label>
        <ul class="inbox">
          {runs.map((run) => (
            <li class="plain-item split">
              <label class="check">
                <input type="checkbox" name="id" value={run.id} />
                <Words text={run.workflow_name ?? 'A run'} most={120} />
              </label>
              <About run={run} now={visit.now} />
            </li>
          ))}
        </ul>
      </fieldset>
      {hasMore ? <p class="quiet">There are more: come back for them, or filter.</p> : null}
      <div class="buttons">
        <button name="action" value="ask" class="danger">
          Cancel the chosen runs …
        </button>
      </div>
    </PostForm>
  )
}

function About({ run, now }: { run: RunHead; now: Date }) {
  const { id, status, created_at: at } = run
  return (
    <>
      <span class="quiet small">
        <Words text={whoOf(run.requester_email)} most={120} />, <Time at={at} now={now} />
      </span>
      <span>
        <RunState status={status} />{' '}
        <a href={`${runsPath}/${id}`}>
          Open<span class="unseen">{` the run ${id}`}</span>
        </a>
      </span>
    </>
  )
}

/** Asks once more, with the number. The form names each run, so no other one is cancelled. */
async function askPage(visit: PersonsVisit, form: Form): Promise<Shown> {
  if (!isAtLeast(visit, 'member')) return problemPage(notMember, visit.place)
  const open = await openRuns(visit)
  if (!open.ok) return problemPage(open, visit.place)
  const ids = idsOf(form)
  const isAll = form.get('all') === 'yes'
  const runs = open.body.runs.filter(({ id }) => isAll || ids.includes(id))
  if (runs.length === 0) return choosePage(visit, open.body, noneChosen, null)
  const left = isAll ? 0 : ids.length - runs.length
  const path = pathOf(chosenOf(visit.query, names))
  const count = countOf(runs.length)
  return {
    status: 200,
    title: `Cancel ${count}?`,
    main: (
      <article class="page">
        <Head title={`Cancel ${count}?`} visit={visit}>
          No new call of {runs.length === 1 ? 'it' : 'them'} starts, and what waits for a person is withdrawn.
          Calls that are under way end by themselves, and what was done stays done.
        </Head>
        {left === 0 ? null : (
          <p class="note">{`Of those that you chose, ${countOf(left)} ended meanwhile or left this list, and ${left === 1 ? 'is' : 'are'} not cancelled.`}</p>
        )}
        <ul class="inbox">
          {runs.map((run) => (
            <li class="plain-item split">
              <Words text={run.workflow_name ?? 'A run'} most={120} />
              <About run={run} now={visit.now} />
            </li>
          ))}
        </ul>
        <PostForm action={path} token={visit.token} class="stack">
          <OnceField />
          {runs.map(({ id }) => (
            <input type="hidden" name="id" value={id} />
          ))}
          <div class="stack">
            <label for="reason">Reason (optional)</label>
            <textarea id="reason" name="reason" rows={2} maxlength={500} />
          </div>
          <div class="links">
            <button name="action" value="cancel" class="danger">
              {`Cancel ${count} for good`}
            </button>
            <a href={path}>Choose again</a>
          </div>
        </PostForm>
      </article>
    ),
  }
}

const WhatFailed = ({ done: { cancelled, failed } }: { done: Failed }) => (
  <section class="alert stack" role="alert" aria-label="What could not be cancelled">
    <p>
      {cancelled === 0
        ? 'No run was cancelled.'
        : `${capital(countOf(cancelled))} ${cancelled === 1 ? 'is' : 'are'} cancelled.`}{' '}
      {failed.length === 1 ? 'This one is not:' : 'These are not:'}
    </p>
    <ul class="bullets">
      {failed.map(({ id, message }) => (
        <li>
          <a href={`${runsPath}/${id}`}>
            <code>
              <Words text={id} most={60} />
            </code>
          </a>
          : <Message text={message} most={500} />
        </li>
      ))}
    </ul>
  </section>
)

function pathOf(chosen: Chosen): string {
  const given = Object.entries(chosen).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  )
  return given.length === 0 ? cancelRunsPath : `${cancelRunsPath}?${new URLSearchParams(given).toString()}`
}

const noneChosen = 'Nothing was cancelled: choose at least one run.'
const idsOf = (form: Form) => [...new Set(form.getAll('id'))].filter((id) => /^run_\w{1,40}$/.test(id))

/** `POST /console/runs/cancel` */
export async function cancelRuns(visit: PersonsVisit, form: Form): Promise<Shown> {
  if (form.get('action') === 'ask') return askPage(visit, form)
  const ids = idsOf(form)
  if (form.get('action') !== 'cancel' || ids.length === 0) return cancelRunsPage(visit, noneChosen)
  if (ids.length > mostCancelled)
    return cancelRunsPage(visit, `Nothing was cancelled: choose at most ${mostCancelled} runs.`)
  const failed: { id: string; message: string }[] = []
  for (const id of ids) {
    const done = await visit.api.call('POST /runs/{id}/cancel', {
      params: { id },
      body: reasonOf(form),
      ...onceOf(form),
    })
    if (!done.ok) failed.push({ id, message: done.message })
  }
  if (failed.length === 0) return { redirect: `${runsPath}?done=cancel` }
  return cancelRunsPage(visit, null, { cancelled: ids.length - failed.length, failed })
}
