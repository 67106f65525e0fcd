import type { Db } from '../../db/schema/index.ts'
import { DomainError } from '../errors.ts'
import type { ApprovalKind, ApprovalStatus } from '../../contract/status.ts'
import { isPerson, isRole, roleOf } from '../../policy/seats.ts'
import { list, quote } from '../../policy/text.ts'
import { decisionRefusal, type Requirement, type Voted, type Voter } from './requirement.ts'
import { readVoters } from './voters.ts'

export interface Votable {
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  /** Still pending although its time is over, by the database's clock. */
  readonly isDue: boolean
  /** A question whose step has `otherwise`. */
  readonly hasStandIn?: boolean
}

/** For a decided or expired approval; null if it can still be decided. */
export function endedRefusal({ kind, status, isDue, hasStandIn = false }: Votable): DomainError | null {
  if ((status === 'expired' || isDue) && hasStandIn)
    return new DomainError(
      'approval_expired',
      'nobody answered in time, and the answer `otherwise` of the step counted',
    )
  if (status === 'expired' || isDue)
    return new DomainError('approval_expired', `the ${wordOf(kind)} has expired: ${askAgain[kind]}`)
  if (status === 'pending') return null
  return new DomainError('approval_already_decided', `the ${wordOf(kind)} is already \`${status}\``)
}

const wordOf = (kind: ApprovalKind): string =>
  kind === 'ask' ? 'question' : kind === 'revision' ? 'request for changes' : 'approval'

const verbOf = (kind: ApprovalKind) => (kind === 'ask' ? 'answer' : kind === 'revision' ? 'edit' : 'vote')

const askAgain: Readonly<Record<ApprovalKind, string>> = {
  step: 'run the workflow again',
  run: 'run the workflow again',
  agent_call: 'the agent must ask again',
  change: 'ask for the change again',
  ask: 'run the workflow again',
  repeat: 'run the workflow again',
  revision: 'run the workflow again',
  edit: 'run the workflow again',
}

/** Null if it is decided by votes. */
export const notByVote = ({ id, kind }: { readonly id: string; readonly kind: ApprovalKind }) =>
  kind === 'ask'
    ? new DomainError(
        'bad_transition',
        `a question has no votes: answer it with \`POST /approvals/${id}/answer\``,
      )
    : kind === 'revision'
      ? new DomainError(
          'bad_transition',
          `a request for changes has no votes: edit the call with \`POST /approvals/${id}/revise\`, or cancel its run`,
        )
      : null

type Asked = Voted & Pick<Votable, 'kind'>

/** Null if the vote would count. */
export async function voterRefusal(
  db: Db,
  organizationId: string,
  voter: Voter,
  approval: Asked,
  required: Requirement,
): Promise<DomainError | null> {
  if (await isService(db, voter.user_id))
    return new DomainError(
      'not_an_approver',
      `a service account does not ${verbOf(approval.kind)}: ask a person`,
    )
  const refusal = decisionRefusal(voter, approval, required)
  if (refusal === null) return null
  if (refusal === 'voted') return new DomainError('conflict', 'you have already voted on this approval')
  if (refusal === 'not_an_approver')
    return new DomainError(
      refusal,
      `${whoCan(required.seats)} to ${{ answer: 'answer this question', edit: 'edit this call', vote: 'decide this approval' }[verbOf(approval.kind)]}`,
    )
  const others = await othersWhoDecide(db, organizationId, approval, required)
  return new DomainError('self_approval', `${ownWork[refusal]}${others}`)
}

const isService = async (db: Db, userId: string): Promise<boolean> =>
  (await db.selectFrom('service_accounts').select('id').where('id', '=', userId).executeTakeFirst()) !==
  undefined

const ownWork = {
  own_request: 'you cannot decide your own request',
  own_values: 'you typed values of this call, so others must approve it',
  own_text: 'you wrote the version of the workflow that runs, and its authors cannot decide',
} as const

/** A refusal names at most this many people. */
const mostNamed = 3

export const viewersSeeTheirGroups = (): DomainError =>
  new DomainError(
    'not_an_approver',
    'a viewer reads only approvals that a group of theirs decides: ask an owner for the role `member`, or to join a group',
  )

function whoCan(seats: Requirement['seats']): string {
  const role = roleOf(seats)
  const groups = seats.flatMap((seat) => (isRole(seat) || isPerson(seat) ? [] : [quote(seat.group)]))
  const person = seats.find(isPerson)
  if (person !== undefined) return `you must be ${quote(person.person)}`
  if (groups.length === 0) return `you need the role \`${role}\``
  const member = `you must be a member of ${list(groups, 'or', groups.length)}`
  return role === null ? member : `${member}, or have the role \`${role}\`,`
}

/** Names people who can decide, or says what to change. */
async function othersWhoDecide(
  db: Db,
  organizationId: string,
  { kind, requested_by, authors }: Asked,
  { seats }: Requirement,
): Promise<string> {
  const people = await readVoters(db, organizationId, seats)
  const first = [requested_by, ...authors]
  const able = people.filter((person) => !first.includes(person.user_id)).map(({ email }) => quote(email))
  if (able.length === 0) {
    const role = roleOf(seats)
    const remedy =
      role !== null && seats.length === 1
        ? `nobody else has the role \`${role}\`: add a person with this role`
        : 'nobody else can: add members to a group that decides'
    return `, and ${remedy}${kind === 'change' ? '' : ', or set `allow_self_approval`'}`
  }
  const more = able.length > mostNamed ? ` or ${able.length - mostNamed} more` : ''
  return `: ask ${able.slice(0, mostNamed).join(' or ')}${more}`
}
