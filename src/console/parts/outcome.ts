import { h, type ComponentChild } from 'preact'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { inboxPath } from '../../contract/pages.ts'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RunView } from '../../governance/runs/read/read.ts'
import { itemNumber } from './items.ts'
import { Report } from './receipts.ts'
import { RunReason } from './run-reason.ts'
import { Badge, RunState } from './state.ts'
import { Time } from './time.ts'
import { Words } from './words.ts'

/**
 * The fields of a run that the page of an approval needs. They show the result of an approved call, or what a whole run
 * would do.
 */
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
  /**
   * The frozen definition that a whole run would follow. Is null if the reader may not see it, or if it cannot be read.
   * It is absent for an approval of one call.
   */
  readonly definition?: WorkflowDefinition | null
}

const ends: Readonly<Record<string, string>> = {
  cancelled:
    'It was withdrawn: the run was cancelled, the session ended, or another approval took its place.',
  expired: 'Nobody decided in time. It will not happen.',
}

/**
 * Says who decided and what the decision means. If the approval ended without a decision, says why the call will not
 * happen.
 */
function endOf({ status, votes }: ApprovalView): ComponentChild {
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
  /** The state of the approved call. Is null if no call has used the approval, and for an agent's call. */
  readonly call: string | null
  readonly now: Date
}

/** Shows the result of a decided approval, and what became of its call. */
export function Outcome({ approval, run, call, now }: OutcomeProps): ComponentChild {
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

/** Shows the states of the call and of its run. */
function InRun({
  approval,
  run,
  call,
}: Omit<OutcomeProps, 'run' | 'now'> & { readonly run: RunSummary }): ComponentChild {
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

/**
 * Shows whether the agent has asked again after the approval, and what the agent's client has reported about the call.
 */
function AgentsCall({
  approval: { used_at, detail },
  now,
}: {
  readonly approval: ApprovalView
  readonly now: Date
}): ComponentChild {
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
