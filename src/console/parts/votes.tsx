import { seatWords } from '../../policy/seats.ts'
import { hasRole, isDecider, roleIn, type PersonsVisit, type ReceiptView } from '../visit.ts'
import { ApprovalState } from './state.tsx'
import { Time } from './time.tsx'
import { Words } from './words.tsx'

/* Who decided an approval, for everybody who sees the run. */

type Brief = ReceiptView['run_approvals'][number]

const mostVotes = 10

export function Decided(props: {
  /** The kind of the step. */
  kind?: string
  approval: Brief
  organizationId: string
  visit: PersonsVisit
}) {
  const { approval, organizationId, visit } = props
  const [its, verb] = props.kind === 'ask' ? ['Its question', 'asks'] : ['Its approval', 'needs']
  const { revision } = props.approval
  const { id, status, approvers, votes } = approval
  // A viewer can open only what a group of theirs decides.
  const mayOpen =
    hasRole(roleIn(visit, organizationId), 'member') ||
    isDecider(visit, { organization_id: organizationId, approvers })
  return (
    <div class="stack small">
      <p class="badges">
        {mayOpen ? <a href={`/console/approvals/${id}`}>{its}</a> : its}
        <ApprovalState status={status} />
        <span class="quiet">{`${verb} ${seatWords(approvers).replaceAll('`', '')}`}</span>
      </p>
      {votes.length === 0 ? null : (
        <ul>
          {votes.slice(0, mostVotes).map((vote) => (
            <li>
              <Vote vote={vote} now={visit.now} />
            </li>
          ))}
        </ul>
      )}
      {votes.length > mostVotes ? <p class="quiet">{`and ${votes.length - mostVotes} more`}</p> : null}
      {revision === null ? null : (
        <p>
          <Words text={revision.by} most={100} /> edited{' '}
          <Words text={revision.params.join(', ')} most={200} />
        </p>
      )}
    </div>
  )
}

function Vote({ vote, now }: { vote: Brief['votes'][number]; now: Date }) {
  const { email, groups, decision, changes_requested: wants, at } = vote
  return (
    <>
      <Words text={email} most={100} />
      {groups.length === 0 ? null : (
        <>
          {' of '}
          <strong>
            <Words text={groups.join(' and ')} most={300} />
          </strong>
        </>
      )}
      {vote.for === null ? null : (
        <>
          {' for '}
          <Words text={vote.for.email} most={100} />
        </>
      )}
      {decision === 'approve' ? ' approved it ' : wants ? ' asked for changes ' : ' rejected it '}
      <Time at={at} now={now} />
    </>
  )
}
