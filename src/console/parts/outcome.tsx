import type { ApprovalView, RunView } from '../visit.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { soughtWords, type Sought } from '../../contract/sought.ts'
import { inboxPath } from '../../contract/pages.ts'
import { itemNumber, RunReason } from './items.tsx'
import { Report } from './receipts.tsx'
import { Badge, RunState } from './state.tsx'
import { Time } from './time.tsx'
import { Message, Words } from './words.tsx'
import { OnceField, PostForm } from './layout.tsx'

export const summaryFields = [
  'id',
  'status',
  'status_reason',
  'steps',
  'inputs',
  'input_labels',
  'values_hidden',
  'workflow_version',
] as const

export interface RunSummary extends Pick<RunView, (typeof summaryFields)[number]> {
  /** What a whole run would follow. null if the reader may not see it, or if it cannot be read. Absent for one call. */
  readonly definition?: WorkflowDefinition | null
}

const ends: Readonly<Record<string, string>> = {
  cancelled:
    'It was withdrawn: the run was cancelled, the session ended, or another approval took its place.',
  expired: 'Nobody decided in time. It will not happen.',
}

function endOf({ kind, status, votes, ask, revision, superseded_by }: ApprovalView) {
  const by = ask?.answered_by ?? null
  if (by !== null)
    return (
      <>
        <Words text={by.email} />
        {ask?.answered_for ? (
          <>
            {' '}
            answered for <Words text={ask.answered_for.email} />
          </>
        ) : (
          ' answered'
        )}
        .
      </>
    )
  if (kind === 'ask' && status === 'expired') return 'Nobody answered in time.'
  if (kind === 'revision' && status === 'expired') return 'Nobody edited it in time. It will not happen.'
  if (revision !== null)
    return (
      <>
        <Words text={revision.by.email} /> edited <Words text={revision.params.join(', ')} most={300} />
        {revision.comment === '' ? null : (
          <>
            : <Words text={revision.comment} most={2_000} kind="text" />
          </>
        )}
        .
      </>
    )
  if (status === 'rejected') {
    const vote = votes.find(({ decision }) => decision === 'reject')
    if (vote === undefined) return 'It will not happen.'
    const words = vote.changes_requested
      ? `requested changes. It will not happen as it is.${superseded_by === null ? '' : ' Its requester edits it.'}`
      : 'rejected it. It will not happen.'
    return (
      <>
        <Words text={vote.email} />
        {` ${words}`}
      </>
    )
  }
  if (kind === 'change' && status === 'cancelled')
    return 'It was taken back, or it could not be made any more, because something else had changed meanwhile.'
  if (status !== 'approved') return ends[status] ?? ''
  const [first, ...others] = votes.filter(({ decision }) => decision === 'approve')
  if (first === undefined) return 'It was approved.'
  const more = others.length === 0 ? '' : ` and ${others.length} ${others.length === 1 ? 'other' : 'others'}`
  return (
    <>
      <Words text={first.email} />
      {`${more} approved.`}
    </>
  )
}

interface OutcomeProps {
  readonly approval: ApprovalView
  readonly run: RunSummary | null
  /** The state of the approved call; null for an agent's call. */
  readonly call: string | null
  readonly now: Date
}

export function Outcome({ approval, run, call, now }: OutcomeProps) {
  const by = approval.superseded_by
  return (
    <section aria-labelledby="outcome" class="outcome">
      <h2 id="outcome">What became of it</h2>
      <p>
        {endOf(approval)}
        {approval.decided_at === null ? null : (
          <>
            {' '}
            {approval.kind === 'ask' ? 'Ended' : 'Decided'} <Time at={approval.decided_at} now={now} exact />.
          </>
        )}
      </p>
      {by === null ? null : (
        <p>
          <a href={`/console/approvals/${by}`}>The approval in its place</a>
        </p>
      )}
      {approval.kind === 'agent_call' && approval.status === 'approved' ? (
        <AgentsCall approval={approval} now={now} />
      ) : null}
      {run === null ? null : <InRun approval={approval} run={run} call={call} />}
      <p>
        <a class="button" href={inboxPath}>
          What else waits
        </a>
      </p>
    </section>
  )
}

function InRun({ approval, run, call }: Omit<OutcomeProps, 'run' | 'now'> & { readonly run: RunSummary }) {
  const { item_index: item, step_id } = approval
  const step = run.steps.find(({ id }) => id === step_id)
  return (
    <dl class="fields">
      {step === undefined ? null : (
        <div class="field">
          <dt>{item === null ? 'Step' : 'Call'}</dt>
          <dd>
            <RunState status={call ?? step.status} /> <Words text={step.id} />
            {item === null ? null : `, item ${itemNumber(item)}`}
          </dd>
        </div>
      )}
      <div class="field">
        <dt>Run</dt>
        <dd>
          <RunState status={run.status} /> <RunReason run={run} most={600} />{' '}
          <a href={`/console/runs/${run.id}`}>Open the run</a>
        </dd>
      </div>
    </dl>
  )
}

function AgentsCall({ approval: { used_at, detail }, now }: { approval: ApprovalView; now: Date }) {
  const observed = detail?.observed ?? null
  const [badge, at] =
    used_at === null
      ? [<Badge tone="wait" word="Not used yet" />, null]
      : observed === null
        ? [<Badge tone="go" word="The agent may make the call" />, used_at]
        : [<Report outcome={observed.outcome} />, observed.at]
  return (
    <p>
      {badge} {at === null ? 'The agent has not asked again yet.' : <Time at={at} now={now} />}
      {used_at !== null && observed === null ? '. Its client has not reported what became of it.' : null}
    </p>
  )
}

export const outcomeChoices = [
  ['done', 'It happened…', ''],
  ['retry', 'It did not: make it again', ''],
  ['fail', 'Count it as failed', 'danger'],
] as const

/** The form goes to the run's page, so the person sees the run afterwards. */
export function OutcomeChoices(props: {
  readonly runId: string
  readonly token: string
  readonly fields: readonly (readonly [string, string])[]
  readonly question?: string
  /** Distinguishes the buttons of several forms, for screen readers. */
  readonly of?: string
}) {
  const {
    runId,
    token,
    fields,
    question = 'Look at the service it was sent to, then choose:',
    of = '',
  } = props
  return (
    <PostForm action={`/console/runs/${runId}`} token={token} class="stack">
      <OnceField />
      {fields.map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
      <p>{question}</p>
      <div class="buttons">
        {outcomeChoices.map(([outcome, words, kind]) => (
          <button name="outcome" value={outcome} {...(kind === '' ? {} : { class: kind })}>
            {of === '' ? (
              words
            ) : (
              <>
                {words}
                <span class="unseen">{of}</span>
              </>
            )}
          </button>
        ))}
      </div>
    </PostForm>
  )
}

export const callFields = ({
  attempt,
  step_id,
  item_index,
}: {
  attempt: number | null
  step_id: string | null
  item_index: number | null
}): readonly (readonly [string, string])[] => [
  ['step', step_id ?? ''],
  ['attempt', String(attempt ?? '')],
  ...(item_index === null ? [] : [['item_index', String(item_index)] as const]),
]

/** Where a person finds out whether the call happened, with a link where its address is known. */
export const WhereToLook = ({ sought }: { sought: Sought }) => (
  <p>
    <Message text={soughtWords(sought)} />
    {sought.url === null ? null : (
      <>
        {' '}
        <a href={sought.url} rel="noreferrer">
          {`Open ${sought.service}`}
        </a>
      </>
    )}
  </p>
)
