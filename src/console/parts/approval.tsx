import { describeConditions } from '../../policy/explain.ts'
import {
  hasRole,
  isDecider,
  verbOf,
  roleIn,
  type PersonsVisit,
  type Problem,
  type ApprovalView,
  type Form,
  type RuleView,
} from '../visit.ts'
import { Words, SessionId, Message, Sentence, whoOf } from './words.tsx'
import { ChangedPolicy } from './change.tsx'
import { labelled, Refused } from './form.tsx'
import { Contents } from './contents.tsx'
import { Changed, EditForm, Wanted } from './edit.tsx'
import { countedFromOne, itemNumber } from './items.tsx'
import { Outcome, type RunSummary } from './outcome.tsx'
import { ApprovalState, Asks, Badge, Effect, Risk, Sources, Way } from './state.tsx'
import { Moment, Time } from './time.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { Votes } from './votes.tsx'

interface ApprovalProps {
  readonly approval: ApprovalView
  readonly rule: RuleView | null
  readonly run: RunSummary | null
  /** The state of the call that used this approval; null for an agent's call. */
  readonly call: string | null
  /** The call would fail. */
  readonly isDisconnected: boolean
  readonly visit: PersonsVisit
  readonly refused: Problem | null
  /** From the previous form, if it was refused. */
  readonly comment: string
  /** What was typed into a form of an edit that was refused. */
  readonly form: Form | null
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
}

export function Approval(props: ApprovalProps) {
  const { approval, rule, run, call, visit, refused, comment, form, isCut } = props
  const { now } = visit
  const isOpen = approval.status === 'pending'
  const isAboutComment = isOpen && refused?.code === commentMissing
  const events = approval.run_id !== null && approval.kind !== 'agent_call'
  const isEnded =
    !isOpen &&
    !mayBeReported(approval, now) &&
    (run === null || run.steps.every(({ status }) => !moving.has(status)))
  return (
    <article
      class="approval"
      data-live="approval"
      data-version={versionOf(props)}
      {...(isEnded ? {} : { 'data-poll': '' })}
      {...(events && !isEnded ? { 'data-events': `/api/v1/runs/${approval.run_id}/events` } : {})}
    >
      <header class="headline">
        <p class="badges" role="status">
          {isOpen && approval.kind === 'revision' ? (
            <Badge tone="hold" word="Changes requested" />
          ) : (
            <ApprovalState approval={approval} />
          )}
        </p>
        <h1>
          <Asks approval={approval} />
        </h1>
        <Asked
          approval={approval}
          now={now}
          maySeeSession={hasRole(roleIn(visit, approval.organization_id), 'admin')}
        />
        <p class="badges">
          <Risk level={approval.risk.level} />
          {approval.side_effect === null ? null : <Effect effect={approval.side_effect} />}
          <Reversible approval={approval} />
          {approval.destination === null ? null : (
            <span class="badge">
              <span>
                Goes <Way tool={approval.tool} host={approval.destination} />
              </span>
            </span>
          )}
        </p>
      </header>
      <Refused
        filled={labelled({ form: null, problem: isAboutComment ? null : refused }, { comment: 'Comment' })}
      />
      <div class="columns">
        <div class="column">
          {isOpen ? null : <Outcome approval={approval} run={run} call={call} now={now} />}
          {isOpen && approval.kind === 'repeat' && mayVote(approval) ? (
            <OnceMore approval={approval} />
          ) : null}
          <Wanted approval={approval} />
          <Changed approval={approval} />
          {approval.kind === 'change' ? (
            <ChangedPolicy approval={approval} />
          ) : (
            <Contents
              approval={approval}
              isDisconnected={props.isDisconnected}
              run={run}
              mayDecide={isDecider(visit, approval)}
              isDone={call === 'completed' || isReportedDone(approval)}
            />
          )}
          {approval.kind === 'change' ? null : <Why approval={approval} rule={rule} />}
        </div>
        <div class="column">
          {approval.kind === 'revision' ? null : <Votes approval={approval} now={now} />}
          {isOpen && approval.kind === 'revision' && mayVote(approval) ? (
            <section aria-labelledby="edit">
              <h2 id="edit">Edit the call</h2>
              <StandsIn approval={approval} />
              <EditForm approval={approval} visit={visit} filled={{ form, problem: refused }} isCut={isCut} />
            </section>
          ) : isOpen ? (
            <Decide
              approval={approval}
              visit={visit}
              comment={comment}
              isCut={isCut}
              problem={isAboutComment ? refused.message : null}
            />
          ) : null}
          {isOpen && approval.requested_by === visit.person.user.id ? (
            <Withdraw approval={approval} visit={visit} />
          ) : null}
          {isOpen &&
          approval.kind !== 'revision' &&
          mayVote(approval) &&
          hasRole(roleIn(visit, approval.organization_id), 'member') &&
          approval.may_edit.length > 0 &&
          approval.requested_by !== visit.person.user.id ? (
            <details class="exact" open={form !== null}>
              <summary>Edit it, for another person to confirm</summary>
              <EditForm approval={approval} visit={visit} filled={{ form, problem: refused }} isCut={isCut} />
            </details>
          ) : null}
        </div>
      </div>
    </article>
  )
}

