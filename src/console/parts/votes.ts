import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { Badge } from './state.ts'
import { Time } from './time.ts'
import { LongText, Words } from './words.ts'

/** The votes so far, and the number of missing votes. */
export function Votes({
  approval,
  now,
}: {
  readonly approval: ApprovalView
  readonly now: Date
}): ComponentChild {
  const { votes, detail, approver, expires_at, status } = approval
  const missing = detail?.votes_missing ?? 0
  return h('section', { 'aria-labelledby': 'votes' }, [
    h('h2', { id: 'votes' }, 'Votes'),
    status === 'pending'
      ? h(
          'p',
          null,
          `${missing} approving ${missing === 1 ? 'vote is' : 'votes are'} missing, of ${approver === 'owner' ? 'an owner' : 'an admin or owner'}. One rejection decides.`,
        )
      : null,
    votes.length === 0 ? h('p', { class: 'quiet' }, 'Nobody has voted.') : null,
    votes.length === 0
      ? null
      : h(
          'ul',
          { class: 'stack' },
          votes.map((vote) =>
            h('li', { class: 'vote' }, [
              h(Badge, {
                tone: vote.decision === 'approve' ? 'good' : 'bad',
                word:
                  vote.decision === 'approve'
                    ? 'Approves'
                    : vote.changes_requested
                      ? 'Requests changes'
                      : 'Rejects',
              }),
              ' ',
              h(Words, { text: vote.email }),
              ' ',
              h('span', { class: 'quiet small' }, h(Time, { at: vote.at, now })),
              vote.comment === '' ? null : h('blockquote', null, h(LongText, { text: vote.comment })),
            ]),
          ),
        ),
    expires_at === null
      ? h('p', { class: 'quiet' }, 'It does not expire.')
      : status === 'pending'
        ? h('p', null, ['Expires ', h(Time, { at: expires_at, now, exact: true })])
        : null,
  ])
}
