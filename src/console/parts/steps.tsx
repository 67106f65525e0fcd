import type { StepView, RunView } from '../visit.ts'
import { shownWhat } from '../../steps/index.ts'
import { lookingWords, saidWords } from '../../contract/sought.ts'
import { itemNumber, itemWords } from './items.tsx'
import { Labels, RunState, stateOf } from './state.tsx'
import { Live } from './layout.tsx'
import { duration, Time } from './time.tsx'
import { Message, Words } from './words.tsx'

export const runFields = [
  'id',
  'organization_id',
  'workflow_id',
  'workflow_name',
  'workflow_version',
  'agent_session_id',
  'status',
  'status_reason',
  'waiting_for',
  'requested_by',
  'requester_email',
  'trigger',
  'rerun_of',
  'made_again_as',
  'inputs',
  'input_labels',
  'result',
  'values_hidden',
  'steps',
  'risk',
  'created_at',
  'started_at',
  'finished_at',
  'data_removed_at',
  'duration_ms',
  'changed_since_your_last_run',
] as const

export type RunShown = Pick<RunView, (typeof runFields)[number]>

export const stepsPerPage = 100

interface StepsProps {
  readonly run: Pick<RunShown, 'steps'>
  readonly part: number
  readonly path: string
  readonly version: string
  readonly now: Date
}

/** In the order of the definition. The list says in words everything that the picture shows. */
export function Steps({ run, part, path, version, now }: StepsProps) {
  const from = part * stepsPerPage
  const shown = run.steps.slice(from, from + stepsPerPage)
  return (
    <Live name="run-steps" version={`${part}/${version}`}>
      <section class="card" aria-labelledby="steps">
        <h2 id="steps">
          {run.steps.length === 1 ? 'Step' : `Steps (${run.steps.length.toLocaleString('en')})`}
        </h2>
        <ol class="rows" start={from + 1}>
          {shown.map((step) => (
            <Step step={step} address={`${path}/steps/${step.id}`} now={now} />
          ))}
        </ol>
        <Parts count={run.steps.length} part={part} path={path} />
      </section>
    </Live>
  )
}

/** Says when a step that waits for a time goes on. */
export function GoesOn({ step, now }: { step: Pick<StepView, 'waits_until'>; now: Date }) {
  if (step.waits_until === null) return null
  return (
    <span>
      goes on <Time at={step.waits_until} now={now} exact />
    </span>
  )
}

function Step({ step, address, now }: { step: StepView; address: string; now: Date }) {
  const items = itemWords(step)
  return (
    <li class="row">
      <p class="split">
        <a class="item-link" href={address}>
          <Words text={step.id} most={100} />
        </a>
        <RunState status={stateOf(step)} />
      </p>
      {step.summary === null ? null : (
        <p class="small">
          <Words text={step.summary} most={200} />
        </p>
      )}
      {items === null ? null : <p class="small">{items.whole}</p>}
      <div class="meta">
        <code>
          <Words text={shownWhat(step)} most={100} />
        </code>
        <After step={step} />
        <GoesOn step={step} now={now} />
        {step.duration_ms === null || step.status === 'skipped' || isTakenOver(step) ? null : (
          <span>{`took ${duration(step.duration_ms)}`}</span>
        )}
        {step.attempts > 1 && step.looking === null ? <span>{`${step.attempts} attempts`}</span> : null}
        <Looking step={step} />
        <Earlier step={step} />
        {step.labels.length === 0 ? null : <Labels labels={step.labels} />}
      </div>
      <Said step={step} now={now} />
      {step.error === null ? null : (
        <p class="small">
          <Message text={step.error.message} most={400} />
        </p>
      )}
    </li>
  )
}

/** A call was sent and got no answer: what is done about it now. */
export const Looking = ({ step: { looking } }: { readonly step: StepView }) =>
  looking === null ? null : (
    <span>
      <Words text={lookingWords(looking)} most={200} />
    </span>
  )

/** What people said about calls with an unknown outcome. */
export const Said = ({ step: { resolutions }, now }: { readonly step: StepView; readonly now: Date }) =>
  resolutions.map(({ item_index: item, by_email: email, outcome, at }) => (
    <p class="small">
      {item === null ? null : `Item ${itemNumber(item)}: `}
      <Words text={email} most={120} /> {saidWords[outcome]}, <Time at={at} now={now} exact />
    </p>
  ))

/** Such a step took no time. Of a `for_each`, only some items may be taken over. */
export const isTakenOver = ({ reused_from: from, items }: StepView): boolean =>
  from !== null && items === null

/** What an earlier run had done of the step. */
export function Earlier({ step: { reused_from: from, repeats } }: { readonly step: StepView }) {
  const run = from ?? repeats?.split('/', 1)[0]
  if (run === undefined) return null
  return (
    <a href={`/console/runs/${run}`}>
      {from === null ? 'made in an earlier run already' : 'taken over from an earlier run'}
    </a>
  )
}

const mostNamed = 8

/** The steps that this one waits for, also where the picture leaves out a line that follows from others. */
export function After({ step: { depends_on: needed } }: { readonly step: StepView }) {
  if (needed.length === 0) return null
  return (
    <span>
      after{' '}
      {needed.slice(0, mostNamed).map((id, index) => (
        <>
          {index === 0 ? null : ', '}
          <Words text={id} most={60} />
        </>
      ))}
      {needed.length > mostNamed ? ` and ${needed.length - mostNamed} more` : null}
    </span>
  )
}

function Parts({ count, part, path }: { count: number; part: number; path: string }) {
  const parts = Math.ceil(count / stepsPerPage)
  if (parts < 2) return null
  return (
    <nav class="pager" aria-label="Parts of the list of steps">
      {Array.from({ length: parts }, (_, index) => (
        <a
          class="button"
          href={`${path}?steps=${index + 1}#steps`}
          {...(index === part ? { 'aria-current': 'page' } : {})}
        >{`${index * stepsPerPage + 1}–${Math.min(count, (index + 1) * stepsPerPage)}`}</a>
      ))}
    </nav>
  )
}
