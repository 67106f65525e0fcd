import { laterWords, seatWords } from '../../policy/seats.ts'
import {
  hasRole,
  isDecider,
  roleIn,
  type ApprovalView,
  type PersonsVisit,
  type ReceiptView,
} from '../visit.ts'
import { ApprovalState, Badge } from './state.tsx'
import { Time } from './time.tsx'
import { LongText, Message, Sentence, Words } from './words.tsx'

/* Who decided an approval, for everybody who sees the run; and the votes on the page of one. */

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
  const { id, approvers, votes } = approval
  // A viewer can open only what a group of theirs decides.
  const mayOpen =
    hasRole(roleIn(visit, organizationId), 'member') ||
    isDecider(visit, { organization_id: organizationId, approvers })
  return (
    <div class="stack small">
      <p class="badges">
        {mayOpen ? <a href={`/console/approvals/${id}`}>{its}</a> : its}
        <ApprovalState approval={approval} />
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

/** Those of an approval, and whose are missing. */
export function Votes({ approval, now }: { approval: ApprovalView; now: Date }) {
  const { votes, expires_at, status } = approval
  return (
    <section aria-labelledby="votes">
      <h2 id="votes">Votes</h2>
      {status === 'pending' ? <Needed {...approval} /> : null}
      {status === 'pending' ? <Later approval={approval} now={now} /> : null}
      {status === 'pending' ? <TooFew approval={approval} /> : null}
      {votes.length === 0 ? <p class="quiet">Nobody has voted.</p> : null}
      {votes.length === 0 ? null : (
        <ul class="stack">
          {votes.map((vote) => (
            <li class="vote">
              <Badge
                tone={vote.decision === 'approve' ? 'good' : 'bad'}
                word={
                  vote.decision === 'approve'
                    ? 'Approves'
                    : vote.changes_requested
                      ? 'Requests changes'
                      : 'Rejects'
                }
              />{' '}
              <Words text={vote.email} />
              {vote.for === null ? null : (
                <>
                  {' '}
                  for <Words text={vote.for.email} />
                </>
              )}{' '}
              <span class="quiet small vote-time">
                <Time at={vote.at} now={now} />
              </span>
              {vote.comment === '' ? null : (
                <blockquote>
                  <LongText text={vote.comment} />
                </blockquote>
              )}
            </li>
          ))}
        </ul>
      )}
      {expires_at === null ? <p class="quiet">It does not expire.</p> : null}
    </section>
  )
}

/** `An owner is asked too in 10 minutes.` Each once, although they may fill several seats. */
export function Later({ approval, now }: { readonly approval: ApprovalView; now: Date }) {
  const { kind, approvers } = approval
  const later = new Map(
    approvers.flatMap(({ also = [] }) =>
      also.map(
        (each) => [`${laterWords(each)} ${each.at}`, { words: laterWords(each), at: each.at ?? '' }] as const,
      ),
    ),
  )
  if (later.size === 0) return null
  return (
    <ul class="bullets">
      {[...later.values()].map(({ words, at }) => (
        <li>
          <Sentence text={words} />{' '}
          {kind === 'repeat' ? (
            'may decide it too'
          ) : (
            <>
              {Date.parse(at) > now.getTime() ? 'is asked too' : 'was asked too'} <Time at={at} now={now} />
            </>
          )}
        </li>
      ))}
    </ul>
  )
}

/** The approval would wait in vain. */
export function TooFew({ approval: { detail } }: { readonly approval: ApprovalView }) {
  const why = detail?.cannot_be_given ?? null
  if (why === null) return null
  return (
    <p class="note">
      <Message text={why} />
    </p>
  )
}

/** `Needs 1 more approval by an admin or owner. One rejection ends it.` */
function Needed({ votes, detail, approvers }: Pick<ApprovalView, 'votes' | 'detail' | 'approvers'>) {
  const missing = detail?.votes_missing ?? 0
  if (missing === 0)
    return <p>Enough approvals count now. It is approved as soon as one of these people approves again.</p>
  const more = votes.length === 0 ? '' : ' more'
  const what = missing === 1 ? `1${more} approval` : `${missing}${more} approvals`
  const [only] = approvers
  if (approvers.length === 1 && only !== undefined && 'role' in only) {
    const who = only.role === 'owner' ? ['an owner', 'owners'] : ['an admin or owner', 'admins or owners']
    return <p>{`Needs ${what} by ${who[missing === 1 ? 0 : 1]}. One rejection ends it.`}</p>
  }
  return (
    <>
      <p>{`Needs ${what}${missing === 1 ? '' : ', by different people'}. One rejection ends it.`}</p>
      <ul class="bullets">
        {(detail?.seats ?? []).map(({ filled, ...seat }) => (
          <li>
            <Sentence text={seatWords([seat], 'counted')} />
            {filled >= seat.count ? ': done' : filled > 0 ? `: ${filled} so far` : ': nobody so far'}
          </li>
        ))}
      </ul>
    </>
  )
}
