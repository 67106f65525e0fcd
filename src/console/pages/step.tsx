import { shownWhat } from '../../steps/index.ts'
import {
  runFields,
  After,
  Earlier,
  Looking,
  Said,
  GoesOn,
  isTakenOver,
  type RunShown,
} from '../parts/steps.tsx'
import { type PersonsVisit, type Shown, type Result, type StepView, type CallsView } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { toolPath } from '../../contract/pages.ts'
import { runEnded } from '../../contract/status.ts'
import { itemNumber, itemWords } from '../parts/items.tsx'
import { Labels, RunState, stateOf } from '../parts/state.tsx'
import { Live, pollOf } from '../parts/layout.tsx'
import { chosenOf, Pager } from '../parts/list.tsx'
import { duration, Time } from '../parts/time.tsx'
import { Hidden, Value, Values, type Fields } from '../parts/values.tsx'
import { Decided } from '../parts/votes.tsx'
import { Message, Words } from '../parts/words.tsx'

/** A page with a longer output would load slowly, and nobody would read it. */
const mostCharacters = 1_000_000

export async function stepPage(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call('GET /runs/{id}', { params: { id }, only: runFields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const place = run.steps.findIndex((each) => each.id === visit.params['step']) + 1
  const step = run.steps[place - 1]
  if (step === undefined) return problemPage({ status: 404, code: 'not_found', message: '' }, visit.place)
  const params = { id, step: step.id }
  const cursor = visit.query.get('calls')
  const [calls, output] = await Promise.all([
    visit.api.call('GET /runs/{id}/steps/{step}/calls', {
      params,
      query: { limit: '10', ...(cursor === null ? {} : { cursor }) },
    }),
    visit.api.call('GET /runs/{id}/steps/{step}/output', { params, mostCharacters }),
  ])
  return {
    status: 200,
    title: `${step.id} · ${run.workflow_name ?? 'Run'}`,
    main: <Step run={run} step={step} place={place} calls={calls} output={output} visit={visit} />,
  }
}

interface StepProps {
  readonly run: RunShown
  readonly step: StepView
  readonly place: number
  readonly calls: Result<CallsView>
  readonly output: Result<unknown>
  readonly visit: PersonsVisit
}

function Step({ run, step, place, calls, output, visit }: StepProps) {
  const path = `/console/runs/${run.id}`
  const isOpen = !runEnded(run.status)
  const version = [
    step.status,
    JSON.stringify(step.items),
    step.attempts,
    step.error?.message ?? '',
    step.looking === null ? '' : 'looking',
    step.resolutions.length,
  ].join('/')
  const items = itemWords(step)
  return (
    <article class="page">
      <Live name="step" version={version} {...pollOf(run.id, isOpen)}>
        <div class="page">
          <header class="headline">
            <p class="crumbs small">
              <a href="/console/runs">Runs</a> /{' '}
              <a href={path}>
                <Words text={run.workflow_name ?? 'Run'} most={80} />
              </a>
            </p>
            <p class="badges" role="status">
              <RunState status={stateOf(step)} />
            </p>
            <h1>
              <Words text={step.id} most={100} />
            </h1>
            {step.summary === null ? null : (
              <p>
                <Words text={step.summary} most={500} />
              </p>
            )}
            {items === null ? null : <p>{items.whole}</p>}
            <div class="meta">
              <span>{`Step ${place} of ${run.steps.length}`}</span>
              <code>
                {step.tool === null ? (
                  <Words text={shownWhat(step)} most={100} />
                ) : (
                  <a href={toolPath(step.tool)}>
                    <Words text={step.tool} most={100} />
                  </a>
                )}
              </code>
              <After step={step} />
              <GoesOn step={step} now={visit.now} />
              <Earlier step={step} />
              <Looking step={step} />
              {step.kind === 'ask' && step.approval_ids[0] !== undefined && step.items === null ? (
                <a href={`/console/approvals/${step.approval_ids[0]}`}>Its question</a>
              ) : null}
              {step.duration_ms === null || isTakenOver(step) ? null : (
                <span>{`took ${duration(step.duration_ms)}`}</span>
              )}
              {step.labels.length === 0 ? null : <Labels labels={step.labels} />}
            </div>
          </header>
          <Said step={step} now={visit.now} />
          {step.error === null ? null : (
            <p class="alert">
              <Message text={step.error.message} />
            </p>
          )}
          {/* A wait has no output. Of a step without a tool, only items are worth a list. */}
          {step.kind === 'wait' ? null : <Output run={run} step={step} output={output} />}
          {/* A step that was taken over has made no call. */}
          {(step.kind !== 'tool' || step.reused_from !== null) && step.items === null ? null : (
            <Calls
              kind={step.kind}
              calls={calls}
              path={`${path}/steps/${step.id}`}
              organizationId={run.organization_id}
              visit={visit}
            />
          )}
        </div>
      </Live>
    </article>
  )
}

function Output({ run, step, output }: Pick<StepProps, 'run' | 'step' | 'output'>) {
  const isNothing = output.ok && output.body === null
  return (
    <section class="card" aria-labelledby="output">
      <h2 id="output">Output</h2>
      {!output.ok ? (
        output.code === 'too_large' ? (
          <p>
            The output is too long for a page. Read it with{' '}
            <code>{`GET /api/v1/runs/${run.id}/steps/${step.id}/output`}</code>.
          </p>
        ) : (
          <p>
            <Message text={output.message} />
          </p>
        )
      ) : isNothing ? (
        <p class="quiet">
          {step.finished_at === null && !runEnded(run.status)
            ? 'The step has no output yet.'
            : 'The step has no output.'}
        </p>
      ) : (
        <Value value={output.body} />
      )}
    </section>
  )
}

/** Characters of the JSON of parameters, in a list of several calls. */
const mostParams = 100_000

function Calls(props: {
  kind: string
  calls: Result<CallsView>
  path: string
  organizationId: string
  visit: PersonsVisit
}) {
  const { kind, calls, path, organizationId, visit } = props
  return (
    <section class="card" aria-labelledby="calls">
      <h2 id="calls">{kind === 'tool' ? 'Calls' : 'Items'}</h2>
      {calls.ok ? null : (
        <p>
          <Message text={calls.message} />
        </p>
      )}
      {calls.ok && calls.body.data.length === 0 ? <p class="quiet">The tool was not called.</p> : null}
      <ol class="rows">
        {(calls.ok ? calls.body.data : []).map((call) => (
          <Call kind={kind} call={call} organizationId={organizationId} visit={visit} />
        ))}
      </ol>
      <Pager
        path={path}
        chosen={chosenOf(visit.query, ['calls'])}
        cursor="calls"
        next={calls.ok ? calls.body.next_cursor : null}
        words={{ first: 'First calls', next: 'Later calls' }}
      />
    </section>
  )
}

interface CallProps {
  readonly kind: string
  readonly call: CallsView['data'][number]
  readonly organizationId: string
  readonly visit: PersonsVisit
}

function Call({ kind, call, organizationId, visit }: CallProps) {
  const { now } = visit
  const { approval, duration_ms, error, item_index, labels, started_at } = call
  return (
    <li class="row">
      <p class="split">
        <strong>{item_index === null ? 'The call' : `Item ${itemNumber(item_index)}`}</strong>
        <RunState status={stateOf({ kind, status: call.status })} />
      </p>
      <div class="meta">
        <GoesOn step={call} now={now} />
        {started_at === null ? null : (
          <span>
            began <Time at={started_at} now={now} exact />
          </span>
        )}
        {duration_ms === null ? null : <span>{`took ${duration(duration_ms)}`}</span>}
        {call.attempts > 1 ? <span>{`${call.attempts} attempts`}</span> : null}
        {labels.length === 0 ? null : <Labels labels={labels} />}
      </div>
      {approval === null ? null : (
        <Decided kind={kind} approval={approval} organizationId={organizationId} visit={visit} />
      )}
      {error === null ? null : (
        <p>
          <Message text={error.message} most={1_000} />
        </p>
      )}
      {kind === 'tool' ? <ShownParams call={call} /> : null}
    </li>
  )
}

const ShownParams = ({ call: { item_index, params, values_hidden: hidden } }: Pick<CallProps, 'call'>) => (
  <>
    <h3 class="apart">Parameters</h3>
    {hidden === undefined ? null : <Hidden hidden={hidden} />}
    {params === undefined ? null : <Params params={params} isAlone={item_index === null} />}
  </>
)

function Params({ params, isAlone }: { params: Fields; isAlone: boolean }) {
  if (!isAlone && JSON.stringify(params).length > mostParams)
    return <p class="quiet">They are too long for a list. Read them with the API.</p>
  return <Values values={params} />
}
