import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { WaitingSummary } from '../../governance/approvals/summary.ts'
import type { Page } from '../../governance/page.ts'
import type { Chooser } from '../may-decide.ts'
import { sentenceOf } from './approval.ts'
import { InboxFilters } from './inbox-filters.ts'
import { Waiting, type Kept } from './inbox-list.ts'
import { Unknown } from './inbox-unknown.ts'
import { OrganizationName } from './organization.ts'
import { Message, Words } from './words.ts'

/** The result of a form that decides several approvals. */
export interface Done {
  readonly words: string
  /** The approvals whose votes were refused. If no vote was sent, these are the approvals that prevented the votes. */
  readonly failed: readonly { readonly id: string; readonly message: string }[]
  /** The selection and the comment that the page shows again. Is null if every decision was accepted. */
  readonly kept: Kept | null
}

export interface InboxProps {
  readonly chooser: Chooser
  /** The filters from the page's address. */
  readonly chosen: Readonly<Record<string, string>>
  readonly items: readonly ApprovalView[]
  /** The numbers of waiting approvals in the whole organization. Is null if these numbers are not known. */
  readonly waiting: WaitingSummary | null
  readonly next: string | null
  /**
   * The calls whose outcome is unknown. Is null if the filters leave out such calls, on later pages of approvals, and
   * if the calls could not be read.
   */
  readonly unknown: Page<ApprovalView> | null
  /** The result of the previous form. Is null if there is no result to show. */
  readonly done: Done | null
}

export function Inbox({ chooser, chosen, items, waiting, next, unknown, done }: InboxProps): ComponentChild {
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

/** Shows how many approvals wait in the whole organization. The filters do not change this number. */
const Count = ({
  total,
  isAfter,
}: {
  readonly total: number
  /** True if the count follows a name. */
  readonly isAfter: boolean
}): ComponentChild =>
  h('span', { 'data-live': 'count', 'data-version': String(total) }, [
    isAfter && total > 0 ? ' · ' : null,
    total === 0 ? null : `${total.toLocaleString('en')} ${total === 1 ? 'waits' : 'wait'}`,
  ])

/**
 * Shows the result of the previous form. If a decision was not accepted, the result is an alert, which names the failed
 * approvals.
 */
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
