import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { PersonsVisit } from '../visit.ts'
import { sentenceOf } from './approval.ts'
import { callFields, OutcomeChoices } from './outcome-choices.ts'
import { Badge } from './state.ts'
import { Time } from './time.ts'
import { Words } from './words.ts'

/** Calls whose outcome is unknown, each with the three choices. */
export function Unknown({
  unknown,
  visit,
}: {
  readonly unknown: readonly ApprovalView[]
  readonly visit: PersonsVisit
}): ComponentChild {
  const role = visit.person.organization?.role
  const mayChoose = role === 'admin' || role === 'owner'
  return h('section', { class: 'stack', 'aria-labelledby': 'unknown' }, [
    h('h2', { id: 'unknown' }, 'Nobody knows whether these happened'),
    h(
      'ul',
      { class: 'inbox' },
      unknown.map((each) =>
        h('li', { class: 'plain-item stack' }, [
          h(
            'a',
            {
              class: 'item-link',
              href: `/console/runs/${each.run_id ?? ''}#waits`,
            },
            h(Words, { text: sentenceOf(each) }),
          ),
          h('p', { class: 'quiet small' }, [
            h(Badge, { tone: 'warn', word: 'Outcome unknown' }),
            ' ',
            h(Words, { text: each.requester_email ?? each.requested_by }),
            each.workflow_name === null ? null : [' · ', h(Words, { text: each.workflow_name, most: 120 })],
            each.step_id === null ? null : [', step ', h(Words, { text: each.step_id })],
            each.item_index === null ? null : `, item ${each.item_index}`,
            ' · sent ',
            h(Time, { at: each.created_at, now: visit.now }),
          ]),
          mayChoose
            ? h('details', null, [
                h('summary', null, 'What became of it?'),
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
  ])
}
