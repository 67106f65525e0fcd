import { nothingDone, reasonOf, Ask, Waiting } from '../parts/waiting.tsx'
import { labelled, onceOf, Refused, Told } from '../parts/form.tsx'
import { happenedPath, resolveCall } from './happened.tsx'
import { outcomeChoices } from '../parts/outcome.tsx'
import { runFields, stepsPerPage, Steps, type RunShown } from '../parts/steps.tsx'
import {
  hasRole,
  roleIn,
  type Form,
  type PersonsVisit,
  type Problem,
  type Shown,
  type StepView,
} from '../visit.ts'
import { shownWhat } from '../../steps/index.ts'
import { isRepeatable } from './again.tsx'
import { problemPage } from './plain.tsx'
import { receiptOf, sentencesOf, Receipts, type ReceiptsProps } from '../parts/receipts.tsx'
import { triggerPath, workflowPath } from '../../contract/pages.ts'
import { runEnded } from '../../contract/status.ts'
import type { Role } from '../../policy/types.ts'
import { Message, whoOf, Words } from '../parts/words.tsx'
import { Facts, Value, Inputs } from '../parts/values.tsx'
import { countedFromOne, itemWords, partlyDone, RunReason } from '../parts/items.tsx'
import { Live, pollOf } from '../parts/layout.tsx'
import { Picture, type DrawnStep } from '../parts/picture.tsx'
import { Risk, RunState, stateOf, toneOf } from '../parts/state.tsx'
import { duration, Time } from '../parts/time.tsx'

