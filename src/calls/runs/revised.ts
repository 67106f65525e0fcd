import type { Decided } from '../../policy/decide.ts'
import { isPerson, isRole, type HeldLater, type HeldSeat } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import {
  requirementNow,
  type ApprovalRecord,
  type HeldAgain,
  type NewApproval,
} from '../../governance/approvals/records.ts'
import { mostRevisions } from '../../governance/approvals/edits.ts'
import { storedSeats, type Requirement } from '../../governance/approvals/requirement.ts'
import type { ResolvedCall } from './call.ts'
import { alreadyMade } from './earlier.ts'
import { typists, type EffectRecord, type LockedCall } from './ledger.ts'

/*
 * The parameters of a held call can be edited (revise.ts): by its requester, if an approver asks for changes, and by an
 * approver, if the rule says so. The call is then decided anew, and no approval of before covers it.
 */

/** The reason of a call that no rule holds, and that an approver has edited: somebody else must confirm it. */
export const edited = 'edited by an approver'

/** A call that has begun is never edited: it may be known at the service by its former parameters. SQL: `hasEditableCall`. */
export const isEditable = ({ state, attempt, tool }: EffectRecord): boolean =>
  state === 'held' && attempt === 0 && tool !== null

/** Whether the rejection asks the requester to edit the call, and does not end it. */
export const asksForChanges = ({ effect }: LockedCall, { kind, votes }: ApprovalRecord): boolean =>
  (kind === 'step' || kind === 'edit') &&
  isEditable(effect) &&
  (effect.revision?.count ?? 0) < mostRevisions &&
  votes.some(({ changes_requested }) => changes_requested)

/** Why the requester is asked, and why the call ends if they do not answer. */
export const changesAskedBy = ({ votes }: ApprovalRecord): string => {
  const by = votes.find(({ changes_requested }) => changes_requested)?.email
  return `${by === undefined ? 'an approver' : quote(by)} asks for changes`
}

/** "`ann@example.com` has edited `text`" */
export const editedBy = ({ effect }: LockedCall, { revision }: ApprovalRecord): string =>
  `${quote(effect.revision?.by ?? '')} has edited ${list((revision?.params ?? []).map(quote), 'and')}`

/** Rules hold an edited call like any other. Without such a rule, an approver must not be the only one who saw it. */
export function unlessConfirmed(decided: Decided, revision: EffectRecord['revision']): Decided {
  if (revision === null) return decided
  const explanation = `${decided.explanation} Its parameters were edited, the last time by ${quote(revision.by)}.`
  if (decided.verdict !== 'allow' || revision.editor === null) return { ...decided, explanation }
  return {
    ...decided,
    verdict: 'require_approval',
    reason: edited,
    explanation: `${explanation} Another person must confirm it.`,
  }
}

/** What the new approval of a call asks, and of whom. */
interface Hold extends Pick<ApprovalRecord, 'kind' | 'typed_by' | 'may_edit'> {
  readonly terms: Pick<Requirement, 'seats' | 'needed'>
  readonly vote?: NonNullable<NewApproval['vote']>
}

export function holdOf(call: LockedCall, op: ResolvedCall, decided: Decided, again: HeldAgain | null): Hold {
  const { revision } = call.effect
  const typed_by = typists(revision)
  const former = again?.former
  if (again?.asksForChanges === true)
    return { kind: 'revision', terms: whoEdits(call, op), typed_by, may_edit: [] }
  if (decided.reason === alreadyMade)
    return { kind: 'repeat', terms: whoRepeats(call, op), typed_by, may_edit: [] }
  const terms = decided.reason === edited ? termsOf(former) : requirementNow(call.tx, decided)
  const may_edit = decided.reason === edited ? [] : decided.mayEdit
  const editor = revision?.editor ?? null
  // If the vote of the editor does not count any more, others decide alone.
  if (editor === null || former?.status !== 'revised') return { kind: 'step', terms, typed_by, may_edit }
  return {
    kind: 'edit',
    terms: withConfirmer(call, op, terms),
    typed_by,
    may_edit,
    vote: { user_id: editor.id, for_user: editor.for, comment: former.revision?.comment ?? '' },
  }
}

/** Whoever made the run again, or an owner: an admin may not see what a group decided in an earlier run. */
const whoRepeats = ({ tx, run }: LockedCall, op: ResolvedCall): Hold['terms'] =>
  onePerson({
    person: op.run.requesterEmail,
    id: run.requested_by,
    count: 1,
    also: [{ role: 'owner', at: tx.now.toISOString() }],
  })

/** The person who started the run, else an author of its version, else an owner. */
function whoEdits({ tx }: LockedCall, { run: { editor } }: ResolvedCall): Hold['terms'] {
  if (editor === null) return onePerson({ role: 'owner', count: 1 })
  const { email, id, isRequester } = editor
  const also: readonly HeldLater[] = isRequester ? [] : [{ role: 'owner', at: tx.now.toISOString() }]
  return onePerson({ person: email, id, count: 1, ...(also.length === 0 ? {} : { also }) })
}

const onePerson = (seat: HeldSeat): Hold['terms'] => ({ seats: [seat], needed: 1 })

/** Without a rule, the people who had to approve the former parameters. */
function termsOf(former: ApprovalRecord | undefined): Hold['terms'] {
  if (former === undefined) throw new Error('an edited call has no former approval')
  const seats = storedSeats(former).filter((seat) => !isPerson(seat))
  return { seats, needed: Math.max(1, former.approvals_needed - (former.kind === 'edit' ? 1 : 0)) }
}

/**
 * If one approver is enough, the editor is that one, and the requester or a second approver confirms. If more are
 * needed, the others see what the editor typed.
 */
function withConfirmer({ tx, run }: LockedCall, op: ResolvedCall, terms: Hold['terms']): Hold['terms'] {
  const [first] = terms.seats
  if (terms.needed > 1 || first === undefined || isPerson(first)) return terms
  const at = tx.now.toISOString()
  const { count: _, also = [], ...who } = first
  const second: HeldLater = isRole(who) ? { role: who.role, at } : { ...who, at }
  const confirmer = { person: op.run.requesterEmail, id: run.requested_by, count: 1, also: [second, ...also] }
  return { seats: [first, confirmer], needed: 2 }
}
