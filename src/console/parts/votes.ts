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
    status === 'pending' ? h(TooFew, { approval }) : null,
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

/** Says if too few people can vote. Then the approval would wait in vain. */
function TooFew({ approval: { detail, approver } }: { readonly approval: ApprovalView }): ComponentChild {
  const { votes_missing: missing = 0, voters_left: left = 0 } = detail ?? {}
  if (left >= missing) return null
  const able = left === 0 ? 'Nobody' : left === 1 ? 'Only 1 person' : `Only ${left} people`
  return h('p', { class: 'note' }, [
    `${able} can still vote, so it cannot be approved now. An owner can give more people the role `,
    h('strong', null, approver),
    '.',
  ])
}

/** Returns for example `Needs 1 more approval by an admin or owner. One rejection ends it.` */
function neededWords({ votes, detail, approver }: ApprovalView): string {
  const missing = detail?.votes_missing ?? 0
  if (missing === 0)
    return 'Enough approvals count now. It is approved as soon as one of these people approves again.'
  const more = votes.length === 0 ? '' : ' more'
  const what = missing === 1 ? `1${more} approval` : `${missing}${more} approvals`
  const who = approver === 'owner' ? ['an owner', 'owners'] : ['an admin or owner', 'admins or owners']
  return `Needs ${what} by ${who[missing === 1 ? 0 : 1]}. One rejection ends it.`
}
