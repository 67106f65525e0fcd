import { h, type ComponentChild } from 'preact'
import { runEnded } from '../../contract/status.ts'
import type { Role } from '../../policy/types.ts'
import { hasRole } from '../role.ts'
import type { RunShown } from '../run-fields.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { Alert } from './alert.ts'
import { Ask } from './ask.ts'
import { Facts } from './facts.ts'
import { Inputs } from './inputs.ts'
import { countedFromOne } from './items.ts'
import { Live } from './live.ts'
import { Picture } from './picture.ts'
import { Receipts, type ReceiptsProps } from './receipts.ts'
import { partlyDone, RunReason } from './run-reason.ts'
import { Risk, RunState } from './state.ts'
import { Steps } from './steps.ts'
import { duration, Time } from './time.ts'
import { Value } from './values.ts'
import { Waiting } from './waiting.ts'
import { Message, Words } from './words.ts'

export interface RunProps {
  readonly run: RunShown
  /** The reader's role in the run's organization. */
  readonly role: Role | null
  /** The index of the shown part of the list of steps. */
  readonly part: number
  /** A page of the receipt, or the reason why the receipt cannot be shown. */
  readonly receipt: ReceiptsProps['receipt']
  /** Each sentence says what a waiting call would do. The key is the id of the approval. */
  readonly sentences: ReadonlyMap<string, string>
  readonly visit: PersonsVisit
  readonly refused: Problem | null
}

export function Run({ run, role, part, receipt, sentences, visit, refused }: RunProps): ComponentChild {
  const path = `/console/runs/${run.id}`
  const isOpen = !runEnded(run.status) && run.workflow_id !== null
  const mayCancel =
    isOpen &&
    (hasRole(role, 'admin') || (hasRole(role, 'member') && run.requested_by === visit.person.user.id))
  const states = run.steps.map(
    ({ status, items }) => `${status}${items === null ? '' : JSON.stringify(items.states)}`,
  )
  return h('article', { class: 'page' }, [
    h(Head, { run, isOpen, visit }),
    h(Alert, { message: refused === null ? null : countedFromOne(refused.message) }),
    h(Changed, { change: run.changed_since_your_last_run, now: visit.now }),
    h('div', { class: 'columns' }, [
      h('div', { class: 'column' }, [
        h(Waiting, { run: { id: run.id, waiting_for: inOrder(run) }, role, visit, sentences }),
        run.steps.length < 2
          ? null
          : h(Live, { name: 'run-picture', version: states.join('/') }, [
              h('section', { class: 'card', 'aria-labelledby': 'picture-title' }, [
                h('h2', { id: 'picture-title' }, 'What depends on what'),
                h(Picture, {
                  layouts: visit.layouts,
                  version: `${run.workflow_id ?? ''}@${run.workflow_version ?? 0}`,
                  steps: run.steps,
                  addressOf: (id) => `${path}/steps/${id}`,
                }),
              ]),
            ]),
        run.steps.length === 0
          ? null
          : h(Steps, { run, part, path, version: states.join('/'), now: visit.now }),
        h(Result, { run }),
        h(Receipts, {
          receipt,
          path,
          visit,
          mayOpenApprovals: hasRole(role, 'member'),
          words: { first: 'First decisions', next: 'Later decisions' },
        }),
      ]),
      h('div', { class: 'column' }, [
        h(About, { run, role, visit }),
        h(Ask, {
          name: 'run-cancel',
          isOffered: mayCancel,
          action: path,
          token: visit.token,
          value: 'cancel',
          open: 'Cancel the run…',
          explanation: 'Steps that have not begun will not run. Calls that were made are not taken back.',
          sure: 'Yes, cancel it',
        }),
      ]),
    ]),
  ])
}

/**
 * Returns the waiting calls and approvals in the order of the steps. The items of a step are in the order of their
 * numbers.
 */
function inOrder({ waiting_for: waiting, steps }: RunShown): RunShown['waiting_for'] {
  const places = new Map(steps.map(({ id }, place) => [id, place]))
  const placeOf = (step: string | null): number => places.get(step ?? '') ?? -1
  return waiting.toSorted(
    (a, b) => placeOf(a.step_id) - placeOf(b.step_id) || (a.item_index ?? 0) - (b.item_index ?? 0),
  )
}

