import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { PersonsVisit } from '../visit.ts'
import { OnceField, PostForm } from './layout.ts'
import { Message } from './words.ts'

/** The form for a vote, or the reason why the person cannot vote. */
export function Decide({
  approval,
  visit,
  comment,
}: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  /** The person's comment, if the previous form was refused. */
  readonly comment: string
}): ComponentChild {
  const refused = approval.detail?.vote_refused ?? null
  if (refused !== null)
    return h('section', { class: 'note' }, [
      h('h2', null, 'You cannot decide this'),
      h('p', null, h(Message, { text: refused })),
    ])
  return h(PostForm, { action: `/console/approvals/${approval.id}`, token: visit.token, class: 'decide' }, [
    h(OnceField, null),
    h('div', { class: 'comment' }, [
      h('label', { for: 'comment' }, 'Comment'),
      h('textarea', { id: 'comment', name: 'comment', rows: 1, maxlength: 2000 }, comment),
    ]),
    h('div', { class: 'buttons' }, [
      h('button', { id: 'approve', name: 'decision', value: 'approve', class: 'primary' }, 'Approve'),
      h('button', { name: 'decision', value: 'request_changes' }, 'Request changes'),
      h('button', { id: 'reject', name: 'decision', value: 'reject', class: 'danger' }, 'Reject'),
    ]),
  ])
}
