import { h } from 'preact'
import type { ReceiptDecision, ReceiptView } from '../../governance/runs/read/receipt.ts'
import type { PersonsVisit, Problem } from '../visit.ts'
import { inItemOrder, itemNumber } from './items.ts'
import { sentenceOf, Labels, ApprovalState, Badge, effectTitle, Host, RunState, type Tone } from './state.ts'
import { Live } from './layout.ts'
import { chosenOf, Pager } from './filters.ts'
import { Time } from './time.ts'
import { Message, Words } from './words.ts'
import type { ApprovalView } from '../../governance/approvals/read.ts'

export interface ReceiptsProps {
  readonly receipt: (Pick<ReceiptView, 'decisions'> & { readonly next_cursor: string | null }) | Problem
  readonly path: string
  readonly visit: PersonsVisit
  readonly mayOpenApprovals: boolean
  readonly words: { readonly first: string; readonly next: string }
}

export function Receipts({ receipt, path, visit, words, mayOpenApprovals }: ReceiptsProps) {
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
        ? h('p', { class: 'quiet' }, [
            chosen['receipts'] === undefined ? 'No call was decided yet.' : 'There are no more.',
          ])
        : null,
      h('ol', { class: 'rows' }, [
        list.map((decision) => h(Decision, { decision, now: visit.now, mayOpenApprovals })),
      ]),
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

/** Outcomes that an agent's client reports. */
const reports: Readonly<Record<string, readonly [Tone, string]>> = {
  ok: ['good', 'Reported as done'],
  error: ['bad', 'Reported as failed'],
  finished: ['off', 'Reported as finished'],
}

function Decision(props: { decision: ReceiptDecision; now: Date } & Pick<ReceiptsProps, 'mayOpenApprovals'>) {
  const { decision, now, mayOpenApprovals } = props
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
        // The verdict already says that the call is held.
        outcome === null || outcome === 'held' ? null : h(Outcome, { outcome, isAgents: step_id === null }),
      ]),
    ]),
    h('p', { class: 'small' }, [
      h(Message, { text: explanation === '' ? decision.reason : withoutId(explanation), most: 600 }),
    ]),
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

const withoutId = (explanation: string): string =>
  explanation.replace(
    / Its approval `apr_\w+` lets this one call through\.$/,
    ' Its approval lets this one call through.',
  )

export function Report({ outcome }: { outcome: string }) {
  const [tone, word] = reports[outcome] ?? ['off', outcome]
  return h(Badge, { tone, word })
}

function Outcome({ outcome, isAgents }: { outcome: string; isAgents: boolean }) {
  return isAgents && reports[outcome] !== undefined
    ? h(Report, { outcome })
    : h(RunState, { status: outcome })
}

function ApprovalLine({
  approval,
  mayOpenApprovals,
}: {
  approval: NonNullable<ReceiptDecision['approval']>
  mayOpenApprovals: boolean
}) {
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

/** One page of a run's decisions. The parameter `receipts` of the page's address is the cursor. */
export async function receiptOf(
  visit: PersonsVisit,
  runId: string,
  order: 'oldest' | 'newest' = 'oldest',
): Promise<ReceiptsProps['receipt']> {
  const cursor = visit.query.get('receipts')
  const found = await visit.api.call<Exclude<ReceiptsProps['receipt'], { status: number }>>(
    'GET /runs/{id}/authorization',
    {
      params: { id: runId },
      query: { limit: '20', order, ...(cursor === null ? {} : { cursor }) },
      only: ['decisions', 'next_cursor'],
    },
  )
  return found.ok ? found.body : found
}

/** For each further approval, the page names the step, the tool or the run. */
const most = '50'

/** What each waiting approval would do, by its id. */
export async function sentencesOf(
  { api }: PersonsVisit,
  query: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, string>> {
  const found = await api.call<{ readonly data: readonly ApprovalView[] }>('GET /approvals', {
    query: { status: 'pending', limit: most, ...query },
  })
  return new Map(found.ok ? found.body.data.map((approval) => [approval.id, sentenceOf(approval)]) : [])
}
