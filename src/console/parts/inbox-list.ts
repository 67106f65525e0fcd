import { h, type ComponentChild } from 'preact'
import { inboxPath } from '../../contract/pages.ts'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { traitsOf } from '../alike.ts'
import { whoDecides, type Chooser } from '../may-decide.ts'
import { sentenceOf } from './approval.ts'
import { inItemOrder, itemNumber } from './items.ts'
import { Labels } from './labels.ts'
import { OnceField, PostForm } from './layout.ts'
import { Live } from './live.ts'
import { addressOf, Pager } from './pager.ts'
import { effectTitle, Icon, Risk } from './state.ts'
import { Time } from './time.ts'
import { visible } from '../../policy/readers/look-alikes.ts'
import { Words } from './words.ts'

/**
 * The rows and the comment that the page shows again, because some decisions of the previous form were not accepted.
 */
export interface Kept {
  readonly ids: readonly string[]
  readonly comment: string
}

/**
 * Shows the waiting approvals, and the form that decides several approvals at once. The element is on the page even if
 * no approval waits, so that the script can replace the element.
 */
export function Waiting(props: WaitingProps): ComponentChild {
  const { chosen, next } = props
  const items = inItemOrder(props.items)
  const version = [...items.map(({ id, votes }) => `${id}${votes.length}`), next ?? ''].join(' ')
  return h(
    Live,
    { name: 'waiting', version, 'data-poll': '' },
    items.length > 0
      ? h(Form, { ...props, items })
      : h(Nothing, { isFiltered: Object.keys(chosen).length > 0 }),
  )
}

const Nothing = ({ isFiltered }: { readonly isFiltered: boolean }): ComponentChild =>
  h(
    'div',
    { class: 'card empty' },
    isFiltered
      ? [
          h('p', null, h('strong', null, 'Nothing that waits matches the filter.')),
          h('p', null, h('a', { href: inboxPath }, 'Show all that waits')),
        ]
      : [
          h('p', null, [h(Icon, { name: 'good' }), ' ', h('strong', null, 'Nothing waits for a decision.')]),
          h('p', { class: 'quiet' }, 'A call that a rule holds stands here until somebody decides it.'),
        ],
  )

interface WaitingProps {
  readonly chooser: Chooser
  /** The filters from the page's address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  /** The cursor of the next page. Is null on the last page. */
  readonly next: string | null
  readonly kept: Kept | null
}

function Form({ chooser, chosen, items, next, kept }: WaitingProps): ComponentChild {
  const { visit } = chooser
  const rows = items.map((approval) => ({
    approval,
    instead: whoDecides(chooser, approval),
    isChosen: kept?.ids.includes(approval.id) === true,
  }))
  const { unknown: _, ...others } = chosen
  return h('div', { class: 'page' }, [
    h(PostForm, { action: addressOf(inboxPath, chosen), token: visit.token, class: 'page' }, [
      h(OnceField, null),
      h(
        'ul',
        { class: 'inbox' },
        rows.map((row) => h(Item, { ...row, now: visit.now })),
      ),
      rows.every(({ instead }) => instead !== null)
        ? null
        : h(Together, { kept, hasSteps: items.some(({ kind }) => kind === 'step') }),
    ]),
    h(Pager, {
      path: inboxPath,
      chosen: others,
      cursor: 'cursor',
      next,
      words: { first: 'Newest ones', next: 'Older ones' },
    }),
    h(Keys, null),
  ])
}

