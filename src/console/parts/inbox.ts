import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { whoDecides, type Chooser } from '../may-decide.ts'
import { sentenceOf } from './approval.ts'
import { PostForm } from './layout.ts'
import { Badge, Effect, Risk } from './state.ts'
import { Time } from './time.ts'
import { Message, visible, Words } from './words.ts'

/** What a form of several decisions did. */
export interface Done {
  readonly words: string
  /** Rows that were refused, or that are why nothing was decided. */
  readonly failed: readonly { readonly id: string; readonly message: string }[]
  /** What the person had chosen and written; null if all was counted. */
  readonly kept: { readonly ids: readonly string[]; readonly comment: string } | null
}

export interface InboxProps {
  readonly chooser: Chooser
  /** The filters of the address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  readonly next: string | null
  /** Calls whose outcome is unknown. */
  readonly unknown: readonly ApprovalView[]
  /** What the form before did. */
  readonly done: Done | null
}

export function Inbox({ chooser, chosen, items, next, unknown, done }: InboxProps): ComponentChild {
  const { visit } = chooser
  const { organization } = visit.person
  return h('article', { class: 'page' }, [
    h('header', { class: 'headline' }, [
      h('h1', null, 'Waiting for a decision'),
      organization === null ? null : h('p', { class: 'quiet' }, h(Words, { text: organization.name })),
    ]),
    done === null ? null : h(Told, { done, items }),
    unknown.length === 0 ? null : h(Unknown, { unknown, now: visit.now }),
    h(Filters, { chosen, items }),
    items.length === 0
      ? h('p', { class: 'card quiet' }, 'Nothing waits for a decision.')
      : h(Waiting, { chooser, chosen, items, kept: done?.kept ?? null }),
    next === null
      ? null
      : h('p', null, h('a', { class: 'button', href: listAt({ ...chosen, cursor: next }) }, 'Older ones')),
    items.length === 0 ? null : h(Keys, null),
  ])
}

