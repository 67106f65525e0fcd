import type { AnswerOf } from '../../api/routes/index.ts'
import { inboxPath } from '../../contract/pages.ts'
import type { ApprovalView, PersonsVisit } from '../visit.ts'
import { Asker, Place } from './inbox.tsx'
import { InboxFilters, InboxHead, pagesOf } from './inbox-head.tsx'
import { Empty, Pager, type Chosen } from './list.tsx'
import { ApprovalState, Asks } from './state.tsx'
import { Time } from './time.tsx'
import { whoOf, Words } from './words.tsx'

/* The approvals that are decided: by whom, when, and how. */

interface DecidedProps {
  readonly visit: PersonsVisit
  readonly chosen: Chosen
  readonly listed: AnswerOf<'GET /approvals'>
}

export function DecidedOnes({ visit, chosen, listed }: DecidedProps) {
  const isFiltered = Object.keys(chosen).some((name) => name !== 'state' && name !== 'order')
  return (
    <article class="page">
      <InboxHead visit={visit} chosen={chosen} title="Decided" />
      <InboxFilters visit={visit} chosen={chosen} waiting={null} items={listed.data} />
      {listed.data.length > 0 ? (
        <ul class="inbox">
          {listed.data.map((approval) => (
            <Row approval={approval} now={visit.now} />
          ))}
        </ul>
      ) : isFiltered ? (
        <Empty title="Nothing that is decided matches.">
          Change the filter, or <a href={`${inboxPath}?state=decided`}>show all that is decided</a>.
        </Empty>
      ) : (
        <Empty title="Nothing is decided yet.">
          What was approved, rejected or answered stands here, with who decided it and when.{' '}
          <a href={inboxPath}>See what waits</a>
        </Empty>
      )}
      <Pager
        path={inboxPath}
        chosen={chosen}
        cursor="cursor"
        next={listed.next_cursor}
        words={pagesOf(chosen)}
      />
    </article>
  )
}

function Row({ approval, now }: { approval: ApprovalView; now: Date }) {
  return (
    <li class="item run-row">
      <div class="item-words">
        <a href={`${inboxPath}/${approval.id}`} class="item-link">
          <Asks approval={approval} />
        </a>
        <p class="small">
          <By approval={approval} />
          {approval.decided_at === null ? null : <Time at={approval.decided_at} now={now} />}
        </p>
        <Comment approval={approval} />
        <div class="item-facts quiet small">
          <Asker approval={approval} />
          <Place approval={approval} />
          <span>
            Asked <Time at={approval.created_at} now={now} />
          </span>
        </div>
      </div>
      <p class="row-state">
        <ApprovalState approval={approval} />
      </p>
    </li>
  )
}

const mostNamed = 5

/** Who voted as it was decided, or answered or edited it. Else it ended by itself, or its requester withdrew it. */
function By({ approval: { status, votes, ask, revision } }: { approval: ApprovalView }) {
  const decisive = status === 'rejected' ? 'reject' : 'approve'
  const people =
    status === 'answered' && ask?.answered_by != null
      ? [ask.answered_by]
      : status === 'revised' && revision !== null
        ? [revision.by]
        : ['approved', 'rejected'].includes(status)
          ? votes.filter(({ decision }) => decision === decisive)
          : []
  if (people.length === 0)
    return <>{status === 'expired' ? 'Nobody decided in time, ' : 'Without a decision, '}</>
  return (
    <>
      By{' '}
      <strong>
        <Words
          text={people
            .slice(0, mostNamed)
            .map(({ email }) => whoOf(email))
            .join(', ')}
          most={400}
        />
      </strong>
      {people.length > mostNamed ? ` and ${people.length - mostNamed} more` : ''},{' '}
    </>
  )
}

/** The last one. */
function Comment({ approval: { votes } }: { approval: ApprovalView }) {
  const said = votes.findLast(({ comment }) => comment.trim() !== '')
  return said === undefined ? null : (
    <p class="small">
      “<Words text={said.comment} most={200} kind="text" />”
    </p>
  )
}
