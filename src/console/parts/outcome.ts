import { h } from 'preact'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { inboxPath } from '../../contract/pages.ts'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RunView } from '../../governance/runs/read/read.ts'
import { itemNumber, RunReason } from './items.ts'
import { Report } from './receipts.ts'
import { Badge, RunState } from './state.ts'
import { Time } from './time.ts'
import { Words } from './words.ts'
import { OnceField, PostForm } from './layout.ts'

export const summaryFields = [
  'id',
  'status',
  'status_reason',
  'steps',
  'inputs',
  'input_labels',
  'workflow_version',
] as const

export interface RunSummary extends Pick<RunView, (typeof summaryFields)[number]> {
  /** What a whole run would follow. null if the reader may not see it, or if it cannot be read. Absent for one call. */
  readonly definition?: WorkflowDefinition | null
}

const ends: Readonly<Record<string, string>> = {
  cancelled:
    'It was withdrawn: the run was cancelled, the session ended, or another approval took its place.',
  expired: 'Nobody decided in time. It will not happen.',
}

function endOf({ status, votes }: ApprovalView) {
  if (status === 'rejected') {
    const vote = votes.find(({ decision }) => decision === 'reject')
    if (vote === undefined) return 'It will not happen.'
    const words = vote.changes_requested
      ? 'requested changes. It will not happen as it is.'
      : 'rejected it. It will not happen.'
    return [h(Words, { text: vote.email }), ` ${words}`]
  }
  if (status !== 'approved') return ends[status] ?? ''
  const [first, ...others] = votes.filter(({ decision }) => decision === 'approve')
  if (first === undefined) return 'It was approved.'
  const more = others.length === 0 ? '' : ` and ${others.length} ${others.length === 1 ? 'other' : 'others'}`
  return [h(Words, { text: first.email }), `${more} approved.`]
}

interface OutcomeProps {
  readonly approval: ApprovalView
  readonly run: RunSummary | null
  /** The state of the approved call; null for an agent's call. */
  readonly call: string | null
  readonly now: Date
}

export function Outcome({ approval, run, call, now }: OutcomeProps) {
  const by = approval.superseded_by
  return h('section', { 'aria-labelledby': 'outcome', class: 'outcome' }, [
    h('h2', { id: 'outcome' }, 'What became of it'),
    h('p', null, [
      endOf(approval),
      approval.decided_at === null
        ? null
        : [' Decided ', h(Time, { at: approval.decided_at, now, exact: true }), '.'],
    ]),
    by === null
      ? null
      : h('p', null, h('a', { href: `/console/approvals/${by}` }, 'The approval in its place')),
    approval.kind === 'agent_call' && approval.status === 'approved'
      ? h(AgentsCall, { approval, now })
      : null,
    run === null ? null : h(InRun, { approval, run, call }),
    h('p', null, h('a', { class: 'button', href: inboxPath }, 'What else waits')),
  ])
}

function InRun({ approval, run, call }: Omit<OutcomeProps, 'run' | 'now'> & { readonly run: RunSummary }) {
  const { item_index: item, step_id } = approval
  const step = run.steps.find(({ id }) => id === step_id)
  return h('dl', { class: 'fields' }, [
    step === undefined
      ? null
      : h('div', { class: 'field' }, [
          h('dt', null, item === null ? 'Step' : 'Call'),
          h('dd', null, [
            h(RunState, { status: call ?? step.status }),
            ' ',
            h(Words, { text: step.id }),
            item === null ? null : `, item ${itemNumber(item)}`,
          ]),
        ]),
    h('div', { class: 'field' }, [
      h('dt', null, 'Run'),
      h('dd', null, [
        h(RunState, { status: run.status }),
        ' ',
        h(RunReason, { run, most: 600 }),
        ' ',
        h('a', { href: `/console/runs/${run.id}` }, 'Open the run'),
      ]),
    ]),
  ])
}

function AgentsCall({ approval: { used_at, detail }, now }: { approval: ApprovalView; now: Date }) {
  const observed = detail?.observed ?? null
  const [badge, at] =
    used_at === null
      ? [h(Badge, { tone: 'wait', word: 'Not used yet' }), null]
      : observed === null
        ? [h(Badge, { tone: 'go', word: 'The agent may make the call' }), used_at]
        : [h(Report, { outcome: observed.outcome }), observed.at]
  return h('p', null, [
    badge,
    ' ',
    at === null ? 'The agent has not asked again yet.' : h(Time, { at, now }),
    used_at !== null && observed === null ? '. Its client has not reported what became of it.' : null,
  ])
}

export const outcomeChoices = [
  ['done', 'It happened: go on', ''],
  ['retry', 'It did not: make it again', ''],
  ['fail', 'Count it as failed', 'danger'],
] as const

/** The form goes to the run's page, so the person sees the run afterwards. */
export function OutcomeChoices(props: {
  readonly runId: string
  readonly token: string
  readonly fields: readonly (readonly [string, string])[]
  readonly question?: string
  /** Distinguishes the buttons of several forms, for screen readers. */
  readonly of?: string
}) {
  const {
    runId,
    token,
    fields,
    question = 'Look at the service it was sent to, then choose:',
    of = '',
  } = props
  return h(PostForm, { action: `/console/runs/${runId}`, token, class: 'stack' }, [
    h(OnceField, null),
    fields.map(([name, value]) => h('input', { type: 'hidden', name, value })),
    h('p', null, question),
    h('div', { class: 'buttons' }, [
      outcomeChoices.map(([outcome, words, kind]) =>
        h('button', { name: 'outcome', value: outcome, ...(kind === '' ? {} : { class: kind }) }, [
          of === '' ? words : [words, h('span', { class: 'unseen' }, of)],
        ]),
      ),
    ]),
  ])
}

export const callFields = ({
  attempt,
  step_id,
  item_index,
}: {
  attempt: number | null
  step_id: string | null
  item_index: number | null
}): readonly (readonly [string, string])[] => [
  ['step', step_id ?? ''],
  ['attempt', String(attempt ?? '')],
  ...(item_index === null ? [] : [['item_index', String(item_index)] as const]),
]
