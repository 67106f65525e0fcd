import { seatWords } from '../../policy/seats.ts'
import type { ApprovalView, PersonsVisit } from '../visit.ts'
import { StandsIn } from './approval.tsx'
import { Later, TooFew } from './votes.tsx'
import { labelled, Refused, type Filled } from './form.tsx'
import { InputFields, labelsOf } from './inputs.tsx'
import { itemNumber } from './items.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { Outcome, type RunSummary } from './outcome.tsx'
import { ApprovalState, Badge, Labels } from './state.tsx'
import { Time } from './time.tsx'
import { Hidden, Value, Values } from './values.tsx'
import { Message, Sentence, whoOf, Words } from './words.tsx'

/** The head of a refused answer. */
export const nothingSent = 'Nothing was sent. Change this:'

interface QuestionProps {
  readonly approval: ApprovalView
  /** The run of a question that no longer waits. */
  readonly run: RunSummary | null
  readonly visit: PersonsVisit
  readonly filled: Filled
}

/** A question of a run. It is answered, and never approved. */
export function Question({ approval, run, visit, filled: given }: QuestionProps) {
  const { status, detail, params, values_hidden: hidden, labels } = approval
  const isOpen = status === 'pending'
  const filled = labelled(given, labelsOf(approval.ask?.form ?? {}, 'answer'), {}, nothingSent)
  // A few short choices stay at the lower edge of a phone, so they come last.
  const isShort = isShortChoice(approval)
  const reply = <Reply approval={approval} visit={visit} filled={filled} isShort={isShort} />
  const version = [status, detail?.vote_refused ?? '', detail?.voters_left ?? '', run?.status ?? '']
  return (
    <article
      class="approval"
      data-live="approval"
      data-version={version.join('/')}
      {...(isOpen ? { 'data-poll': '', 'data-events': `/api/v1/runs/${approval.run_id}/events` } : {})}
    >
      <header class="headline">
        <p class="badges" role="status">
          {isOpen ? (
            <Badge tone="hold" word="Waiting for an answer" />
          ) : (
            <ApprovalState approval={approval} />
          )}
        </p>
        <h1>
          <Words text={approval.summary ?? 'A question'} />
        </h1>
        <Asked approval={approval} now={visit.now} />
      </header>
      <Refused filled={filled} />
      <div class="columns">
        <div class="column">
          {isOpen ? null : <Outcome approval={approval} run={run} call={null} now={visit.now} />}
          <Answer approval={approval} />
          <section aria-labelledby="contents">
            <h2 id="contents">What it is about</h2>
            {hidden === undefined ? null : <Hidden hidden={hidden} />}
            {params === undefined ? null : Object.keys(params).length === 0 ? (
              <p class="quiet">The workflow shows no values.</p>
            ) : (
              <Values values={params} />
            )}
            {labels.length === 0 ? null : (
              <p class="badges">
                <Labels labels={labels} most={20} />
              </p>
            )}
          </section>
        </div>
        <div class="column">
          {isOpen && !isShort ? reply : null}
          <Who approval={approval} now={visit.now} />
          {isOpen && isShort ? reply : null}
        </div>
      </div>
    </article>
  )
}

const isShortChoice = ({ ask }: ApprovalView): boolean =>
  ask?.choices != null && ask.choices.length <= 4 && ask.choices.every((choice) => choice.length <= 30)

function Asked({ approval, now }: { readonly approval: ApprovalView; readonly now: Date }) {
  const { run_id, workflow_name, step_id, item_index, created_at, expires_at, status } = approval
  return (
    <p class="asked">
      <a href={`/console/runs/${run_id ?? ''}`}>
        <Words text={workflow_name ?? 'A workflow'} />
      </a>
      , step{' '}
      <strong>
        <Words text={step_id ?? ''} />
      </strong>
      {item_index === null ? null : `, item ${itemNumber(item_index)}`}, asked{' '}
      <Time at={created_at} now={now} exact={status !== 'pending'} />, in a run of{' '}
      <strong>
        <Words text={whoOf(approval.requester_email ?? approval.requested_by)} />
      </strong>
      .
      {status !== 'pending' || expires_at === null ? null : (
        <>
          {' '}
          Expires <Time at={expires_at} now={now} exact />.
        </>
      )}
    </p>
  )
}

function Answer({ approval: { ask } }: { readonly approval: ApprovalView }) {
  if (ask?.answer === undefined) return null
  return (
    <section aria-labelledby="answer">
      <h2 id="answer">{ask.answered_by === null ? 'What counts as the answer' : 'The answer'}</h2>
      <Value value={ask.answer} />
    </section>
  )
}

function Who({ approval, now }: { readonly approval: ApprovalView; readonly now: Date }) {
  const { approvers, status, ask } = approval
  if (status !== 'pending' || ask === null) return null
  return (
    <section aria-labelledby="who">
      <h2 id="who">Who is asked</h2>
      <p>
        <Sentence text={seatWords(approvers)} />. The first answer counts.
      </p>
      <Later approval={approval} now={now} />
      <TooFew approval={approval} />
      {approval.expires_at === null ? (
        <p class="quiet">It does not expire.</p>
      ) : ask.otherwise === null ? (
        <p class="quiet">If nobody answers in time, the step ends as expired.</p>
      ) : (
        <>
          <p class="quiet">If nobody answers in time, this counts as the answer:</p>
          <Value value={ask.otherwise} />
        </>
      )}
    </section>
  )
}

/** The form of the answer, or why the person cannot answer. It works without the script. */
function Reply(props: Pick<QuestionProps, 'approval' | 'visit' | 'filled'> & { readonly isShort: boolean }) {
  const { approval, visit, filled, isShort } = props
  const { id, ask, detail } = approval
  const refused = detail?.vote_refused ?? null
  if (refused !== null || ask === null)
    return (
      <section class="note">
        <h2>You cannot answer this</h2>
        <p>
          <Message text={refused ?? 'others are asked'} />
        </p>
      </section>
    )
  return (
    <PostForm
      action={`/console/approvals/${id}`}
      token={visit.token}
      class={isShort ? 'decide' : 'card fill'}
    >
      <OnceField />
      <StandsIn approval={approval} />
      {ask.choices === null ? (
        <>
          <InputFields declared={ask.form ?? {}} at="answer" filled={filled} />
          <div class="row">
            <button name="decision" value="answer" class="primary">
              Send the answer
            </button>
          </div>
        </>
      ) : (
        <div class="buttons choices">
          {ask.choices.map((choice) => (
            <button name="answer" value={choice}>
              <Words text={choice} />
            </button>
          ))}
        </div>
      )}
    </PostForm>
  )
}
