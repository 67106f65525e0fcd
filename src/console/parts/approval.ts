import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { RuleBody } from '../../policy/rule.ts'
import { describeConditions } from '../../policy/explain.ts'
import type { JsonObject } from '../../policy/types.ts'
import { hasRole, roleIn } from '../role.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { Alert } from './alert.ts'
import { Outcome, type RunSummary } from './outcome.ts'
import { ApprovalState, Badge, Effect, Risk } from './state.ts'
import { Time } from './time.ts'
import { Values } from './values.ts'
import { Diff } from './diff.ts'
import { Decide, Votes } from './votes.ts'
import { LongText, Message, Sentence, Words } from './words.ts'

const doing: Readonly<Record<string, string>> = {
  read: 'reads data',
  write: 'changes something',
  egress: 'sends data out',
}

/** What would happen, in one sentence. */
export function sentenceOf({ kind, tool, side_effect, preview }: ApprovalView): string {
  if (preview !== undefined) return preview.title
  if (kind === 'run') return 'Start a whole run'
  return `${kind === 'agent_call' ? 'An agent’s call of' : 'A call of'} ${tool ?? 'a tool'}, which ${doing[side_effect ?? 'write'] ?? 'acts'}`
}

export interface ApprovalProps {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
  readonly run: RunSummary | null
  readonly visit: PersonsVisit
  readonly refused: Problem | null
}

export function Approval({ approval, rule, run, visit, refused }: ApprovalProps): ComponentChild {
  const { now } = visit
  const isOpen = approval.status === 'pending'
  const events = approval.run_id !== null && approval.kind !== 'agent_call'
  // What changes while the page is open: the approval itself, its votes, and what became of it.
  const version = [
    approval.status,
    approval.votes.length,
    approval.detail?.vote_refused ?? '',
    approval.used_at === null ? '' : 'used',
    run === null ? '' : [run.status, ...run.steps.map(({ status }) => status)].join(' '),
  ].join('/')
  const isEnded = !isOpen && (run === null || run.steps.every(({ status }) => !moving.has(status)))
  return h(
    'article',
    {
      class: 'approval',
      'data-live': 'approval',
      'data-version': version,
      ...(isEnded ? {} : { 'data-poll': '' }),
      ...(events && !isEnded ? { 'data-events': `/api/v1/runs/${approval.run_id}/events` } : {}),
    },
    [
      h('header', { class: 'headline' }, [
        h('p', { class: 'badges', role: 'status' }, [
          h(ApprovalState, { status: approval.status }),
          h(Risk, { level: approval.risk.level }),
          approval.side_effect === null ? null : h(Effect, { effect: approval.side_effect }),
          approval.reversible === null ? null : h(Reversible, { reversible: approval.reversible }),
        ]),
        h('h1', null, h(Words, { text: sentenceOf(approval) })),
        h(Asked, {
          approval,
          now,
          maySeeSession: hasRole(roleIn(visit, approval.organization_id), 'admin'),
        }),
      ]),
      h(Alert, { message: refused?.message ?? null }),
      h('div', { class: 'columns' }, [
        h('div', { class: 'column' }, [
          isOpen ? null : h(Outcome, { approval, run, now }),
          h(Contents, { approval, isDone: wasMade(approval, run) }),
          h(Why, { approval, rule }),
        ]),
        h('div', { class: 'column' }, [
          h(Votes, { approval, now }),
          isOpen ? h(Decide, { approval, visit }) : null,
        ]),
      ]),
    ],
  )
}

/** States of steps that can still change. */
const moving = new Set(['pending', 'running', 'held', 'unknown_outcome'])

function Reversible({ reversible }: { readonly reversible: 'yes' | 'by hand' | 'no' }): ComponentChild {
  const words = {
    yes: 'Can be taken back',
    'by hand': 'Can be taken back by hand',
    no: 'Cannot be taken back',
  }
  return h(Badge, { tone: reversible === 'no' ? 'bad' : 'off', word: words[reversible] })
}

/** Who asked, and for what. */
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
  return h('p', { class: 'asked' }, [
    h('strong', null, h(Words, { text: approval.requester_email ?? approval.requested_by })),
    ' asked ',
    h(Time, { at: approval.created_at, now }),
    approval.kind === 'agent_call'
      ? [
          ' through the agent ',
          h('strong', null, h(Words, { text: agent?.name ?? 'unknown' })),
          ' in the session ',
          maySeeSession && approval.agent_session_id !== null
            ? h(
                'a',
                { href: `/console/sessions/${approval.agent_session_id}` },
                h(Words, { text: session_id ?? '' }),
              )
            : h(Words, { text: session_id ?? '' }),
        ]
      : [
          ' in ',
          h(
            'a',
            { href: `/console/runs/${run_id ?? ''}` },
            h(Words, { text: detail?.workflow_name ?? 'a workflow' }),
          ),
          step_id === null ? null : [', step ', h('strong', null, h(Words, { text: step_id }))],
          item_index === null ? null : `, item ${item_index}`,
        ],
    '.',
  ])
}

