import { h } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { describeConditions } from '../../policy/explain.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { hasRole, roleIn, type PersonsVisit, type Problem } from '../visit.ts'
import { Alert, Words, SessionId, Message, LongText, Sentence } from './words.ts'
import { Contents } from './contents.ts'
import { itemNumber } from './items.ts'
import { Outcome, type RunSummary } from './outcome.ts'
import { ApprovalState, sentenceOf, Badge, Effect, Host, Risk, Sources } from './state.ts'
import { Time } from './time.ts'
import { OnceField, PostForm } from './layout.ts'

interface ApprovalProps {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
  readonly run: RunSummary | null
  /** The state of the call that used this approval; null for an agent's call. */
  readonly call: string | null
  readonly visit: PersonsVisit
  readonly refused: Problem | null
  /** From the previous form, if it was refused. */
  readonly comment: string
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
}

export function Approval(props: ApprovalProps) {
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
        h(Asked, { approval, now, maySeeSession: hasRole(roleIn(visit, approval.organization_id), 'admin') }),
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

function isReportedDone({ detail }: ApprovalView): boolean {
  const observed = detail?.observed ?? null
  return observed !== null && observed.outcome !== 'error'
}

/** Changes with everything on the page that can change. */
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

/** States of steps that can still change. */
const moving = new Set(['pending', 'running', 'held', 'unknown_outcome'])

/** Milliseconds since the use of the approval, or else since the decision, for the report of the agent's client. */
const reportWithin = 3_600_000

/** The agent may still use the approval, or its client may still report the call. */
function mayBeReported({ kind, status, used_at, decided_at, detail }: ApprovalView, now: Date): boolean {
  if (kind !== 'agent_call' || status !== 'approved' || (detail?.observed ?? null) !== null) return false
  return now.getTime() - Date.parse(used_at ?? decided_at ?? '') < reportWithin
}

/** The service does not know this for an agent's call. */
function Reversible({ approval: { kind, reversible } }: { readonly approval: ApprovalView }) {
  if (kind === 'agent_call') return h(Badge, { tone: 'off', word: 'Unknown whether it can be taken back' })
  if (reversible === null) return null
  const words = {
    yes: 'Can be taken back',
    'by hand': 'Can be taken back by hand',
    no: 'Cannot be taken back',
  }
  return h(Badge, { tone: reversible === 'no' ? 'warn' : 'off', word: words[reversible] })
}

const mostAuthors = 3

/** Unless the requester alone wrote the version that runs. */
function WrittenBy({ approval: { authors, requested_by } }: { approval: ApprovalView }) {
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

function Asked(props: { approval: ApprovalView; now: Date; maySeeSession: boolean }) {
  const { approval, now, maySeeSession } = props
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
          h('a', { href: `/console/runs/${run_id ?? ''}` }, [
            // The page's title already names the workflow of a whole run.
            approval.kind === 'run' ? 'this run' : h(Words, { text: approval.workflow_name ?? 'a workflow' }),
          ]),
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

/** The code of a form that needs a comment and has none. */
export const commentMissing = 'comment_missing'

/** The form for a vote, or why the person cannot vote. */
function Decide(props: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  /** The comment of a previous form that was refused. */
  readonly comment: string
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
  /** Why the comment of the previous form was refused. */
  readonly problem: string | null
}) {
  const { approval, visit, comment, isCut, problem } = props
  const refused = approval.detail?.vote_refused ?? null
  if (refused !== null)
    return h('section', { class: 'note' }, [
      h('h2', null, 'You cannot decide this'),
      h('p', null, h(Message, { text: refused })),
    ])
  return h(PostForm, { action: `/console/approvals/${approval.id}`, token: visit.token, class: 'decide' }, [
    h(OnceField, null),
    isCut ? h(HaveRead, { id: approval.id }) : null,
    problem === null ? null : h('p', { id: 'comment-problem', class: 'alert', role: 'alert' }, problem),
    h('div', { class: 'comment' }, [
      h('label', { for: 'comment' }, 'Comment'),
      h(
        'textarea',
        {
          id: 'comment',
          name: 'comment',
          rows: 1,
          maxlength: 2000,
          ...(problem === null
            ? {}
            : { autofocus: true, 'aria-invalid': 'true', 'aria-describedby': 'comment-problem' }),
        },
        comment,
      ),
    ]),
    h('div', { class: 'buttons' }, [
      h('button', { id: 'approve', name: 'decision', value: 'approve', class: 'primary' }, 'Approve'),
      h('button', { name: 'decision', value: 'request_changes', formnovalidate: true }, 'Request changes'),
      h(
        'button',
        { id: 'reject', name: 'decision', value: 'reject', class: 'danger', formnovalidate: true },
        ['Reject'],
      ),
    ]),
    approval.kind === 'step' ? h(EndsRun, null) : null,
  ])
}

/** docs/workflows.md describes every way in which a step can end badly. */
const EndsRun = () =>
  h('p', { class: 'quiet small ends-run' }, [
    'Reject and Request changes also end the run, and its other held calls are withdrawn, unless the step has ',
    h('code', null, 'on_error: continue'),
    '.',
  ])

/** Nobody can approve what the page cuts without this check mark. */
const HaveRead = ({ id }: { id: string }) =>
  h('div', { class: 'stack' }, [
    h('p', null, [
      'It is too long for this page. ',
      h('a', { href: `/console/approvals/${id}/parameters`, download: '' }, 'Download all of it'),
      ' before you approve.',
    ]),
    h('label', { class: 'check' }, [
      h('input', { type: 'checkbox', id: 'read', name: 'read', value: id, required: true }),
      ' I have read the downloaded file',
    ]),
  ])

function Votes({ approval, now }: { approval: ApprovalView; now: Date }) {
  const { votes, expires_at, status } = approval
  return h('section', { 'aria-labelledby': 'votes' }, [
    h('h2', { id: 'votes' }, 'Votes'),
    status === 'pending' ? h('p', null, neededWords(approval)) : null,
    status === 'pending' ? h(TooFew, { approval }) : null,
    votes.length === 0 ? h('p', { class: 'quiet' }, 'Nobody has voted.') : null,
    votes.length === 0
      ? null
      : h('ul', { class: 'stack' }, [
          votes.map((vote) =>
            h('li', { class: 'vote' }, [
              h(Badge, {
                tone: vote.decision === 'approve' ? 'good' : 'bad',
                word:
                  vote.decision === 'approve'
                    ? 'Approves'
                    : vote.changes_requested
                      ? 'Requests changes'
                      : 'Rejects',
              }),
              ' ',
              h(Words, { text: vote.email }),
              ' ',
              h('span', { class: 'quiet small vote-time' }, h(Time, { at: vote.at, now })),
              vote.comment === '' ? null : h('blockquote', null, h(LongText, { text: vote.comment })),
            ]),
          ),
        ]),
    expires_at === null ? h('p', { class: 'quiet' }, 'It does not expire.') : null,
  ])
}

/** The approval would wait in vain. */
function TooFew({ approval: { detail, approver } }: { readonly approval: ApprovalView }) {
  const { votes_missing: missing = 0, voters_left: left = 0 } = detail ?? {}
  if (left >= missing) return null
  const able = left === 0 ? 'Nobody' : left === 1 ? 'Only 1 person' : `Only ${left} people`
  return h('p', { class: 'note' }, [
    `${able} can still vote, so it cannot be approved now. An owner can give more people the role `,
    h('strong', null, approver),
    '.',
  ])
}

/** `Needs 1 more approval by an admin or owner. One rejection ends it.` */
function neededWords({ votes, detail, approver }: ApprovalView): string {
  const missing = detail?.votes_missing ?? 0
  if (missing === 0)
    return 'Enough approvals count now. It is approved as soon as one of these people approves again.'
  const more = votes.length === 0 ? '' : ' more'
  const what = missing === 1 ? `1${more} approval` : `${missing}${more} approvals`
  const who = approver === 'owner' ? ['an owner', 'owners'] : ['an admin or owner', 'admins or owners']
  return `Needs ${what} by ${who[missing === 1 ? 0 : 1]}. One rejection ends it.`
}

function Why({ approval, rule }: { approval: ApprovalView; rule: RuleBody | null }) {
  const { risk, labels } = approval
  return h('section', { 'aria-labelledby': 'why' }, [
    h('h2', { id: 'why' }, approval.status === 'pending' ? 'Why it is held' : 'Why it was held'),
    h(Held, { approval, rule }),
    h(Others, { approval }),
    approval.held_again === null ? null : h('p', null, h(Message, { text: approval.held_again })),
    risk.reasons.length === 0
      ? null
      : h('div', null, [
          h('h3', null, `Why the risk is ${risk.level}`),
          h('ul', { class: 'bullets' }, [
            risk.reasons.map((reason) => h('li', null, h(Sentence, { text: reason }))),
          ]),
        ]),
    labels.length === 0
      ? h('p', { class: 'quiet' }, 'The data has no labels.')
      : h('div', null, [
          h('h3', null, 'Labels of the data'),
          h('ul', { class: 'stack' }, [
            labels.map((label) =>
              h('li', null, [
                h('span', { class: 'label' }, label),
                ' ',
                h(Sources, { from: sourcesOf(approval, label), isAgents: approval.kind === 'agent_call' }),
              ]),
            ),
          ]),
        ]),
  ])
}

/** The explanation of the decision; without one, the rule with its present conditions, which may have changed since. */
function Held({ approval, rule }: { approval: ApprovalView; rule: RuleBody | null }) {
  const explanation = approval.detail?.explanation ?? null
  if (explanation !== null) return h('p', null, h(Message, { text: explanation }))
  if (approval.kind === 'run')
    return h('p', null, 'The settings of the organization hold a run like this before it starts.')
  if (approval.rule_name === null) return null
  return h('p', null, [
    'Rule ',
    h('strong', null, h(Words, { text: approval.rule_name })),
    rule === null ? null : [' holds a call when ', h(Sentence, { text: describeConditions(rule) })],
    '.',
  ])
}

function Others({ approval }: { approval: ApprovalView }) {
  const others = (approval.detail?.held_by ?? []).filter((name) => name !== approval.rule_name)
  if (others.length === 0) return null
  const shown = others.slice(0, mostRules)
  return h('p', null, [
    others.length === 1 ? 'Another rule holds it too: ' : `${others.length} more rules hold it too: `,
    shown.map((name, index) => [index === 0 ? null : ', ', h('strong', null, h(Words, { text: name }))]),
    others.length > mostRules ? ' and others' : null,
    '.',
  ])
}

const mostRules = 10

const sourcesOf = ({ detail }: ApprovalView, label: string): readonly string[] =>
  detail?.label_sources.find((source) => source.label === label)?.from ?? []
