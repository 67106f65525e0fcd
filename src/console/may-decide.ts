import type { ApprovalView } from '../governance/approvals/read.ts'
import type { GovernanceSettings } from '../policy/settings.ts'
import type { PersonsVisit } from './visit.ts'

/*
 * Decides whether the list of approvals lets a person select an approval. The decision changes only the page, because
 * the API checks each vote.
 */

export interface Chooser {
  readonly visit: PersonsVisit
  /** Whether people may decide their own requests. */
  readonly allowsOwn: boolean
}

/** Returns who must decide, as a text for the approval's row. Returns null if the person may select the approval. */
export function whoDecides({ visit, allowsOwn }: Chooser, approval: ApprovalView): string | null {
  const { user, organizations } = visit.person
  const role = organizations.find(({ id }) => id === approval.organization_id)?.role
  const isAble = role === 'owner' || (role === 'admin' && approval.approver === 'admin')
  if (!isAble) return approval.approver === 'owner' ? 'an owner decides' : 'an admin or owner decides'
  // If enough people have voted and the approval still waits, a vote may be given again.
  const isMissing = approval.votes.length < approval.approvals_needed
  if (isMissing && approval.votes.some(({ user_id }) => user_id === user.id))
    return 'you have voted, another person decides'
  if (approval.requested_by === user.id && !allowsOwn) return 'you asked for it, another person decides'
  if (isAuthor(approval, user.id) && !allowsOwn) return 'you wrote what runs, another person decides'
  return null
}

const isAuthor = ({ authors }: ApprovalView, userId: string): boolean =>
  authors.some(({ user_id }) => user_id === userId)

export async function chooserOf(visit: PersonsVisit, items: readonly ApprovalView[]): Promise<Chooser> {
  return { visit, allowsOwn: await readAllowsOwn(visit, items) }
}

/**
 * Returns whether people may decide their own requests. The setting matters only if the list contains a request of this
 * person, or of a version that this person wrote. In all other cases, the setting is not read, and the result is false.
 */
async function readAllowsOwn(visit: PersonsVisit, items: readonly ApprovalView[]): Promise<boolean> {
  const { user, organization } = visit.person
  const isOwn = (item: ApprovalView): boolean => item.requested_by === user.id || isAuthor(item, user.id)
  if (organization === null || !items.some(isOwn)) return false
  const settings = await visit.api.call<GovernanceSettings>('GET /organizations/{id}/governance', {
    params: { id: organization.id },
  })
  return settings.ok && settings.body.allow_self_approval
}
