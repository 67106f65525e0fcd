import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import type { PersonsVisit } from '../visit.ts'
import { OnceField, PostForm } from './layout.ts'
import { Message } from './words.ts'

/** The error code for a form that needs a comment and has none. */
export const commentMissing = 'comment_missing'

/** Shows the form for a vote, or the reason why the person cannot vote. */
export function Decide({
  approval,
  visit,
  comment,
  isCut,
  problem,
}: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  /** The person's comment, if the previous form was refused. */
  readonly comment: string
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
  /** The reason why the comment of the previous form was refused. Is null if no comment was refused. */
  readonly problem: string | null
}): ComponentChild {
  const refused = approval.detail?.vote_refused ?? null
  if (refused !== null)
    return h('section', { class: 'note' }, [
      h('h2', null, 'You cannot decide this'),
      h('p', null, h(Message, { text: refused })),
    ])
  return h(PostForm, { action: `/console/approvals/${approval.id}`, token: visit.token, class: 'decide' }, [
    h(OnceField, null),
    isCut ? h(HaveRead, { id: approval.id }) : null,
    problem === null ? null : h('p', { id: 'comment-problem', class: 'alert', role: 'alert' }, problem),
    h('div', { class: 'comment' }, [
      h('label', { for: 'comment' }, 'Comment'),
      h(
        'textarea',
        {
          id: 'comment',
          name: 'comment',
          rows: 1,
          maxlength: 2000,
          ...(problem === null
            ? {}
            : { autofocus: true, 'aria-invalid': 'true', 'aria-describedby': 'comment-problem' }),
        },
        comment,
      ),
    ]),
    h('div', { class: 'buttons' }, [
      h('button', { id: 'approve', name: 'decision', value: 'approve', class: 'primary' }, 'Approve'),
      h('button', { name: 'decision', value: 'request_changes', formnovalidate: true }, 'Request changes'),
      h(
        'button',
        { id: 'reject', name: 'decision', value: 'reject', class: 'danger', formnovalidate: true },
        'Reject',
      ),
    ]),
    approval.kind === 'step' ? h(EndsRun, null) : null,
  ])
}

/**
 * Says what a rejection does to the run. docs/workflows.md describes this for every way in which a step can end badly.
 */
const EndsRun = (): ComponentChild =>
  h('p', { class: 'quiet small ends-run' }, [
    'Reject and Request changes also end the run, and its other held calls are withdrawn, unless the step has ',
    h('code', null, 'on_error: continue'),
    '.',
  ])

/**
 * Asks the person to download and read everything, and to confirm this with a check mark. If the page shows only the
 * beginning, nobody can approve without this check mark.
 */
const HaveRead = ({ id }: { readonly id: string }): ComponentChild =>
  h('div', { class: 'stack' }, [
    h('p', null, [
      'It is too long for this page. ',
      h('a', { href: `/console/approvals/${id}/parameters`, download: '' }, 'Download all of it'),
      ' before you approve.',
    ]),
    h('label', { class: 'check' }, [
      h('input', { type: 'checkbox', id: 'read', name: 'read', value: id, required: true }),
      ' I have read the downloaded file',
    ]),
  ])