const mayVote = ({ detail }: ApprovalView): boolean => (detail?.vote_refused ?? null) === null

function isReportedDone({ detail }: ApprovalView): boolean {
  const observed = detail?.observed ?? null
  return observed !== null && observed.outcome !== 'error'
}

/** Changes with everything on the page that can change. */
const versionOf = ({ approval, call, run, isDisconnected }: ApprovalProps): string =>
  [
    approval.status,
    approval.votes.length,
    approval.detail?.votes_missing ?? '',
    approval.detail?.voters_left ?? '',
    approval.detail?.vote_refused ?? '',
    approval.superseded_by ?? '',
    approval.edits?.changed.length ?? '',
    approval.used_at === null ? '' : 'used',
    approval.detail?.observed?.outcome ?? '',
    call ?? '',
    isDisconnected ? 'disconnected' : '',
    run === null ? '' : [run.status, ...run.steps.map(({ status }) => status)].join(' '),
  ].join('/')

/** States of steps that can still change. */
const moving = new Set(['pending', 'running', 'held', 'unknown_outcome'])

/** Milliseconds since the use of the approval, or else since the decision, for the report of the agent's client. */
const reportWithin = 3_600_000

/** The agent may still use the approval, or its client may still report the call. */
function mayBeReported({ kind, status, used_at, decided_at, detail }: ApprovalView, now: Date): boolean {
  if (kind !== 'agent_call' || status !== 'approved' || (detail?.observed ?? null) !== null) return false
  return now.getTime() - Date.parse(used_at ?? decided_at ?? '') < reportWithin
}

/** The service does not know this for an agent's call. */
function Reversible({ approval: { kind, reversible } }: { readonly approval: ApprovalView }) {
  if (kind === 'agent_call') return <Badge tone="off" word="Unknown whether it can be taken back" />
  if (reversible === null) return null
  const words = {
    yes: 'Can be taken back',
    'by hand': 'Can be taken back by hand',
    no: 'Cannot be taken back',
  }
  return <Badge tone={reversible === 'no' ? 'warn' : 'off'} word={words[reversible]} />
}

const mostAuthors = 3

/** Unless the requester alone wrote the version that runs. */
function WrittenBy({ approval: { authors, requested_by } }: { approval: ApprovalView }) {
  if (authors.every(({ user_id }) => user_id === requested_by)) return null
  const more = authors.length - mostAuthors
  return [
    ' Written by ',
    authors.slice(0, mostAuthors).map(({ email }, at) => (
      <>
        {at === 0 ? '' : ', '}
        <strong>
          <Words text={email} />
        </strong>
      </>
    )),
    more > 0 ? ` and ${more} more` : '',
    '.',
  ]
}

function Asked(props: { approval: ApprovalView; now: Date; maySeeSession: boolean }) {
  const { approval, now, maySeeSession } = props
  const { detail, run_id, step_id, item_index, session_id } = approval
  const agent = detail?.agent ?? null
  const session = <SessionId id={session_id ?? ''} />
  return (
    <p class="asked">
      <strong>
        <Words text={whoOf(approval.requester_email ?? approval.requested_by)} />
      </strong>{' '}
      asked <Time at={approval.created_at} now={now} exact={approval.status !== 'pending'} />
      {approval.kind === 'change' ? (
        ' for this change'
      ) : approval.kind === 'agent_call' ? (
        <>
          {' '}
          through the agent{' '}
          <strong>
            <Words text={agent?.name ?? 'unknown'} />
          </strong>{' '}
          in the session{' '}
          {maySeeSession && approval.agent_session_id !== null ? (
            <a href={`/console/sessions/${approval.agent_session_id}`}>{session}</a>
          ) : (
            session
          )}
        </>
      ) : (
        <>
          {approval.kind === 'run' ? ' to start ' : ' in '}
          <a href={`/console/runs/${run_id ?? ''}`}>
            {/* The page's title already names the workflow of a whole run. */}
            {approval.kind === 'run' ? 'this run' : <Words text={approval.workflow_name ?? 'a workflow'} />}
          </a>
          {step_id === null ? null : (
            <>
              , step{' '}
              <strong>
                <Words text={step_id} />
              </strong>
            </>
          )}
          {item_index === null ? null : `, item ${itemNumber(item_index)}`}
        </>
      )}
      .<WrittenBy approval={approval} />
      {approval.status !== 'pending' || approval.expires_at === null ? null : (
        <>
          {' '}
          Expires <Time at={approval.expires_at} now={now} exact />.
        </>
      )}
    </p>
  )
}