/** Whether the call is known to have happened. What an agent does with its permission is not known. */
function wasMade({ step_id, item_index }: ApprovalView, run: RunSummary | null): boolean {
  const step = run?.steps.find(({ id }) => id === step_id)
  return item_index === null && step?.status === 'completed'
}

/** What would be sent or changed: exactly the parameters that will run. */
function Contents({
  approval,
  isDone,
}: {
  readonly approval: ApprovalView
  readonly isDone: boolean
}): ComponentChild {
  const { params, params_hash, kind, tool, summary, preview } = approval
  const note =
    summary === null
      ? null
      : h('p', { class: 'quiet' }, [
          'The workflow says of this step: ',
          h(Words, { text: summary, most: 500 }),
        ])
  if (kind === 'run')
    return h('section', { 'aria-labelledby': 'contents' }, [
      h('h2', { id: 'contents' }, 'What would run'),
      h('p', null, 'All steps of the workflow. A rule may still hold a single call.'),
    ])
  return h('section', { 'aria-labelledby': 'contents' }, [
    h('h2', { id: 'contents' }, isDone ? 'What was sent or changed' : 'What would be sent or changed'),
    note,
    params === undefined
      ? h('p', { class: 'quiet' }, 'Only people who may decide see the parameters.')
      : [
          preview?.note === undefined
            ? null
            : h('p', { class: 'note' }, h(Words, { text: preview.note, most: 1_000 })),
          preview?.diff === undefined ? null : h(Diff, { diff: preview.diff }),
          h(Values, { values: inOrder(approval, params) }),
          h('details', { class: 'exact' }, [
            h('summary', null, 'Exactly as it will run'),
            h('p', null, ['Tool ', h('code', null, h(Words, { text: tool ?? '' }))]),
            h(LongText, { text: JSON.stringify(params, null, 2) }),
            h('p', { class: 'quiet small' }, [
              'SHA-256 of tool and parameters: ',
              h('code', null, params_hash),
            ]),
          ]),
        ],
  ])
}

/** The parameters in the order of the tool's preview. */
function inOrder({ preview }: ApprovalView, params: JsonObject): JsonObject {
  const names = (preview?.fields ?? []).map(({ name }) => name).filter((name) => Object.hasOwn(params, name))
  return Object.fromEntries(
    [...new Set([...names, ...Object.keys(params)])].map((name) => [name, params[name] ?? null]),
  )
}

function Why({
  approval,
  rule,
}: {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
}): ComponentChild {
  const { risk, labels } = approval
  return h('section', { 'aria-labelledby': 'why' }, [
    h('h2', { id: 'why' }, 'Why it is held'),
    h(Held, { approval, rule }),
    approval.held_again === null ? null : h('p', null, h(Message, { text: approval.held_again })),
    risk.reasons.length === 0
      ? null
      : h('div', null, [
          h('h3', null, `Why the risk is ${risk.level}`),
          h(
            'ul',
            { class: 'bullets' },
            risk.reasons.map((reason) => h('li', null, h(Words, { text: reason }))),
          ),
        ]),
    labels.length === 0
      ? h('p', { class: 'quiet' }, 'The data has no labels.')
      : h('div', null, [
          h('h3', null, 'Labels of the data'),
          h(
            'ul',
            { class: 'stack' },
            labels.map((label) =>
              h('li', null, [h('span', { class: 'label' }, label), ' ', h(From, { approval, label })]),
            ),
          ),
        ]),
  ])
}

/** The rule, and the conditions that the call met. The rule may have changed since. */
function Held({
  approval,
  rule,
}: {
  readonly approval: ApprovalView
  readonly rule: RuleBody | null
}): ComponentChild {
  const explanation = approval.detail?.explanation ?? null
  if (explanation !== null) return h('p', null, h(Message, { text: explanation }))
  if (approval.rule_name === null) return null
  return h('p', null, [
    'Rule ',
    h('strong', null, h(Words, { text: approval.rule_name })),
    rule === null ? null : [' holds a call when ', h(Sentence, { text: describeConditions(rule) })],
    '.',
  ])
}

/** Where a label comes from. */
function From({
  approval,
  label,
}: {
  readonly approval: ApprovalView
  readonly label: string
}): ComponentChild {
  const from = approval.detail?.label_sources.find((source) => source.label === label)?.from ?? []
  if (from.length === 0) return null
  const more = from.length > 5 ? ` and ${from.length - 5} more` : ''
  return h('span', { class: 'quiet small' }, [
    'from ',
    from.slice(0, 5).map((each, index) => [index === 0 ? null : ', ', h(Words, { text: each, most: 100 })]),
    more,
  ])
}
