import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { effectWord } from '../../policy/explain.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { hasRole, roleIn } from '../role.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { Alert } from './alert.ts'
import { Contents } from './contents.ts'
import { commentMissing, Decide } from './decide.ts'
import { itemNumber } from './items.ts'
import { Outcome, type RunSummary } from './outcome.ts'
import { SessionId } from './session-id.ts'
import { ApprovalState, Badge, Effect, Host, Risk } from './state.ts'
import { Time } from './time.ts'
import { Votes } from './votes.ts'
import { Why } from './why.ts'
import { Words } from './words.ts'

/** Returns one sentence that says what the request would do if it is approved. */
export function sentenceOf({
  kind,
  tool,
  side_effect,
  preview,
  workflow_name: workflow,
}: ApprovalView): string {
  if (preview !== undefined) return preview.title
  if (kind === 'run') return workflow === null ? 'Start a whole run' : `Start the whole run of “${workflow}”`
  return `${kind === 'agent_call' ? 'An agent’s call of' : 'A call of'} ${tool ?? 'a tool'}, which ${effectWord(side_effect ?? 'write')}`
}

export interface ApprovalProps {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
  readonly run: RunSummary | null
  /**
   * The state of the call that used this approval. Is null if no call has used the approval, and for an agent's call.
   */
  readonly call: string | null
  readonly visit: PersonsVisit
  readonly refused: Problem | null
  /** The comment from the previous form, if this form was refused. */
  readonly comment: string
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
}

export function Approval(props: ApprovalProps): ComponentChild {
  const { approval, rule, run, call, visit, refused, comment, isCut } = props
  const { now } = visit
  const isOpen = approval.status === 'pending'
  const isAboutComment = isOpen && refused?.code === commentMissing
  const events = approval.run_id !== null && approval.kind !== 'agent_call'
  const isEnded =
    !isOpen &&
    !mayBeReported(approval, now) &&
    (run === null || run.steps.every(({ status }) => !moving.has(status)))
  return h(
    'article',
    {
      class: 'approval',
      'data-live': 'approval',
      'data-version': versionOf(props),
      ...(isEnded ? {} : { 'data-poll': '' }),
      ...(events && !isEnded ? { 'data-events': `/api/v1/runs/${approval.run_id}/events` } : {}),
    },
    [
      h('header', { class: 'headline' }, [
        h('p', { class: 'badges', role: 'status' }, h(ApprovalState, { status: approval.status })),
        h('h1', null, h(Words, { text: sentenceOf(approval) })),
        h(Asked, {
          approval,
          now,
          maySeeSession: hasRole(roleIn(visit, approval.organization_id), 'admin'),
        }),
        h('p', { class: 'badges' }, [
          h(Risk, { level: approval.risk.level }),
          approval.side_effect === null ? null : h(Effect, { effect: approval.side_effect }),
          h(Reversible, { approval }),
          approval.destination === null
            ? null
            : h('span', { class: 'badge' }, ['Goes to ', h(Host, { host: approval.destination })]),
        ]),
      ]),
      h(Alert, { message: refused === null || isAboutComment ? null : refused.message }),
      h('div', { class: 'columns' }, [
        h('div', { class: 'column' }, [
          isOpen ? null : h(Outcome, { approval, run, call, now }),
          h(Contents, {
            approval,
            run,
            mayDecide: hasRole(roleIn(visit, approval.organization_id), approval.approver),
            isDone: call === 'completed' || isReportedDone(approval),
          }),
          h(Why, { approval, rule }),
        ]),
        h('div', { class: 'column' }, [
          h(Votes, { approval, now }),
          isOpen
            ? h(Decide, { approval, visit, comment, isCut, problem: isAboutComment ? refused.message : null })
            : null,
        ]),
      ]),
    ],
  )
}

/** Returns whether the agent's client has reported that the call was made. */
function isReportedDone({ detail }: ApprovalView): boolean {
  const observed = detail?.observed ?? null
  return observed !== null && observed.outcome !== 'error'
}

/**
 * Returns the version of the page's content. The version changes when the approval, its votes, its call or its run
 * changes.
 */