/** What the form before did. A refusal is an alert, and names the rows. */
function Told({
  done: { words, failed, kept },
  items,
}: {
  readonly done: Done
  readonly items: readonly ApprovalView[]
}): ComponentChild {
  return h('div', kept === null ? { class: 'note', role: 'status' } : { class: 'alert', role: 'alert' }, [
    h('p', null, words),
    h(
      'ul',
      null,
      failed.map(({ id, message }) => {
        const item = items.find((each) => each.id === id)
        return h('li', null, [
          h(
            'a',
            { href: `/console/approvals/${id}` },
            h(Words, { text: item === undefined ? id : sentenceOf(item) }),
          ),
          ': ',
          h(Message, { text: message, most: 500 }),
        ])
      }),
    ),
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

function listAt(query: Readonly<Record<string, string>>): string {
  const search = new URLSearchParams(query).toString()
  return search === '' ? '/console/approvals' : `/console/approvals?${search}`
}

function Unknown({
  unknown,
  now,
}: {
  readonly unknown: readonly ApprovalView[]
  readonly now: Date
}): ComponentChild {
  return h('section', { class: 'card', 'aria-labelledby': 'unknown' }, [
    h('h2', { id: 'unknown' }, 'Nobody knows whether these happened'),
    h(
      'ul',
      { class: 'inbox' },
      unknown.map((each) =>
        h('li', { class: 'plain-item' }, [
          h('a', { href: `/console/runs/${each.run_id ?? ''}#waits` }, h(Words, { text: sentenceOf(each) })),
          ' ',
          h(Badge, { tone: 'warn', word: 'Outcome unknown' }),
          ' ',
          h('span', { class: 'quiet small' }, h(Time, { at: each.created_at, now })),
        ]),
      ),
    ),
  ])
}

/** Choices that are on the page now: one for each rule and person of the listed items. */
function Filters({
  chosen,
  items,
}: {
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
}): ComponentChild {
  const rules = new Map(items.map(({ rule_id, rule_name }) => [rule_id ?? '', rule_name ?? '']))
  const people = new Map(
    items.map(({ requested_by, requester_email }) => [requested_by, requester_email ?? requested_by]),
  )
  const given = Object.keys(chosen).filter((name) => name !== 'cursor')
  return h('details', { class: 'filters', open: given.length > 0 }, [
    h('summary', null, given.length === 0 ? 'Filter' : `Filter (${given.length})`),
    h('form', { method: 'get', action: '/console/approvals', class: 'filter-form' }, [
      h(Choice, { name: 'kind', label: 'Kind', chosen, options: kinds }),
      h(Choice, { name: 'rule_id', label: 'Rule', chosen, options: [...rules].filter(([id]) => id !== '') }),
      h(Choice, { name: 'requested_by', label: 'Asked by', chosen, options: [...people] }),
      h(Choice, {
        name: 'risk',
        label: 'Risk',
        chosen,
        options: risks,
      }),
      h('div', { class: 'buttons' }, [
        h('button', null, 'Show'),
        h('a', { class: 'button', href: '/console/approvals' }, 'Clear'),
      ]),
    ]),
  ])
}

const kinds: readonly (readonly [string, string])[] = [
  ['step', 'Steps of runs'],
  ['run', 'Whole runs'],
  ['agent_call', 'Calls of agents'],
]

const risks = (['low', 'medium', 'high', 'critical'] as const).map((each) => [each, each] as const)

function Choice({
  name,
  label,
  chosen,
  options,
}: {
  readonly name: string
  readonly label: string
  readonly chosen: Readonly<Record<string, string>>
  readonly options: readonly (readonly [string, string])[]
}): ComponentChild {
  const value = chosen[name] ?? ''
  const isListed = value === '' || options.some(([id]) => id === value)
  return h('div', null, [
    h('label', { for: name }, label),
    h('select', { id: name, name }, [
      h('option', { value: '' }, 'any'),
      isListed ? null : h('option', { value, selected: true }, value.slice(0, 60)),
      options.map(([id, words]) => h('option', { value: id, selected: id === value }, words.slice(0, 80))),
    ]),
  ])
}

function Waiting({
  chooser,
  chosen,
  items,
  kept,
}: {
  readonly chooser: Chooser
  readonly chosen: InboxProps['chosen']
  readonly kept: Done['kept']
  readonly items: readonly ApprovalView[]
}): ComponentChild {
  const { visit } = chooser
  const rows = items.map((approval) => ({
    approval,
    instead: whoDecides(chooser, approval),
    workflow: chooser.workflows.get(approval.workflow_id ?? '') ?? null,
    isChosen: kept?.ids.includes(approval.id) === true,
  }))
  const version = items.map(({ id, votes }) => `${id}${votes.length}`).join(' ')
  return h(PostForm, { action: listAt(chosen), token: visit.token, class: 'page' }, [
    h(
      'ul',
      { class: 'inbox', 'data-live': 'waiting', 'data-version': version, 'data-poll': '' },
      rows.map((row) => h(Item, { ...row, now: visit.now })),
    ),
    rows.every(({ instead }) => instead !== null) ? null : h(Together, { kept }),
  ])
}

/** One decision for all chosen rows. */
function Together({ kept }: { readonly kept: Done['kept'] }): ComponentChild {
  return h('details', { class: 'card bulk', open: kept !== null }, [
    h('summary', null, 'Decide the chosen ones together'),
    h('div', { class: 'stack' }, [
      h(
        'p',
        { class: 'quiet small' },
        'Only calls of one tool, held by one rule and with the same labels, can be approved together. Each gets a vote of its own.',
      ),
      h('label', { for: 'comment' }, 'Comment'),
      h('textarea', { id: 'comment', name: 'comment', rows: 2, maxlength: 2000 }, kept?.comment ?? ''),
      h('div', { class: 'buttons' }, [
        h('button', { name: 'decision', value: 'approve' }, 'Approve the chosen'),
        h('button', { name: 'decision', value: 'reject', class: 'danger' }, 'Reject the chosen'),
      ]),
    ]),
  ])
}

function Item({
  approval,
  instead,
  isChosen,
  workflow,
  now,
}: {
  readonly approval: ApprovalView
  /** Who decides, if the reader may not. */
  readonly instead: string | null
  readonly isChosen: boolean
  readonly workflow: string | null
  readonly now: Date
}): ComponentChild {
  const { id, step_id, rule_name, expires_at, side_effect } = approval
  return h('li', { class: instead === null ? 'item' : 'item elsewhere' }, [
    instead !== null
      ? null
      : h('input', {
          type: 'checkbox',
          name: 'id',
          value: id,
          checked: isChosen,
          id: `choose-${id}`,
          'aria-label': `Choose ${visible(sentenceOf(approval)).slice(0, 100)}`,
        }),
    h('div', { class: 'item-words' }, [
      h(
        'a',
        { href: `/console/approvals/${id}`, class: 'item-link' },
        h(Words, { text: sentenceOf(approval) }),
      ),
      h('p', { class: 'quiet small' }, [
        h(Words, { text: approval.requester_email ?? approval.requested_by }),
        ', ',
        h(Time, { at: approval.created_at, now }),
        workflow === null ? null : [' · ', h(Words, { text: workflow, most: 120 })],
        step_id === null ? null : [', step ', h(Words, { text: step_id })],
        rule_name === null ? null : [' · ', h(Words, { text: rule_name, most: 120 })],
        expires_at === null ? null : [' · expires ', h(Time, { at: expires_at, now })],
        instead === null ? null : [' · ', h('strong', null, instead)],
      ]),
      h('p', { class: 'badges' }, [
        h(Risk, { level: approval.risk.level }),
        side_effect === null ? null : h(Effect, { effect: side_effect }),
        approval.labels.slice(0, 5).map((label) => h('span', { class: 'label' }, label)),
      ]),
    ]),
  ])
}
