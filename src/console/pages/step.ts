import { h } from 'preact'
import type { Page as ListPage } from '../../governance/page.ts'
import type { CallView } from '../../governance/runs/read/calls.ts'
import type { Json, JsonObject, Role } from '../../policy/types.ts'
import { shownWhat } from '../../steps/index.ts'
import { runFields, After, GoesOn, type RunShown } from '../parts/steps.ts'
import { roleIn, hasRole, type PersonsVisit, type Shown, type Result } from '../visit.ts'
import { problemPage } from './plain.ts'
import { runEnded } from '../../contract/status.ts'
import type { StepView } from '../../governance/runs/read/read.ts'
import { itemNumber, itemWords } from '../parts/items.ts'
import { Labels, RunState, stateOf } from '../parts/state.ts'
import { Live, pollOf } from '../parts/layout.ts'
import { chosenOf, Pager } from '../parts/filters.ts'
import { duration, Time } from '../parts/time.ts'
import { Value, Values } from '../parts/values.ts'
import { Message, Words } from '../parts/words.ts'

/** A page with a longer output would load slowly, and nobody would read it. */
const mostCharacters = 1_000_000

export async function stepPage(visit: PersonsVisit): Promise<Shown> {
  const id = visit.params['id'] ?? ''
  const found = await visit.api.call<RunShown>('GET /runs/{id}', { params: { id }, only: runFields })
  if (!found.ok) return problemPage(found, visit.place)
  const run = found.body
  const place = run.steps.findIndex((each) => each.id === visit.params['step']) + 1
  const step = run.steps[place - 1]
  if (step === undefined) return problemPage({ status: 404, code: 'not_found', message: '' }, visit.place)
  const params = { id, step: step.id }
  const cursor = visit.query.get('calls')
  const [calls, output] = await Promise.all([
    visit.api.call<ListPage<CallView>>('GET /runs/{id}/steps/{step}/calls', {
      params,
      query: { limit: '10', ...(cursor === null ? {} : { cursor }) },
    }),
    visit.api.call<Json>('GET /runs/{id}/steps/{step}/output', { params, mostCharacters }),
  ])
  return {
    status: 200,
    title: `${step.id} · ${run.workflow_name ?? 'Run'}`,
    main: h(Step, { run, step, place, calls, output, role: roleIn(visit, run.organization_id), visit }),
  }
}

interface StepProps {
  readonly run: RunShown
  readonly step: StepView
  readonly place: number
  readonly calls: Result<ListPage<CallView>>
  readonly output: Result<Json>
  readonly role: Role | null
  readonly visit: PersonsVisit
}

function Step({ run, step, place, calls, output, role, visit }: StepProps) {
  const path = `/console/runs/${run.id}`
  const isOpen = !runEnded(run.status)
  const version = [step.status, JSON.stringify(step.items), step.attempts, step.error?.message ?? ''].join(
    '/',
  )
  const items = itemWords(step)
  return h('article', { class: 'page' }, [
    h(Live, { name: 'step', version, ...pollOf(run.id, isOpen) }, [
      h('div', { class: 'page' }, [
        h('header', { class: 'headline' }, [
          h('p', { class: 'crumbs small' }, [
            h('a', { href: '/console/runs' }, 'Runs'),
            ' / ',
            h('a', { href: path }, h(Words, { text: run.workflow_name ?? 'Run', most: 80 })),
          ]),
          h('p', { class: 'badges', role: 'status' }, h(RunState, { status: stateOf(step) })),
          h('h1', null, h(Words, { text: step.id, most: 100 })),
          step.summary === null ? null : h('p', null, h(Words, { text: step.summary, most: 500 })),
          items === null ? null : h('p', null, items.whole),
          h('div', { class: 'meta' }, [
            h('span', null, `Step ${place} of ${run.steps.length}`),
            h('code', null, h(Words, { text: shownWhat(step), most: 100 })),
            h(After, { step }),
            h(GoesOn, { step, now: visit.now }),
            step.duration_ms === null ? null : h('span', null, `took ${duration(step.duration_ms)}`),
            step.labels.length === 0 ? null : h(Labels, { labels: step.labels }),
          ]),
        ]),
        step.error === null ? null : h('p', { class: 'alert' }, h(Message, { text: step.error.message })),
        // A step without a tool has no output, and only its items are worth a list.
        step.kind === 'tool' ? h(Output, { run, step, output }) : null,
        step.kind !== 'tool' && step.items === null
          ? null
          : h(Calls, {
              kind: step.kind,
              calls,
              path: `${path}/steps/${step.id}`,
              mayOpenApprovals: hasRole(role, 'member'),
              visit,
            }),
      ]),
    ]),
  ])
}

