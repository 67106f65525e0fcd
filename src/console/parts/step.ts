import { h, type ComponentChild } from 'preact'
import { runEnded } from '../../contract/status.ts'
import type { Page as ListPage } from '../../governance/page.ts'
import type { CallView } from '../../governance/runs/read/calls.ts'
import type { StepView } from '../../governance/runs/read/read.ts'
import type { Json, JsonObject, Role } from '../../policy/types.ts'
import { hasRole } from '../role.ts'
import type { PersonsVisit, Result } from '../visit.ts'
import { itemNumber, itemWords } from './items.ts'
import { Labels } from './labels.ts'
import { Live } from './live.ts'
import { chosenOf, Pager } from './pager.ts'
import type { RunShown } from '../run-fields.ts'
import { shownWhat } from '../../steps/index.ts'
import { RunState, stateOf } from './state.ts'
import { After, GoesOn } from './steps.ts'
import { duration, Time } from './time.ts'
import { Value, Values } from './values.ts'
import { Message, Words } from './words.ts'

export interface StepProps {
  readonly run: RunShown
  readonly step: StepView
  /** The position of the step in the definition, counted from 1. */
  readonly place: number
  readonly calls: Result<ListPage<CallView>>
  readonly output: Result<Json>
  readonly role: Role | null
  readonly visit: PersonsVisit
}

export function Step({ run, step, place, calls, output, role, visit }: StepProps): ComponentChild {
  const path = `/console/runs/${run.id}`
  const isOpen = !runEnded(run.status)
  const version = [step.status, JSON.stringify(step.items), step.attempts, step.error?.message ?? ''].join(
    '/',
  )
  const items = itemWords(step)
  return h('article', { class: 'page' }, [
    h(
      Live,
      {
        name: 'step',
        version,
        ...(isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${run.id}/events` } : {}),
      },
      [
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
          h(Output, { run, step, output }),
          h(Calls, {
            calls,
            path: `${path}/steps/${step.id}`,
            mayOpenApprovals: hasRole(role, 'member'),
            visit,
          }),
        ]),
      ],
    ),
  ])
}

function Output({ run, step, output }: Pick<StepProps, 'run' | 'step' | 'output'>): ComponentChild {
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
        ? h(
            'p',
            { class: 'quiet' },
            step.finished_at === null && !runEnded(run.status)
              ? 'The step has no output yet.'
              : 'The step has no output.',
          )
        : h(Value, { value: output.body }),
  ])
}

/** In a list of several calls, parameters are shown only if their JSON has at most this many characters. */
const mostParams = 100_000

function Calls({
  calls,
  path,
  mayOpenApprovals,
  visit,
}: {
  readonly calls: Result<ListPage<CallView>>
  readonly path: string
  readonly mayOpenApprovals: boolean
  readonly visit: PersonsVisit
}): ComponentChild {
  return h('section', { class: 'card', 'aria-labelledby': 'calls' }, [
    h('h2', { id: 'calls' }, 'Calls'),
    calls.ok ? null : h('p', null, h(Message, { text: calls.message })),
    calls.ok && calls.body.data.length === 0 ? h('p', { class: 'quiet' }, 'The tool was not called.') : null,
    h(
      'ol',
      { class: 'rows' },
      (calls.ok ? calls.body.data : []).map((call) => h(Call, { call, mayOpenApprovals, now: visit.now })),
    ),
    h(Pager, {
      path,
      chosen: chosenOf(visit.query, ['calls']),
      cursor: 'calls',
      next: calls.ok ? calls.body.next_cursor : null,
      words: { first: 'First calls', next: 'Later calls' },
    }),
  ])
}

function Call({
  call,
  mayOpenApprovals,
  now,
}: {
  readonly call: CallView
  readonly mayOpenApprovals: boolean
  readonly now: Date
}): ComponentChild {
  const { approval_id, duration_ms, error, item_index, labels, params, started_at } = call
  return h('li', { class: 'row' }, [
    h('p', { class: 'split' }, [
      h('strong', null, item_index === null ? 'The call' : `Item ${itemNumber(item_index)}`),
      h(RunState, { status: call.status }),
    ]),
    h('div', { class: 'meta' }, [
      started_at === null ? null : h('span', null, ['began ', h(Time, { at: started_at, now, exact: true })]),
      duration_ms === null ? null : h('span', null, `took ${duration(duration_ms)}`),
      call.attempts > 1 ? h('span', null, `${call.attempts} attempts`) : null,
      approval_id === null || !mayOpenApprovals
        ? null
        : h('a', { href: `/console/approvals/${approval_id}` }, 'Open the approval'),
      labels.length === 0 ? null : h(Labels, { labels }),
    ]),
    error === null ? null : h('p', null, h(Message, { text: error.message, most: 1_000 })),
    h('h3', { class: 'apart' }, 'Parameters'),
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only the person who started the run, admins and owners see them.')
      : h(Params, { params, isAlone: item_index === null }),
  ])
}

function Params({
  params,
  isAlone,
}: {
  readonly params: JsonObject
  readonly isAlone: boolean
}): ComponentChild {
  if (!isAlone && JSON.stringify(params).length > mostParams)
    return h('p', { class: 'quiet' }, 'They are too long for a list. Read them with the API.')
  return h(Values, { values: params })
}