const versionOf = ({ approval, call, run }: ApprovalProps): string =>
  [
    approval.status,
    approval.votes.length,
    approval.detail?.votes_missing ?? '',
    approval.detail?.voters_left ?? '',
    approval.detail?.vote_refused ?? '',
    approval.superseded_by ?? '',
    approval.used_at === null ? '' : 'used',
    approval.detail?.observed?.outcome ?? '',
    call ?? '',
    run === null ? '' : [run.status, ...run.steps.map(({ status }) => status)].join(' '),
  ].join('/')

/** The states of steps that can still change. */
const moving = new Set(['pending', 'running', 'held', 'unknown_outcome'])

/**
 * The page waits at most this many milliseconds for the report of the agent's client. The time begins when the agent
 * uses the approval. If the approval is not used yet, the time begins at the decision.
 */
const reportWithin = 3_600_000

/**
 * Returns whether the page still waits for news of an agent's call. The agent may still use the approval, or the
 * agent's client may still report the call.
 */
function mayBeReported({ kind, status, used_at, decided_at, detail }: ApprovalView, now: Date): boolean {
  if (kind !== 'agent_call' || status !== 'approved' || (detail?.observed ?? null) !== null) return false
  return now.getTime() - Date.parse(used_at ?? decided_at ?? '') < reportWithin
}

/** Shows whether the call can be undone. The service does not know this for an agent's call. */
function Reversible({ approval: { kind, reversible } }: { readonly approval: ApprovalView }): ComponentChild {
  if (kind === 'agent_call') return h(Badge, { tone: 'off', word: 'Unknown whether it can be taken back' })
  if (reversible === null) return null
  const words = {
    yes: 'Can be taken back',
    'by hand': 'Can be taken back by hand',
    no: 'Cannot be taken back',
  }
  return h(Badge, { tone: reversible === 'no' ? 'warn' : 'off', word: words[reversible] })
}

/** At most this many authors are named. */
const mostAuthors = 3

/** Names the people who wrote the version that runs, unless the requester alone wrote it. */
function WrittenBy({
  approval: { authors, requested_by },
}: {
  readonly approval: ApprovalView
}): ComponentChild {
  if (authors.every(({ user_id }) => user_id === requested_by)) return null
  const more = authors.length - mostAuthors
  return [
    ' Written by ',
    authors
      .slice(0, mostAuthors)
      .map(({ email }, at) => [at === 0 ? '' : ', ', h('strong', null, h(Words, { text: email }))]),
    more > 0 ? ` and ${more} more` : '',
    '.',
  ]
}

/** Shows who asked, when, and in which run or session. */
function Asked({
  approval,
  now,
  maySeeSession,
}: {
  readonly approval: ApprovalView
  readonly now: Date
  readonly maySeeSession: boolean
}): ComponentChild {
  const { detail, run_id, step_id, item_index, session_id } = approval
  const agent = detail?.agent ?? null
  const session = h(SessionId, { id: session_id ?? '' })
  return h('p', { class: 'asked' }, [
    h('strong', null, h(Words, { text: approval.requester_email ?? approval.requested_by })),
    ' asked ',
    h(Time, { at: approval.created_at, now, exact: approval.status !== 'pending' }),
    approval.kind === 'agent_call'
      ? [
          ' through the agent ',
          h('strong', null, h(Words, { text: agent?.name ?? 'unknown' })),
          ' in the session ',
          maySeeSession && approval.agent_session_id !== null
            ? h('a', { href: `/console/sessions/${approval.agent_session_id}` }, session)
            : session,
        ]
      : [
          approval.kind === 'run' ? ' to start ' : ' in ',
          h(
            'a',
            { href: `/console/runs/${run_id ?? ''}` },
            // For a whole run, the page's title already names the workflow.
            approval.kind === 'run' ? 'this run' : h(Words, { text: approval.workflow_name ?? 'a workflow' }),
          ),
          step_id === null ? null : [', step ', h('strong', null, h(Words, { text: step_id }))],
          item_index === null ? null : `, item ${itemNumber(item_index)}`,
        ],
    '.',
    h(WrittenBy, { approval }),
    approval.status !== 'pending' || approval.expires_at === null
      ? null
      : [' Expires ', h(Time, { at: approval.expires_at, now, exact: true }), '.'],
  ])
}