/** The code of a form that needs a comment and has none. */
export const commentMissing = 'comment_missing'

/** Whoever asked takes it back. A call of a run ends with its run. */
function Withdraw({
  approval: { id, kind, run_id },
  visit,
}: {
  approval: ApprovalView
  visit: PersonsVisit
}) {
  if (kind !== 'change' && kind !== 'agent_call')
    return run_id === null ? null : (
      <p id="withdraw" class="small">
        You asked for it. To withdraw it, <a href={`/console/runs/${run_id}#run-cancel`}>cancel the run</a>.
      </p>
    )
  return (
    <section class="note stack" id="withdraw" aria-labelledby="withdraw-title">
      <h2 id="withdraw-title">You asked for it</h2>
      <PostForm action={`/console/approvals/${id}`} token={visit.token}>
        <OnceField />
        <button name="decision" value="withdraw">
          {kind === 'change' ? 'Withdraw your change' : 'Withdraw the call'}
        </button>
      </PostForm>
    </section>
  )
}

/** The form for a vote, or why the person cannot vote. */
function Decide(props: {
  readonly approval: ApprovalView
  readonly visit: PersonsVisit
  /** The comment of a previous form that was refused. */
  readonly comment: string
  /** Whether the page shows only the beginning of what the approval covers. */
  readonly isCut: boolean
  /** Why the comment of the previous form was refused. */
  readonly problem: string | null
}) {
  const { approval, visit, comment, isCut, problem } = props
  const refused = approval.detail?.vote_refused ?? null
  const isRepeat = approval.kind === 'repeat'
  if (refused !== null)
    return (
      <section class="note">
        <h2>{approval.kind === 'revision' ? 'You cannot edit this' : 'You cannot decide this'}</h2>
        <p>
          <Message text={refused} />
        </p>
      </section>
    )
  return (
    <PostForm action={`/console/approvals/${approval.id}`} token={visit.token} class="decide">
      <OnceField />
      <StandsIn approval={approval} />
      {isCut ? <HaveRead id={approval.id} /> : null}
      {problem === null ? null : (
        <p id="comment-problem" class="alert" role="alert">
          {problem}
        </p>
      )}
      <div class="comment">
        <label for="comment">Comment</label>
        <textarea
          id="comment"
          name="comment"
          rows={1}
          maxlength={2000}
          {...(problem === null
            ? {}
            : { autofocus: true, 'aria-invalid': 'true', 'aria-describedby': 'comment-problem' })}
        >
          {comment}
        </textarea>
      </div>
      <div class="buttons">
        <button id="approve" name="decision" value="approve" class="primary">
          {isRepeat ? 'Do it again' : 'Approve'}
        </button>
        {isRepeat ? null : (
          <button name="decision" value="request_changes" formnovalidate>
            Request changes
          </button>
        )}
        <button id="reject" name="decision" value="reject" class="danger" formnovalidate>
          {isRepeat ? 'Stop the run' : 'Reject'}
        </button>
      </div>
      {approval.kind === 'step' || approval.kind === 'edit' ? <EndsRun approval={approval} /> : null}
    </PostForm>
  )
}

/** What the buttons mean for a call that an earlier run has made. */
const OnceMore = ({ approval: { run_id: runId } }: { readonly approval: ApprovalView }) => (
  <div class="note small">
    <p>
      <strong>Do it again</strong>: the call is made once more.
    </p>
    <p>
      <strong>Stop the run</strong>: <a href={`/console/runs/${runId ?? ''}`}>this run</a> ends as rejected,
      unless the step has <code>on_error: continue</code>. To leave only this call out, stop the run, press
      “Run again…” on its page, and choose “Leave it out”.
    </p>
  </div>
)

