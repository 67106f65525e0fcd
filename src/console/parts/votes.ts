import { h, type ComponentChild } from 'preact'
import type { ApprovalView } from '../../governance/approvals/read.ts'
import { Badge } from './state.ts'
import { Time } from './time.ts'
import { LongText, Words } from './words.ts'

/** Shows the votes so far, and the number of missing votes. */
export function Votes({
  approval,
  now,
}: {
  readonly approval: ApprovalView
  readonly now: Date
}): ComponentChild {
  const { votes, expires_at, status } = approval
  return h('section', { 'aria-labelledby': 'votes' }, [
    h('h2', { id: 'votes' }, 'Votes'),
    status === 'pending' ? h('p', null, neededWords(approval)) : null,
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
              h('span', { class: 'quiet small vote-time' }, h(Time, { at: vote.at, now })),
              vote.comment === '' ? null : h('blockquote', null, h(LongText, { text: vote.comment })),
            ]),
          ),
        ),
    expires_at === null ? h('p', { class: 'quiet' }, 'It does not expire.') : null,
  ])
}

/** Returns for example `Needs 1 more approval by an admin or owner. One rejection ends it.` */
function neededWords({ votes, detail, approver }: ApprovalView): string {
  const missing = detail?.votes_missing ?? 0
  const more = votes.length === 0 ? '' : ' more'
  const what = missing === 1 ? `1${more} approval` : `${missing}${more} approvals`
  const who = approver === 'owner' ? ['an owner', 'owners'] : ['an admin or owner', 'admins or owners']
  return `Needs ${what} by ${who[missing === 1 ? 0 : 1]}. One rejection ends it.`
}