function Output({ run, step, output }: Pick<StepProps, 'run' | 'step' | 'output'>) {
  const isNothing = output.ok && output.body === null
  return h('section', { class: 'card', 'aria-labelledby': 'output' }, [
    h('h2', { id: 'output' }, 'Output'),
    !output.ok
      ? output.code === 'too_large'
        ? h('p', null, [
            'The output is too long for a page. Read it with ',
            h('code', null, `GET /api/v1/runs/${run.id}/steps/${step.id}/output`),
            '.',
          ])
        : h('p', null, h(Message, { text: output.message }))
      : isNothing
        ? h('p', { class: 'quiet' }, [
            step.finished_at === null && !runEnded(run.status)
              ? 'The step has no output yet.'
              : 'The step has no output.',
          ])
        : h(Value, { value: output.body }),
  ])
}

/** Characters of the JSON of parameters, in a list of several calls. */
const mostParams = 100_000

function Calls(props: {
  kind: string
  calls: Result<ListPage<CallView>>
  path: string
  mayOpenApprovals: boolean
  visit: PersonsVisit
}) {
  const { kind, calls, path, mayOpenApprovals, visit } = props
  return h('section', { class: 'card', 'aria-labelledby': 'calls' }, [
    h('h2', { id: 'calls' }, kind === 'tool' ? 'Calls' : 'Items'),
    calls.ok ? null : h('p', null, h(Message, { text: calls.message })),
    calls.ok && calls.body.data.length === 0 ? h('p', { class: 'quiet' }, 'The tool was not called.') : null,
    h('ol', { class: 'rows' }, [
      (calls.ok ? calls.body.data : []).map((call) =>
        h(Call, { kind, call, mayOpenApprovals, now: visit.now }),
      ),
    ]),
    h(Pager, {
      path,
      chosen: chosenOf(visit.query, ['calls']),
      cursor: 'calls',
      next: calls.ok ? calls.body.next_cursor : null,
      words: { first: 'First calls', next: 'Later calls' },
    }),
  ])
}

interface CallProps {
  readonly kind: string
  readonly call: CallView
  readonly mayOpenApprovals: boolean
  readonly now: Date
}

function Call({ kind, call, mayOpenApprovals, now }: CallProps) {
  const { approval_id, duration_ms, error, item_index, labels, params, started_at } = call
  return h('li', { class: 'row' }, [
    h('p', { class: 'split' }, [
      h('strong', null, item_index === null ? 'The call' : `Item ${itemNumber(item_index)}`),
      h(RunState, { status: stateOf({ kind, status: call.status }) }),
    ]),
    h('div', { class: 'meta' }, [
      h(GoesOn, { step: call, now }),
      started_at === null ? null : h('span', null, ['began ', h(Time, { at: started_at, now, exact: true })]),
      duration_ms === null ? null : h('span', null, `took ${duration(duration_ms)}`),
      call.attempts > 1 ? h('span', null, `${call.attempts} attempts`) : null,
      approval_id === null || !mayOpenApprovals
        ? null
        : h('a', { href: `/console/approvals/${approval_id}` }, 'Open the approval'),
      labels.length === 0 ? null : h(Labels, { labels }),
    ]),
    error === null ? null : h('p', null, h(Message, { text: error.message, most: 1_000 })),
    kind === 'tool' ? h(ShownParams, { params, isAlone: item_index === null }) : null,
  ])
}

const ShownParams = (props: { params: JsonObject | undefined; isAlone: boolean }) => [
  h('h3', { class: 'apart' }, 'Parameters'),
  props.params === undefined
    ? h('p', { class: 'quiet' }, 'Only the person who started the run, admins and owners see them.')
    : h(Params, { params: props.params, isAlone: props.isAlone }),
]

function Params({ params, isAlone }: { params: JsonObject; isAlone: boolean }) {
  if (!isAlone && JSON.stringify(params).length > mostParams)
    return h('p', { class: 'quiet' }, 'They are too long for a list. Read them with the API.')
  return h(Values, { values: params })
}