function Head({
  run,
  isOpen,
  visit,
}: {
  readonly run: RunShown
  readonly isOpen: boolean
  readonly visit: PersonsVisit
}): ComponentChild {
  const { now } = visit
  return h(
    Live,
    {
      name: 'run-head',
      version: `${run.status}/${run.status_reason}/${partlyDone(run)}`,
      ...(isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${run.id}/events` } : {}),
    },
    [
      h('header', { class: 'headline' }, [
        h('p', { class: 'crumbs small' }, h('a', { href: '/console/runs' }, 'Runs')),
        h('p', { class: 'badges', role: 'status' }, [
          h(RunState, { status: run.status }),
          run.risk.level === 'low' ? null : h(Risk, { level: run.risk.level }),
        ]),
        h(
          'h1',
          null,
          h(Words, {
            text: run.workflow_name ?? (run.workflow_id === null ? 'An agent’s session' : 'A run'),
          }),
        ),
        h('p', null, h(RunReason, { run })),
        h('p', { class: 'quiet small' }, [
          h(Words, { text: run.requester_email }),
          ' started it ',
          h(Time, { at: run.created_at, now }),
          run.duration_ms === null ? null : ` · it took ${duration(run.duration_ms)}`,
        ]),
      ]),
    ],
  )
}

/** Names the change of another person that the requester had not run before this run. */
function Changed({
  change,
  now,
}: {
  readonly change: RunShown['changed_since_your_last_run']
  readonly now: Date
}): ComponentChild {
  if (change === null) return null
  return h('p', { class: 'note' }, [
    h('strong', null, h(Words, { text: change.author })),
    ` changed the workflow, and this is your first run since then: version ${change.version}, `,
    h(Time, { at: change.deployed_at, now }),
    change.others.length === 0 ? null : [', with text of ', h(Words, { text: change.others.join(', ') })],
    change.message === ''
      ? '.'
      : [', with the message ', h('q', null, h(Words, { text: change.message, most: 300 })), '.'],
  ])
}

/**
 * Shows the result of the run, if there is one. The field `result` of the workflow's definition says what the result
 * contains.
 */
function Result({ run }: { readonly run: RunShown }): ComponentChild {
  return h(Live, { name: 'run-result', version: run.status }, [
    run.result === undefined || run.result === null
      ? null
      : h('section', { class: 'card', 'aria-labelledby': 'result' }, [
          h('h2', { id: 'result' }, 'Result'),
          h(Value, { value: run.result }),
        ]),
  ])
}

function About({
  run,
  role,
  visit,
}: {
  readonly run: RunShown
  readonly role: Role | null
  readonly visit: PersonsVisit
}): ComponentChild {
  const { now } = visit
  const areShown = hasRole(role, 'admin') || run.requested_by === visit.person.user.id
  return h(
    Live,
    { name: 'run-about', version: `${run.status}/${run.started_at ?? ''}/${run.data_removed_at ?? ''}` },
    [
      h('section', { class: 'card', 'aria-labelledby': 'about' }, [
        h('h2', { id: 'about' }, 'About this run'),
        h(Facts, {
          facts: [
            ['Version', run.workflow_version === null ? null : String(run.workflow_version)],
            [
              'Risk',
              run.risk.reasons.length === 0
                ? null
                : run.risk.reasons.map((each) => h('div', null, h(Message, { text: each, most: 500 }))),
            ],
            ['Accepted', h(Time, { at: run.created_at, now, exact: true })],
            ['Started', run.started_at === null ? null : h(Time, { at: run.started_at, now, exact: true })],
            ['Ended', run.finished_at === null ? null : h(Time, { at: run.finished_at, now, exact: true })],
            ['Id', h('code', null, run.id)],
          ],
        }),
        h('h3', null, 'Inputs'),
        run.data_removed_at !== null
          ? h('p', { class: 'quiet' }, [
              'Inputs and outputs were removed ',
              h(Time, { at: run.data_removed_at, now }),
              '.',
            ])
          : h(Inputs, { run, areShown }),
      ]),
    ],
  )
}
