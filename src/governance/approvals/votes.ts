import { groupsOfVote } from '../../db/queries/approvals.ts'
import type { Reading } from '../context.ts'

export interface VoteView {
  readonly user_id: string
  readonly email: string
  /** Those that the approval asks, and that the voter, or whom they vote for, is in since before the vote. */
  readonly groups: readonly string[]
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly changes_requested: boolean
  /** The absent person by whose right they voted; null: by their own. */
  readonly for: { readonly user_id: string; readonly email: string } | null
  readonly at: string
}

/** By the id of the approval, the earliest vote first. */
export async function readVotes(
  context: Reading,
  approvalIds: readonly string[],
): Promise<ReadonlyMap<string, readonly VoteView[]>> {
  if (approvalIds.length === 0) return new Map()
  const votes = await context.db
    .selectFrom('approval_votes as v')
    .innerJoin('users as u', 'u.id', 'v.user_id')
    .leftJoin('users as absent', 'absent.id', 'v.for_user')
    .select([
      'v.approval_id',
      'v.user_id',
      'u.email',
      'v.decision',
      'v.comment',
      'v.changes_requested',
      'v.at',
      'v.for_user',
      'absent.email as absent_email',
    ])
    .select(groupsOfVote.as('groups'))
    .where('v.approval_id', 'in', approvalIds)
    .orderBy('v.at')
    .execute()
  const views = votes.map(({ approval_id, at, for_user, absent_email: email, ...vote }) => ({
    approval_id,
    view: {
      ...vote,
      for: for_user === null || email === null ? null : { user_id: for_user, email },
      at: at.toISOString(),
    },
  }))
  return new Map(
    approvalIds.map((id) => [
      id,
      views.filter(({ approval_id }) => approval_id === id).map(({ view }) => view),
    ]),
  )
}

/** A sentence quotes at most this many characters of a person's text. */
const longestQuote = 300

/** Example: "`ann@example.com` rejected the call with the comment `too early`". */
export function rejectionBy(
  votes: readonly {
    readonly email: string
    readonly decision: 'approve' | 'reject'
    readonly comment: string
    readonly changes_requested: boolean
  }[],
  what: string,
): string {
  const vote = votes.find(({ decision }) => decision === 'reject')
  if (vote === undefined) return `an approver rejected ${what}`
  const did = vote.changes_requested ? `rejected ${what} and requests changes` : `rejected ${what}`
  const by = `\`${vote.email}\` ${did}`
  return vote.comment.trim() === '' ? by : `${by} with the comment ${quoted(vote.comment)}`
}

/** In one line, in backticks, and cut after `longestQuote` characters. */
export function quoted(words: string): string {
  const line = words.replaceAll(/\s+/g, ' ').trim()
  return `\`${line.length > longestQuote ? `${line.slice(0, longestQuote).toWellFormed()}…` : line}\``
}
