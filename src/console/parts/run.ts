import { h, type ComponentChild } from 'preact'
import type { Role } from '../../policy/types.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { Alert } from './alert.ts'
import { PostForm } from './layout.ts'
import { RunState } from './state.ts'
import { Time } from './time.ts'
import { Message, Words } from './words.ts'

interface StepShown {
  readonly id: string
  readonly tool: string
  readonly status: string
  readonly summary: string | null
  readonly unresolved_items: readonly number[]
  readonly error: { readonly message: string } | null
}

export interface RunShown {
  readonly id: string
  readonly organization_id: string
  readonly workflow_id: string | null
  readonly workflow_version: number | null
  readonly status: string
  readonly status_reason: string
  readonly requested_by: string
  readonly created_at: string
  readonly finished_at: string | null
  readonly waiting_for: readonly {
    readonly kind: string
    readonly approval_id: string | null
    readonly step_id: string | null
    readonly item_index: number | null
    readonly rule_name: string | null
  }[]
  readonly steps: readonly StepShown[]
}

export interface RunProps {
  readonly run: RunShown
  /** The workflow's name. */
  readonly name: string | null
  /** The reader's role in the run's organization. */
  readonly role: Role | null
  readonly visit: PersonsVisit
  readonly refused: Problem | null
}

export function Run({ run, name, role, visit, refused }: RunProps): ComponentChild {
  const { now } = visit
  const isOpen = run.finished_at === null && run.workflow_id !== null
  const version = [run.status, run.status_reason, ...run.steps.map(({ status }) => status)].join('/')
  return h(
    'article',
    {
      class: 'page',
      'data-live': 'run',
      'data-version': version,
      ...(isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${run.id}/events` } : {}),
    },
    [
      h('header', { class: 'headline' }, [
        h('p', { class: 'badges', role: 'status' }, h(RunState, { status: run.status })),
        h(
          'h1',
          null,
          h(Words, { text: name ?? (run.workflow_id === null ? 'An agent’s session' : 'A run') }),
        ),
        h('p', null, h(Message, { text: run.status_reason })),
        h('p', { class: 'quiet small' }, [
          'Started ',
          h(Time, { at: run.created_at, now, exact: true }),
          ` · ${run.id}`,
        ]),
      ]),
      h(Alert, { message: refused?.message ?? null }),
      h('section', { class: 'card', 'aria-labelledby': 'steps' }, [
        h('h2', { id: 'steps' }, 'Steps'),
        run.steps.length === 0 ? h('p', { class: 'quiet' }, 'No steps.') : null,
        h(
          'ol',
          { class: 'inbox' },
          run.steps.map((step) =>
            h(Step, { step, run, mayResolve: role === 'admin' || role === 'owner', visit }),
          ),
        ),
      ]),
      isOpen
        ? h(PostForm, { action: `/console/runs/${run.id}`, token: visit.token }, [
            h('details', { class: 'ask' }, [
              h('summary', { class: 'button danger' }, 'Cancel the run…'),
              h('div', { class: 'note stack' }, [
                h(
                  'p',
                  null,
                  'Steps that have not begun will not run. Calls that were made are not taken back.',
                ),
                h('button', { name: 'action', value: 'cancel', class: 'danger' }, 'Yes, cancel it'),
              ]),
            ]),
          ])
        : null,
    ],
  )
}

/** The most approvals that a step links to. */
const mostLinks = 5

function Step({
  step,
  run,
  mayResolve,
  visit,
}: {
  readonly step: StepShown
  readonly run: RunShown
  readonly mayResolve: boolean
  readonly visit: PersonsVisit
}): ComponentChild {
  const waiting = run.waiting_for.filter((each) => each.step_id === step.id && each.approval_id !== null)
  const unknown = run.waiting_for.filter((each) => each.step_id === step.id && each.kind === 'resolution')
  return h('li', { class: 'item', id: step.id }, [
    h('div', { class: 'item-words' }, [
      h('p', { class: 'badges' }, [
        h('strong', null, h(Words, { text: step.id })),
        h(RunState, { status: step.status }),
      ]),
      h('p', { class: 'quiet small' }, [
        h('code', null, step.tool),
        step.summary === null ? null : [' · ', h(Words, { text: step.summary })],
      ]),
      step.error === null ? null : h('p', null, h(Message, { text: step.error.message, most: 600 })),
      waiting
        .slice(0, mostLinks)
        .map((each) =>
          h('p', null, [
            h('a', { href: `/console/approvals/${each.approval_id ?? ''}` }, 'Open the approval'),
            each.item_index === null ? null : ` of item ${each.item_index + 1}`,
            each.rule_name === null ? null : [' (', h(Words, { text: each.rule_name }), ')'],
          ]),
        ),
      waiting.length > mostLinks
        ? h('p', { class: 'quiet' }, `and ${waiting.length - mostLinks} more`)
        : null,
      mayResolve
        ? unknown.slice(0, mostLinks).map((each) => h(Resolve, { step, item: each.item_index, run, visit }))
        : null,
    ]),
  ])
}

function Resolve({
  step,
  item,
  run,
  visit,
}: {
  readonly step: StepShown
  readonly item: number | null
  readonly run: RunShown
  readonly visit: PersonsVisit
}): ComponentChild {
  const of = item === null ? 'this call' : `item ${item + 1}`
  return h(PostForm, { action: `/console/runs/${run.id}`, token: visit.token, class: 'stack note' }, [
    h('input', { type: 'hidden', name: 'once', value: crypto.randomUUID() }),
    h('input', { type: 'hidden', name: 'step', value: step.id }),
    item === null ? null : h('input', { type: 'hidden', name: 'item_index', value: item }),
    h('p', null, `Nobody knows whether ${of} happened. Look at the service it was sent to, then choose:`),
    h('div', { class: 'buttons' }, [
      h('button', { name: 'outcome', value: 'done' }, 'It happened: go on'),
      h('button', { name: 'outcome', value: 'retry' }, 'It did not: make it again'),
      h('button', { name: 'outcome', value: 'fail', class: 'danger' }, 'Count it as failed'),
    ]),
  ])
}
