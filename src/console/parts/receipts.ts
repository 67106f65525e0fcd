import { h, type ComponentChild } from 'preact'
import type { ReceiptDecision, ReceiptView } from '../../governance/runs/read/receipt.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { inItemOrder, itemNumber } from './items.ts'
import { Labels } from './labels.ts'
import { Live } from './live.ts'
import { chosenOf, Pager } from './pager.ts'
import { ApprovalState, Badge, effectTitle, Host, RunState, type Tone } from './state.ts'
import { Time } from './time.ts'
import { Message, Words } from './words.ts'

export interface ReceiptsProps {
  readonly receipt: (Pick<ReceiptView, 'decisions'> & { readonly next_cursor: string | null }) | Problem
  /** The page's path. */
  readonly path: string
  readonly visit: PersonsVisit
  /** Whether the reader's role may open approvals. */
  readonly mayOpenApprovals: boolean
  /** Texts of the links to other pages of decisions. */
  readonly words: { readonly first: string; readonly next: string }
}

/** Shows every decision with its call, the verdict of the rules, the approvers, and the outcome. */
export function Receipts({ receipt, path, visit, words, mayOpenApprovals }: ReceiptsProps): ComponentChild {
  const chosen = chosenOf(visit.query, ['receipts'])
  const list = 'decisions' in receipt ? inItemOrder(receipt.decisions) : []
  const version = list
    .map(({ decision_id, outcome, approval, executed_at }) =>
      [decision_id, outcome ?? '', approval?.status ?? '', executed_at ?? ''].join(' '),
    )
    .join('/')
  return h(Live, { name: 'receipts', version }, [
    h('section', { class: 'card', 'aria-labelledby': 'receipts' }, [
      h('h2', { id: 'receipts' }, 'What was decided'),
      'decisions' in receipt ? null : h('p', { class: 'alert' }, h(Message, { text: receipt.message })),
      'decisions' in receipt && list.length === 0
        ? h(
            'p',
            { class: 'quiet' },
            chosen['receipts'] === undefined ? 'No call was decided yet.' : 'There are no more.',
          )
        : null,
      h(
        'ol',
        { class: 'rows' },
        list.map((decision) => h(Decision, { decision, now: visit.now, mayOpenApprovals })),
      ),
      h(Pager, {
        path,
        chosen,
        cursor: 'receipts',
        next: 'decisions' in receipt ? receipt.next_cursor : null,
        words,
      }),
    ]),
  ])
}

const verdicts: Readonly<Record<string, readonly [Tone, string]>> = {
  allow: ['good', 'Allowed'],
  deny: ['bad', 'Denied'],
  require_approval: ['hold', 'Held for approval'],
}

/** Texts for the outcomes that an agent's client reports. */
const reports: Readonly<Record<string, readonly [Tone, string]>> = {
  ok: ['good', 'Reported as done'],
  error: ['bad', 'Reported as failed'],
  finished: ['off', 'Reported as finished'],
}

function Decision({
  decision,
  now,
  mayOpenApprovals,
}: {
  readonly decision: ReceiptDecision
  readonly now: Date
} & Pick<ReceiptsProps, 'mayOpenApprovals'>): ComponentChild {
  const { approval, explanation, labels, outcome, side_effect, step_id, item_index, verdict } = decision
  const [tone, word] = verdicts[verdict] ?? ['off', verdict]
  return h('li', { class: 'row' }, [
    h('div', { class: 'split' }, [
      h('p', null, [
        step_id === null
          ? null
          : [
              h('strong', null, h(Words, { text: step_id, most: 100 })),
              item_index === null ? ' ' : `, item ${itemNumber(item_index)} `,
            ],
        h('code', null, h(Words, { text: decision.tool, most: 120 })),
      ]),
      h('p', { class: 'badges' }, [
        h(Badge, { tone, word }),
        // The outcome of a held call is not shown, because the verdict already says that the call is held.
        outcome === null || outcome === 'held' ? null : h(Outcome, { outcome, isAgents: step_id === null }),
      ]),
    ]),
    h(
      'p',
      { class: 'small' },
      h(Message, { text: explanation === '' ? decision.reason : withoutId(explanation), most: 600 }),
    ),
    approval === null ? null : h(ApprovalLine, { approval, mayOpenApprovals }),
    h('div', { class: 'meta' }, [
      h('span', null, effectTitle(side_effect)),
      decision.destination === null
        ? null
        : h('span', null, ['to ', h(Host, { host: decision.destination })]),
      h(Time, { at: decision.decided_at, now }),
      labels.length === 0 ? null : h(Labels, { labels }),
    ]),
  ])
}

/**
 * Returns the explanation without the id of the approval. The id is not needed, because a link to the approval stands
 * below.
 */
const withoutId = (explanation: string): string =>
  explanation.replace(
    / Its approval `apr_\w+` lets this one call through\.$/,
    ' Its approval lets this one call through.',
  )

/** Shows what an agent's client has reported about a call. */
export function Report({ outcome }: { readonly outcome: string }): ComponentChild {
  const [tone, word] = reports[outcome] ?? ['off', outcome]
  return h(Badge, { tone, word })
}

function Outcome({
  outcome,
  isAgents,
}: {
  readonly outcome: string
  readonly isAgents: boolean
}): ComponentChild {
  return isAgents && reports[outcome] !== undefined
    ? h(Report, { outcome })
    : h(RunState, { status: outcome })
}

function ApprovalLine({
  approval,
  mayOpenApprovals,
}: {
  readonly approval: NonNullable<ReceiptDecision['approval']>
  readonly mayOpenApprovals: boolean
}): ComponentChild {
  const voters = [...new Set(approval.votes.map(({ email }) => email))]
  return h('p', { class: 'badges small' }, [
    mayOpenApprovals ? h('a', { href: `/console/approvals/${approval.id}` }, 'Its approval') : 'Its approval',
    h(ApprovalState, { status: approval.status }),
    voters.length === 0
      ? null
      : h('span', null, [
          'by ',
          voters
            .slice(0, 3)
            .map((email, index) => [index === 0 ? null : ', ', h(Words, { text: email, most: 100 })]),
          voters.length > 3 ? ` and ${voters.length - 3} more` : null,
        ]),
  ])
}