/** `GET /console/runs/{id}`. The record of an agent's session leads an admin or owner to the page of the session. */
export async function runPage(visit: PersonsVisit, refused: Problem | null = null): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const [found, receipt] = await Promise.all([
    visit.api.call('GET /runs/{id}', { params: { id }, only: runFields }),
    receiptOf(visit, id),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const role = roleIn(visit, run.organization_id)
  const session = run.agent_session_id
  if (session !== undefined && hasRole(role, 'admin')) return { redirect: `/console/sessions/${session}` }
  return {
    status: refused?.status ?? 200,
    title: run.workflow_name ?? 'Run',
    main: (
      <Run
        run={run}
        role={role}
        part={partOf(visit.query.get('steps'), run.steps.length)}
        receipt={receipt}
        sentences={await sentencesIn(visit, run)}
        visit={visit}
        refused={refused && { ...refused, message: countedFromOne(refused.message) }}
      />
    ),
  }
}

/** Viewers get none, because they cannot read approvals. */
const sentencesIn = (visit: PersonsVisit, { id, organization_id, waiting_for }: RunShown) =>
  hasRole(roleIn(visit, organization_id), 'member') && waiting_for.some((each) => each.approval_id !== null)
    ? sentencesOf(visit, { run_id: id, organization_id })
    : new Map<string, string>()

/** The index of the part of the step list that the address asks for, which counts from 1. 0 if there is none such. */
function partOf(given: string | null, steps: number): number {
  const part = Number(given ?? '1') - 1
  return Number.isInteger(part) && part >= 0 && part * stepsPerPage < steps ? part : 0
}

const outcomes = outcomeChoices.map(([outcome]) => outcome)

/** `POST /console/runs/{id}`: cancels the run, or records what became of calls whose outcome is unknown. */
export async function changeRun(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const outcome = outcomes.find((each) => each === form.get('outcome'))
  if (outcome === 'done') return { redirect: happenedPath(id, form.get('step') ?? '', form) }
  const done = outcome
    ? await resolveCall(visit, form, outcome)
    : form.get('action') === 'cancel'
      ? await visit.api.call('POST /runs/{id}/cancel', {
          params: { id },
          body: reasonOf(form),
          only: ['id'],
          ...onceOf(form),
        })
      : nothingDone
  return done.ok ? { redirect: `/console/runs/${id}` } : runPage(visit, done)
}

function boxOf(step: StepView, path: string): DrawnStep {
  const { id, depends_on, finished_at: end } = step
  const [state, items] = [stateOf(step), itemWords(step)]
  return {
    id,
    depends_on,
    what: `${shownWhat(step)}${items === null ? '' : ` · ${items.short}`}`,
    tone: toneOf(state),
    badge: <RunState status={state} />,
    hasEnded: end !== null,
    address: `${path}/steps/${id}`,
  }
}

const told = {
  other:
    'Nothing was saved. The call was made again meanwhile, and its outcome is unknown once more: look for that call, then choose again.',
}

export interface RunProps {
  readonly run: RunShown
  readonly role: Role | null
  readonly part: number
  readonly receipt: ReceiptsProps['receipt']
  /** What each waiting call would do, by the id of the approval. */
  readonly sentences: ReadonlyMap<string, string>
  readonly visit: PersonsVisit
  readonly refused: Problem | null
}

export function Run({ run, role, part, receipt, sentences, visit, refused }: RunProps) {
  const path = `/console/runs/${run.id}`
  const isOpen = !runEnded(run.status) && run.workflow_id !== null
  const mayCancel =
    isOpen &&
    (hasRole(role, 'admin') || (hasRole(role, 'member') && run.requested_by === visit.person.user.id))
  const states = run.steps.map(
    ({ status, items, looking, resolutions }) =>
      `${status}${items === null ? '' : JSON.stringify(items.states)}${looking === null ? '' : '?'}${resolutions.length || ''}`,
  )
  return (
    <article class="page">
      <Head run={run} isOpen={isOpen} visit={visit} />
      <Again run={run} visit={visit} />
      <Refused filled={labelled({ form: null, problem: refused }, { reason: 'Reason' })} />
      <Told visit={visit} results={told} />
      <Changed change={run.changed_since_your_last_run} now={visit.now} />
      <div class="columns">
        <div class="column">
          <Waiting
            run={{ id: run.id, organization_id: run.organization_id, waiting_for: inOrder(run) }}
            role={role}
            visit={visit}
            sentences={sentences}
          />
          {run.steps.length < 2 ? null : (
            <Live name="run-picture" version={states.join('/')}>
              <section class="card" aria-labelledby="picture-title">
                <h2 id="picture-title">What depends on what</h2>
                <Picture
                  layouts={visit.layouts}
                  version={`${run.workflow_id ?? ''}@${run.workflow_version ?? 0}`}
                  steps={run.steps.map((step) => boxOf(step, path))}
                />
              </section>
            </Live>
          )}
          {run.steps.length === 0 ? null : (
            <Steps run={run} part={part} path={path} version={states.join('/')} now={visit.now} />
          )}
          <Result run={run} />
          <Receipts
            receipt={receipt}
            path={path}
            visit={visit}
            organizationId={run.organization_id}
            words={{ first: 'First decisions', next: 'Later decisions' }}
          />
        </div>
        <div class="column">
          <About run={run} visit={visit} />
          <Ask
            name="run-cancel"
            isOffered={mayCancel}
            action={path}
            token={visit.token}
            value="cancel"
            open="Cancel the run…"
            explanation="Steps that have not begun will not run. Calls that were made are not taken back."
            sure="Yes, cancel it"
          />
        </div>
      </div>
    </article>
  )
}

/** The link is there as soon as the run has ended; near the top, because on a phone the columns are long. */
function Again({ run, visit }: { run: RunShown; visit: PersonsVisit }) {
  return (
    <Live name="run-again" version={run.status}>
      {isRepeatable(visit, run) ? (
        <a class="button" href={`/console/runs/${run.id}/again`}>
          Run again…
        </a>
      ) : null}
    </Live>
  )
}

/** In the order of the steps and of their items. */
function inOrder({ waiting_for: waiting, steps }: RunShown): RunShown['waiting_for'] {
  const places = new Map(steps.map(({ id }, place) => [id, place]))
  const placeOf = (step: string | null): number => places.get(step ?? '') ?? -1
  return waiting.toSorted(
    (a, b) => placeOf(a.step_id) - placeOf(b.step_id) || (a.item_index ?? 0) - (b.item_index ?? 0),
  )
}

/** Viewers see no triggers. */
function Starter({ run: { trigger, requester_email: email }, isMember }: StarterProps) {
  if (trigger === null) return <Words text={whoOf(email)} />
  const name = <Words text={trigger.name} />
  return (
    <>
      The trigger {isMember ? <a href={triggerPath(trigger.workflow_id, trigger.id)}>{name}</a> : name} of{' '}
      <Words text={whoOf(email)} />
    </>
  )
}

interface StarterProps {
  readonly run: RunShown
  readonly isMember: boolean
}

function Head({ run, isOpen, visit }: { run: RunShown; isOpen: boolean; visit: PersonsVisit }) {
  const { now } = visit
  const isMember = hasRole(roleIn(visit, run.organization_id), 'member')
  const version = `${run.status}/${run.status_reason}/${partlyDone(run)}`
  return (
    <Live name="run-head" version={version} {...pollOf(run.id, isOpen)}>
      <header class="headline">
        <p class="crumbs small">
          <a href="/console/runs">Runs</a>
        </p>
        <p class="badges" role="status">
          <RunState status={run.status} />
          {run.risk.level === 'low' ? null : <Risk level={run.risk.level} />}
        </p>
        <h1>
          <Words text={run.workflow_name ?? (run.workflow_id === null ? 'An agent’s session' : 'A run')} />
        </h1>
        <p>
          <RunReason run={run} />
        </p>
        <p class="quiet small">
          <Starter run={run} isMember={isMember} /> started it <Time at={run.created_at} now={now} />
          {run.duration_ms === null ? null : ` · it took ${duration(run.duration_ms)}`}
        </p>
      </header>
    </Live>
  )
}

/** The change of another person that the requester had not run before. */
function Changed({ change, now }: { change: RunShown['changed_since_your_last_run']; now: Date }) {
  if (change === null) return null
  return (
    <p class="note">
      <strong>
        <Words text={change.author} />
      </strong>
      {` changed the workflow, and this is your first run since then: version ${change.version}, `}
      <Time at={change.deployed_at} now={now} />
      {change.others.length === 0 ? null : (
        <>
          , with text of <Words text={change.others.join(', ')} />
        </>
      )}
      {change.message === '' ? (
        '.'
      ) : (
        <>
          , with the message{' '}
          <q>
            <Words text={change.message} most={300} />
          </q>
          .
        </>
      )}
    </p>
  )
}

/** As the field `result` of the workflow's definition says. */
function Result({ run }: { run: RunShown }) {
  return (
    <Live name="run-result" version={run.status}>
      {run.result === undefined || run.result === null ? null : (
        <section class="card" aria-labelledby="result">
          <h2 id="result">Result</h2>
          <Value value={run.result} />
        </section>
      )}
    </Live>
  )
}

function About({ run, visit }: { run: RunShown; visit: PersonsVisit }) {
  const { now } = visit
  const version = `${run.status}/${run.started_at ?? ''}/${run.data_removed_at ?? ''}/${run.made_again_as ?? ''}`
  return (
    <Live name="run-about" version={version}>
      <section class="card" aria-labelledby="about">
        <h2 id="about">About this run</h2>
        <Facts
          facts={[
            [
              'Again from',
              run.rerun_of === null ? null : <a href={`/console/runs/${run.rerun_of}`}>an earlier run</a>,
            ],
            [
              'Made again as',
              run.made_again_as === null ? null : (
                <a href={`/console/runs/${run.made_again_as}`}>a later run</a>
              ),
            ],
            [
              'Workflow',
              run.workflow_id === null ? null : (
                <a href={workflowPath(run.workflow_id)}>{`Version ${run.workflow_version ?? ''}`}</a>
              ),
            ],
            [
              'Risk',
              run.risk.reasons.length === 0
                ? null
                : run.risk.reasons.map((each) => (
                    <div>
                      <Message text={each} most={500} />
                    </div>
                  )),
            ],
            ['Accepted', <Time at={run.created_at} now={now} exact />],
            ['Started', run.started_at === null ? null : <Time at={run.started_at} now={now} exact />],
            ['Ended', run.finished_at === null ? null : <Time at={run.finished_at} now={now} exact />],
            ['Id', <code>{run.id}</code>],
          ]}
        />
        <h3>Inputs</h3>
        {run.data_removed_at !== null ? (
          <p class="quiet">
            Inputs and outputs were removed <Time at={run.data_removed_at} now={now} />.
          </p>
        ) : (
          <Inputs run={run} />
        )}
      </section>
    </Live>
  )
}
