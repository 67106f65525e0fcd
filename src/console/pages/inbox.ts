import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { Page as ListPage } from '../../governance/page.ts'
import { Risk } from '../parts/state.ts'
import { Time } from '../parts/time.ts'
import { Words } from '../parts/words.ts'
import type { PersonsVisit, Shown } from '../visit.ts'
import { problemPage } from './problem.ts'

/** `GET /console/approvals`: what waits for a decision. */
export async function inboxPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  const listed = await visit.api.call<ListPage<ApprovalView>>('GET /approvals', {
    query: {
      status: 'pending',
      limit: '50',
      ...(organization === null ? {} : { organization_id: organization.id }),
    },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  return {
    status: 200,
    title: 'Approvals',
    main: h('article', null, [
      h('h1', null, 'Waiting for a decision'),
      listed.body.data.length === 0
        ? h('p', { class: 'quiet' }, 'Nothing waits.')
        : h(
            'ul',
            { class: 'inbox' },
            listed.body.data.map((approval) => h(Item, { approval, now: visit.now })),
          ),
    ]),
  }
}

function Item({ approval, now }: { readonly approval: ApprovalView; readonly now: Date }): ComponentChild {
  return h('li', null, [
    h('a', { href: `/console/approvals/${approval.id}` }, h(Words, { text: approval.tool ?? 'A whole run' })),
    h('p', null, [
      h(Words, { text: approval.requester_email ?? approval.requested_by }),
      ' ',
      h(Time, { at: approval.created_at, now }),
    ]),
    h(Risk, { level: approval.risk.level }),
  ])
}
