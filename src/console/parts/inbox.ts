import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { WaitingSummary } from '../../governance/approvals/summary.ts'
import type { Page } from '../../governance/page.ts'
import { traitsOf, whoDecides, type Chooser, type PersonsVisit } from '../visit.ts'
import { OrganizationName, Message, Words } from './words.ts'
import { inboxPath } from '../../contract/pages.ts'
import { Choice, Filters, Pager, addressOf } from './filters.ts'
import { itemNumber, inItemOrder } from './items.ts'
import { Live, OnceField, PostForm } from './layout.ts'
import { callFields, OutcomeChoices } from './outcome.ts'
import { sentenceOf, Badge, Labels, effectTitle, Icon, Risk } from './state.ts'
import { Time } from './time.ts'
import { visible } from '../../policy/readers/look-alikes.ts'

export interface Done {
  readonly words: string
  /** Refused votes, or the approvals that prevented all votes. */
  readonly failed: readonly { readonly id: string; readonly message: string }[]
  readonly kept: Kept | null
}

interface InboxProps {
  readonly chooser: Chooser
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  /** In the whole organization; null if unknown. */
  readonly waiting: WaitingSummary | null
  readonly next: string | null
  /** null if the filters leave out such calls, on later pages, and if they could not be read. */
  readonly unknown: Page<ApprovalView> | null
  readonly done: Done | null
}

export function Inbox({ chooser, chosen, items, waiting, next, unknown, done }: InboxProps) {
  const { visit } = chooser
  const { organization } = visit.person
  return h('article', { class: 'page' }, [
    h('header', { class: 'headline' }, [
      h('h1', null, 'Waiting for a decision'),
      h('p', { class: 'quiet' }, [
        organization === null ? null : h(OrganizationName, { name: organization.name }),
        waiting === null ? null : h(Count, { total: waiting.total, isAfter: organization !== null }),
      ]),
    ]),
    done === null ? null : h(Told, { done, items }),
    unknown === null ? null : h(Unknown, { unknown, chosen, visit }),
    h(InboxFilters, { chosen, waiting }),
    chosen['kind'] === 'resolution'
      ? null
      : h(Waiting, { chooser, chosen, items, next, kept: done?.kept ?? null }),
  ])
}

/** In the whole organization, whatever the filters. */
const Count = ({ total, isAfter }: { readonly total: number; readonly isAfter: boolean }) =>
  h('span', { 'data-live': 'count', 'data-version': String(total) }, [
    isAfter && total > 0 ? ' · ' : null,
    total === 0 ? null : `${total.toLocaleString('en')} ${total === 1 ? 'waits' : 'wait'}`,
  ])

function Told({ done: { words, failed, kept }, items }: { done: Done; items: readonly ApprovalView[] }) {
  return h('div', kept === null ? { class: 'note', role: 'status' } : { class: 'alert', role: 'alert' }, [
    h('p', null, words),
    h('ul', null, [
      failed.map(({ id, message }) => {
        const item = items.find((each) => each.id === id)
        return h('li', null, [
          h('a', { href: `/console/approvals/${id}` }, [
            h(Words, { text: item === undefined ? id : sentenceOf(item) }),
          ]),
          ': ',
          h(Message, { text: message, most: 500 }),
        ])
      }),
    ]),
  ])
}

/** Each option shows how many approvals wait, if they are counted. */
function InboxFilters({
  chosen,
  waiting,
}: {
  chosen: Readonly<Record<string, string>>
  waiting: WaitingSummary | null
}) {
  const { kinds = [], rules = [], requesters = [], risks = [] } = waiting ?? {}
  const choice = (name: string, label: string, options: readonly Option[]): ComponentChild =>
    h(Choice, {
      name,
      label,
      chosen,
      options: options.map(
        ([value, words, count]) =>
          [value, words, count === null ? '' : ` (${count.toLocaleString('en')})`] as const,
      ),
    })
  return h(Filters, { path: inboxPath, chosen, names, title: 'Filter' }, [
    choice('kind', 'Kind', [
      ...kinds.map(({ kind, count }) => [kind, kindWords[kind], count] as const),
      ['resolution', 'Unknown outcomes', null],
    ]),
    choice(
      'rule_id',
      'Rule',
      rules.map(({ rule_id, rule_name, count }) => [rule_id, rule_name, count]),
    ),
    choice(
      'requested_by',
      'Asked by',
      requesters.map(({ user_id, email, count }) => [user_id, email, count]),
    ),
    choice(
      'risk',
      'Risk',
      risks.map(({ level, count }) => [level, level, count]),
    ),
    choice('mine', 'Who decides', [['true', 'me, now', null]]),
  ])
}

/** Value, text, and number; null if such approvals are not counted. */
type Option = readonly [string, string, number | null]

const names = ['kind', 'rule_id', 'requested_by', 'risk', 'mine']

const kindWords = { step: 'Steps of runs', run: 'Whole runs', agent_call: 'Calls of agents' } as const

interface UnknownProps {
  readonly unknown: Page<ApprovalView>
  readonly chosen: Readonly<Record<string, string>>
  readonly visit: PersonsVisit
}

/** The element is on the page even if there are no such calls, so that the script can replace it. */
function Unknown(props: UnknownProps) {
  const { data, next_cursor: next } = props.unknown
  const version = [...data.map(({ id, attempt }) => `${id}.${attempt ?? ''}`), next ?? ''].join(' ')
  return h(Live, { name: 'unknown', version, 'data-poll': '' }, [
    data.length === 0 && props.chosen['unknown'] === undefined ? null : h(Calls, props),
  ])
}