/** docs/workflows.md describes every way in which a step can end badly. */
const EndsRun = ({ approval: { detail } }: { readonly approval: ApprovalView }) => (
  <p class="quiet small ends-run">
    Reject also ends the run, and its other held calls are withdrawn, unless the step has{' '}
    <code>on_error: continue</code>.{' '}
    {detail?.can_be_edited === false
      ? 'Request changes ends it like Reject: this call has begun, or was edited too often, so it is not edited any more.'
      : 'Request changes asks the person who started the run to edit this call.'}
  </p>
)

/** Nobody can approve what the page cuts without this check mark. */
const HaveRead = ({ id }: { id: string }) => (
  <div class="stack">
    <p>
      It is too long for this page.{' '}
      <a href={`/console/approvals/${id}/parameters`} download="">
        Download all of it
      </a>{' '}
      before you approve.
    </p>
    <label class="check">
      <input type="checkbox" id="read" name="read" value={id} required /> I have read the downloaded file
    </label>
  </div>
)

export function StandsIn({ approval: { kind, detail } }: { readonly approval: ApprovalView }) {
  const absent = detail?.deciding_for ?? null
  if (absent === null) return null
  return (
    <p class="note">
      You {verbOf(kind)} for <Words text={absent.email} />, who is away until <Moment at={absent.until} />.
    </p>
  )
}

function Why({ approval, rule }: { approval: ApprovalView; rule: RuleView | null }) {
  const { risk, labels } = approval
  return (
    <section aria-labelledby="why">
      <h2 id="why">{approval.status === 'pending' ? 'Why it is held' : 'Why it was held'}</h2>
      <Held approval={approval} rule={rule} />
      <Others approval={approval} />
      {approval.held_again === null || approval.detail?.explanation?.includes(approval.held_again) ? null : (
        <p>
          <Message text={approval.held_again} />
        </p>
      )}
      {risk.reasons.length === 0 ? null : (
        <div>
          <h3>{`Why the risk is ${risk.level}`}</h3>
          <ul class="bullets">
            {risk.reasons.map((reason) => (
              <li>
                <Sentence text={reason} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {labels.length === 0 ? (
        <p class="quiet">The data has no labels.</p>
      ) : (
        <div>
          <h3>Labels of the data</h3>
          <ul class="stack">
            {labels.map((label) => (
              <li>
                <span class="label">{label}</span>{' '}
                <Sources from={sourcesOf(approval, label)} isAgents={approval.kind === 'agent_call'} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  )
}

/** The explanation of the decision; without one, the rule with its present conditions, which may have changed since. */
function Held({ approval, rule }: { approval: ApprovalView; rule: RuleView | null }) {
  const explanation = approval.detail?.explanation ?? null
  if (explanation !== null)
    return (
      <p>
        <Message text={countedFromOne(explanation)} />
        <EarlierRun approval={approval} explanation={explanation} />
      </p>
    )
  if (approval.kind === 'run')
    return <p>The settings of the organization hold a run like this before it starts.</p>
  if (approval.rule_name === null) return null
  return (
    <p>
      Rule{' '}
      <strong>
        <Words text={approval.rule_name} />
      </strong>
      {rule === null ? null : (
        <>
          {' '}
          holds a call when <Sentence text={describeConditions(rule)} />
        </>
      )}
      .
    </p>
  )
}

function EarlierRun({ approval, explanation }: { approval: ApprovalView; explanation: string }) {
  const [, run] = /`(run_\w+)`/.exec(explanation) ?? []
  if (approval.kind !== 'repeat' || run === undefined) return null
  return (
    <>
      {' '}
      <a href={`/console/runs/${run}`}>Open the earlier run</a>
    </>
  )
}

function Others({ approval }: { approval: ApprovalView }) {
  const others = (approval.detail?.held_by ?? []).filter((name) => name !== approval.rule_name)
  if (others.length === 0) return null
  const shown = others.slice(0, mostRules)
  return (
    <p>
      {others.length === 1 ? 'Another rule holds it too: ' : `${others.length} more rules hold it too: `}
      {shown.map((name, index) => (
        <>
          {index === 0 ? null : ', '}
          <strong>
            <Words text={name} />
          </strong>
        </>
      ))}
      {others.length > mostRules ? ' and others' : null}.
    </p>
  )
}

const mostRules = 10

const sourcesOf = ({ detail }: ApprovalView, label: string): readonly string[] =>
  detail?.label_sources.find((source) => source.label === label)?.from ?? []
