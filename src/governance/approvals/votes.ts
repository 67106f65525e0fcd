import type { Context } from '../../context.ts'

/** A vote as the API shows it (contract section 6), with the address of the person beside their id. */
export interface VoteView {
  readonly user_id: string
  readonly email: string
  readonly decision: 'approve' | 'reject'
  readonly comment: string
  readonly at: string
}

/** The votes on these approvals, the earliest first. */
export async function readVotes(
  context: Context,
  approvalIds: readonly string[],
): Promise<ReadonlyMap<string, readonly VoteView[]>> {
  if (approvalIds.length === 0) return new Map()
  const votes = await context.db
    .selectFrom('approval_votes as v')
    .innerJoin('users as u', 'u.id', 'v.user_id')
    .select(['v.approval_id', 'v.user_id', 'u.email', 'v.decision', 'v.comment', 'v.at'])
    .where('v.approval_id', 'in', approvalIds)
    .orderBy('v.at')
    .execute()
  const views = votes.map(({ approval_id, at, ...vote }) => ({
    approval_id,
    view: { ...vote, at: at.toISOString() },
  }))
  return new Map(
    approvalIds.map((id) => [
      id,
      views.filter(({ approval_id }) => approval_id === id).map(({ view }) => view),
    ]),
  )
}

/** A comment may be long; the sentence that quotes it need not be. */
const longestQuote = 300

/** Who rejected and with which words, as a part of a sentence. */
export function rejectionBy(
  votes: readonly {
    readonly email: string
    readonly decision: 'approve' | 'reject'
    readonly comment: string
  }[],
  what: string,
): string {
  const vote = votes.find(({ decision }) => decision === 'reject')
  if (vote === undefined) return `an approver rejected ${what}`
  const comment = vote.comment.replaceAll(/\s+/g, ' ').trim()
  const quoted = comment.length > longestQuote ? `${comment.slice(0, longestQuote).toWellFormed()}…` : comment
  return `\`${vote.email}\` rejected ${what}${quoted === '' ? '' : ` with the comment \`${quoted}\``}`
}
