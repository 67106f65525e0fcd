import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { inboxPath } from '../../contract/pages.ts'
import type { Page } from '../../governance/page.ts'
import type { PersonsVisit } from '../visit.ts'
import { itemNumber } from './items.ts'
import { Live } from './live.ts'
import { Pager } from './pager.ts'
import { sentenceOf } from './approval.ts'
import { callFields, OutcomeChoices } from './outcome-choices.ts'
import { Badge } from './state.ts'
import { Time } from './time.ts'
import { Words } from './words.ts'

export interface UnknownProps {
  readonly unknown: Page<ApprovalView>
  readonly chosen: Readonly<Record<string, string>>
  readonly visit: PersonsVisit
}

/**
 * Shows a page of the calls whose outcome is unknown. The element is on the page even if there are no such calls, so
 * that the script can replace the element.
 */
export function Unknown(props: UnknownProps): ComponentChild {
  const { data, next_cursor: next } = props.unknown
  const version = [...data.map(({ id, attempt }) => `${id}.${attempt ?? ''}`), next ?? ''].join(' ')
  return h(
    Live,
    { name: 'unknown', version, 'data-poll': '' },
    data.length === 0 && props.chosen['unknown'] === undefined ? null : h(Calls, props),
  )
}

/** Shows the calls. An admin or owner gets three choices for what became of each call. */
function Calls({ unknown, chosen, visit }: UnknownProps): ComponentChild {
  const role = visit.person.organization?.role
  const mayChoose = role === 'admin' || role === 'owner'
  const { cursor: _, ...others } = chosen
  return h('section', { class: 'stack', 'aria-labelledby': 'unknown' }, [
    h('h2', { id: 'unknown' }, 'Nobody knows whether these happened'),
    h(
      'ul',
      { class: 'inbox' },
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
                h(OutcomeChoices, {
                  runId: each.run_id ?? '',
                  token: visit.token,
                  fields: callFields(each),
                }),
              ])
            : h('p', { class: 'quiet small' }, 'An admin or owner says what became of it.'),
        ]),
      ),
    ),
    h(Pager, {
      path: inboxPath,
      chosen: others,
      cursor: 'unknown',
      next: unknown.next_cursor,
      words: { first: 'First of these', next: 'More of these' },
    }),
  ])
}