function Calls({ unknown, chosen, visit }: UnknownProps) {
  const role = visit.person.organization?.role
  const mayChoose = role === 'admin' || role === 'owner'
  const { cursor: _, ...others } = chosen
  return h('section', { class: 'stack', 'aria-labelledby': 'unknown' }, [
    h('h2', { id: 'unknown' }, 'Nobody knows whether these happened'),
    h('ul', { class: 'inbox' }, [
      unknown.data.map((each) =>
        h('li', { class: 'plain-item unknown stack' }, [
          h('p', { class: 'split' }, [
            h(
              'a',
              {
                class: 'item-link',
                href: `/console/runs/${each.run_id ?? ''}#waits`,
              },
              h(Words, { text: sentenceOf(each) }),
            ),
            h(Badge, { tone: 'warn', word: 'Outcome unknown' }),
          ]),
          h('p', { class: 'quiet small' }, [
            h(Words, { text: each.requester_email ?? each.requested_by }),
            each.workflow_name === null ? null : [' · ', h(Words, { text: each.workflow_name, most: 120 })],
            each.step_id === null ? null : [', step ', h(Words, { text: each.step_id })],
            each.item_index === null ? null : `, item ${itemNumber(each.item_index)}`,
            ' · sent ',
            h(Time, { at: each.created_at, now: visit.now }),
          ]),
          mayChoose
            ? h('details', { id: `became-${each.id}` }, [
                h('summary', { class: 'button' }, 'What became of it?'),
                h(OutcomeChoices, { runId: each.run_id ?? '', token: visit.token, fields: callFields(each) }),
              ])
            : h('p', { class: 'quiet small' }, 'An admin or owner says what became of it.'),
        ]),
      ),
    ]),
    h(Pager, {
      path: inboxPath,
      chosen: others,
      cursor: 'unknown',
      next: unknown.next_cursor,
      words: { first: 'First of these', next: 'More of these' },
    }),
  ])
}

interface Kept {
  readonly ids: readonly string[]
  readonly comment: string
}

/** The element is on the page even if no approval waits, so that the script can replace it. */
function Waiting(props: WaitingProps) {
  const { chosen, next } = props
  const items = inItemOrder(props.items)
  const version = [...items.map(({ id, votes }) => `${id}${votes.length}`), next ?? ''].join(' ')
  return h(Live, { name: 'waiting', version, 'data-poll': '' }, [
    items.length > 0
      ? h(Form, { ...props, items })
      : h(Nothing, { isFiltered: Object.keys(chosen).length > 0 }),
  ])
}

const Nothing = ({ isFiltered }: { isFiltered: boolean }) =>
  h('div', { class: 'card empty' }, [
    isFiltered
      ? [
          h('p', null, h('strong', null, 'Nothing that waits matches the filter.')),
          h('p', null, h('a', { href: inboxPath }, 'Show all that waits')),
        ]
      : [
          h('p', null, [h(Icon, { name: 'good' }), ' ', h('strong', null, 'Nothing waits for a decision.')]),
          h('p', { class: 'quiet' }, 'A call that a rule holds stands here until somebody decides it.'),
        ],
  ])

interface WaitingProps {
  readonly chooser: Chooser
  /** The filters from the page's address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  readonly next: string | null
  readonly kept: Kept | null
}

function Form({ chooser, chosen, items, next, kept }: WaitingProps) {
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
      h('ul', { class: 'inbox' }, [rows.map((row) => h(Item, { ...row, now: visit.now }))]),
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

function Together({ kept, hasSteps }: { kept: Kept | null; hasSteps: boolean }) {
  return h('details', { class: 'card bulk', open: kept !== null }, [
    h('summary', null, ['Decide the chosen ones together', h('span', { 'data-chosen': '' })]),
    h('div', { class: 'stack' }, [
      h('p', { class: 'quiet small' }, [
        'Only calls of one tool, held by one rule and with the same labels, can be approved together. Each gets a vote of its own.',
      ]),
      h('label', { for: 'comment' }, 'Comment'),
      h('textarea', { id: 'comment', name: 'comment', rows: 2, maxlength: 2000 }, kept?.comment ?? ''),
      h('p', { class: 'alert', 'data-mixed': '', hidden: true }, [
        'The chosen calls differ in tool, rule or labels, so they cannot be approved together.',
      ]),
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

function Place({
  approval: { kind, step_id, item_index, rule_name, workflow_name: workflow },
}: {
  approval: ApprovalView
}) {
  // The title already names the workflow of a whole run. A setting holds it, and no rule.
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

function Item(props: {
  readonly approval: ApprovalView
  /** Who decides; null if the person may choose this approval. */
  readonly instead: string | null
  readonly isChosen: boolean
  readonly now: Date
}) {
  const { approval, instead, isChosen, now } = props
  const { id, expires_at, side_effect } = approval
  return h('li', { class: instead === null ? 'item' : 'item elsewhere' }, [
    instead !== null
      ? null
      : h('label', { class: 'choose' }, [
          h('input', {
            type: 'checkbox',
            name: 'id',
            value: id,
            checked: isChosen,
            id: `choose-${id}`,
            'data-alike': JSON.stringify(traitsOf(approval)),
            'aria-label': `Choose ${visible(sentenceOf(approval)).slice(0, 100)}`,
          }),
        ]),
    h('div', { class: 'item-words' }, [
      h('a', { href: `/console/approvals/${id}`, class: 'item-link' }, [
        h(Words, { text: sentenceOf(approval) }),
      ]),
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

function Keys() {
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