/** Shows the comment field and the buttons for one decision on all chosen rows. */
function Together({
  kept,
  hasSteps,
}: {
  readonly kept: Kept | null
  /** Whether a call of a run is in the list. */
  readonly hasSteps: boolean
}): ComponentChild {
  return h('details', { class: 'card bulk', open: kept !== null }, [
    h('summary', null, ['Decide the chosen ones together', h('span', { 'data-chosen': '' })]),
    h('div', { class: 'stack' }, [
      h(
        'p',
        { class: 'quiet small' },
        'Only calls of one tool, held by one rule and with the same labels, can be approved together. Each gets a vote of its own.',
      ),
      h('label', { for: 'comment' }, 'Comment'),
      h('textarea', { id: 'comment', name: 'comment', rows: 2, maxlength: 2000 }, kept?.comment ?? ''),
      h(
        'p',
        { class: 'alert', 'data-mixed': '', hidden: true },
        'The chosen calls differ in tool, rule or labels, so they cannot be approved together.',
      ),
      h('div', { class: 'buttons' }, [
        h('button', { name: 'decision', value: 'approve', class: 'primary' }, 'Approve the chosen'),
        h('button', { name: 'decision', value: 'reject', class: 'danger' }, 'Reject the chosen'),
      ]),
      hasSteps
        ? h('p', { class: 'quiet small' }, [
            'To reject a call of a run also ends the run: its other held calls are withdrawn, unless the step has ',
            h('code', null, 'on_error: continue'),
            '. To reject a call of an agent ends only that call.',
          ])
        : null,
    ]),
  ])
}

/** Shows the step of the run, and the rule that requires the approval. */
function Place({
  approval: { kind, step_id, item_index, rule_name, workflow_name: workflow },
}: {
  readonly approval: ApprovalView
}): ComponentChild {
  // For a whole run, the title already names the workflow. The approval is required by a setting, and not by a rule.
  if (kind === 'run') return h('span', null, 'A setting holds such runs')
  const step = [
    workflow === null ? null : h(Words, { text: workflow, most: 120 }),
    step_id === null ? null : [', step ', h(Words, { text: step_id })],
    item_index === null ? null : `, item ${itemNumber(item_index)}`,
  ]
  if (workflow === null && rule_name === null) return null
  return h('span', null, [
    step,
    rule_name === null
      ? null
      : [
          workflow === null ? 'Rule ' : ' · Rule ',
          h('strong', null, h(Words, { text: rule_name, most: 120 })),
        ],
  ])
}

function Item({
  approval,
  instead,
  isChosen,
  now,
}: {
  readonly approval: ApprovalView
  /** A text that says who decides. Is null if the person may choose this approval. */
  readonly instead: string | null
  readonly isChosen: boolean
  readonly now: Date
}): ComponentChild {
  const { id, expires_at, side_effect } = approval
  return h('li', { class: instead === null ? 'item' : 'item elsewhere' }, [
    instead !== null
      ? null
      : h(
          'label',
          { class: 'choose' },
          h('input', {
            type: 'checkbox',
            name: 'id',
            value: id,
            checked: isChosen,
            id: `choose-${id}`,
            'data-alike': JSON.stringify(traitsOf(approval)),
            'aria-label': `Choose ${visible(sentenceOf(approval)).slice(0, 100)}`,
          }),
        ),
    h('div', { class: 'item-words' }, [
      h(
        'a',
        { href: `/console/approvals/${id}`, class: 'item-link' },
        h(Words, { text: sentenceOf(approval) }),
      ),
      h('div', { class: 'item-facts quiet small' }, [
        h('span', null, [
          h(Words, { text: approval.requester_email ?? approval.requested_by }),
          approval.agent_name === null ? null : [' with ', h(Words, { text: approval.agent_name, most: 80 })],
        ]),
        h(Place, { approval }),
        h('span', null, [
          'Asked ',
          h(Time, { at: approval.created_at, now }),
          expires_at === null ? null : [' · expires ', h(Time, { at: expires_at, now })],
        ]),
        instead === null ? null : h('strong', null, instead),
      ]),
      h('p', { class: 'badges' }, [
        h(Risk, { level: approval.risk.level }),
        side_effect === null ? null : h('span', { class: 'small' }, effectTitle(side_effect)),
        approval.labels.length === 0 ? null : h(Labels, { labels: approval.labels, most: 5 }),
      ]),
    ]),
  ])
}

function Keys(): ComponentChild {
  const key = (name: string): ComponentChild => h('kbd', null, name)
  return h('p', { class: 'quiet small keys' }, [
    'Keys: ',
    key('j'),
    ' and ',
    key('k'),
    ' move, ',
    key('a'),
    ' opens it at Approve, ',
    key('r'),
    ' at Reject. No key decides alone.',
  ])
}
