import type { PersonsVisit, Problem, ReceiptDecision, ReceiptView } from '../visit.ts'
import { inItemOrder, itemNumber } from './items.tsx'
import { sentenceOf, Labels, Badge, effectTitle, RunState, wantsChanges, Way, type Tone } from './state.tsx'
import { Live } from './layout.tsx'
import { chosenOf, Pager } from './list.tsx'
import { Time } from './time.tsx'
import { Decided } from './votes.tsx'
import { Message, Words } from './words.tsx'

export interface ReceiptsProps {
  readonly receipt: Pick<ReceiptView, 'run_approvals' | 'decisions' | 'reused' | 'next_cursor'> | Problem
  readonly path: string
  readonly visit: PersonsVisit
  readonly organizationId: string
  readonly words: { readonly first: string; readonly next: string }
}

export function Receipts({ receipt, path, visit, words, organizationId }: ReceiptsProps) {
  const chosen = chosenOf(visit.query, ['receipts'])
  const list = 'decisions' in receipt ? inItemOrder(receipt.decisions) : []
  const ofRun = 'decisions' in receipt ? receipt.run_approvals : []
  const reused = 'decisions' in receipt && chosen['receipts'] === undefined ? receipt.reused : []
  const version = [
    ...reused.map(({ step_id, item_index }) => `${step_id}.${item_index ?? ''}`),
    ...ofRun.map(versionOf),
    ...list.map(({ decision_id, outcome, approval, executed_at }) =>
      [decision_id, outcome ?? '', approval === null ? '' : versionOf(approval), executed_at ?? ''].join(' '),
    ),
  ].join('/')
  return (
    <Live name="receipts" version={version}>
      <section class="card" aria-labelledby="receipts">
        <h2 id="receipts">What was decided</h2>
        {'decisions' in receipt ? null : (
          <p class="alert">
            <Message text={receipt.message} />
          </p>
        )}
        {'decisions' in receipt && list.length === 0 && ofRun.length === 0 && reused.length === 0 ? (
          <p class="quiet">
            {chosen['receipts'] === undefined ? 'No call was decided.' : 'There are no more.'}
          </p>
        ) : null}
        {ofRun.map((approval) => (
          <div class="row">
            <p>
              <strong>The whole run</strong>
            </p>
            <Decided approval={approval} organizationId={organizationId} visit={visit} />
          </div>
        ))}
        <TakenOver reused={reused} />
        <ol class="rows">
          {list.map((decision) => (
            <Decision decision={decision} organizationId={organizationId} visit={visit} />
          ))}
        </ol>
        <Pager
          path={path}
          chosen={chosen}
          cursor="receipts"
          next={'decisions' in receipt ? (receipt.next_cursor ?? null) : null}
          words={words}
        />
      </section>
    </Live>
  )
}

const mostNamed = 20

/** Their decisions are in the receipts of earlier runs. */
function TakenOver({ reused }: Pick<ReceiptView, 'reused'>) {
  return [...Map.groupBy(reused, ({ run_id }) => run_id)].map(([run, calls]) => {
    const steps = [...new Set(calls.map(({ step_id }) => step_id))]
    return (
      <p class="row small">
        Not decided anew, but taken over from <a href={`/console/runs/${run}`}>an earlier run</a>:{' '}
        <Words text={steps.slice(0, mostNamed).join(', ')} most={400} />
        {steps.length > mostNamed ? ` and ${steps.length - mostNamed} more` : ''}
      </p>
    )
  })
}

const versionOf = ({ id, status, votes }: ReceiptView['run_approvals'][number]): string =>
  [id, status, votes.length].join(' ')

const verdicts: Readonly<Record<string, readonly [Tone, string]>> = {
  allow: ['good', 'Allowed'],
  deny: ['bad', 'Denied'],
  require_approval: ['hold', 'Held for approval'],
}

/** Outcomes that an agent's client reports. */
const reports: Readonly<Record<string, readonly [Tone, string]>> = {
  ok: ['good', 'Reported as done'],
  error: ['bad', 'Reported as failed'],
  finished: ['off', 'Reported as finished'],
}

function Decision(props: { decision: ReceiptDecision } & Pick<ReceiptsProps, 'organizationId' | 'visit'>) {
  const { decision, organizationId, visit } = props
  const { approval, explanation, labels, outcome, side_effect, step_id, item_index, verdict } = decision
  const [tone, word] = verdicts[verdict] ?? ['off', verdict]
  // The next decision is about the edited call.
  const isReplaced = outcome === 'superseded' && approval !== null && wantsChanges(approval)
  return (
    <li class="row">
      <div class="split">
        <p>
          {step_id === null ? null : (
            <>
              <strong>
                <Words text={step_id} most={100} />
              </strong>
              {item_index === null ? ' ' : `, item ${itemNumber(item_index)} `}
            </>
          )}
          <code>
            <Words text={decision.tool} most={120} />
          </code>
        </p>
        <p class="badges">
          <Badge tone={tone} word={word} />
          {/* The verdict already says that the call is held. */}
          {outcome === null || outcome === 'held' || isReplaced ? null : (
            <Outcome outcome={outcome} isAgents={step_id === null} />
          )}
        </p>
      </div>
      <p class="small">
        <Message text={explanation === '' ? decision.reason : withoutId(explanation)} most={600} />
      </p>
      {approval === null ? null : (
        <Decided approval={approval} organizationId={organizationId} visit={visit} />
      )}
      <div class="meta">
        <span>{effectTitle(side_effect)}</span>
        {decision.destination === null ? null : (
          <span>
            <Way tool={decision.tool} host={decision.destination} />
          </span>
        )}
        <Time at={decision.decided_at} now={visit.now} />
        {labels.length === 0 ? null : <Labels labels={labels} />}
      </div>
    </li>
  )
}

const withoutId = (explanation: string): string =>
  explanation.replace(
    / Its approval `apr_\w+` lets this one call through\.$/,
    ' Its approval lets this one call through.',
  )

export function Report({ outcome }: { outcome: string }) {
  const [tone, word] = reports[outcome] ?? ['off', outcome]
  return <Badge tone={tone} word={word} />
}

function Outcome({ outcome, isAgents }: { outcome: string; isAgents: boolean }) {
  return isAgents && reports[outcome] !== undefined ? (
    <Report outcome={outcome} />
  ) : (
    <RunState status={outcome} />
  )
}

/** One page of a run's decisions. The parameter `receipts` of the page's address is the cursor. */
export async function receiptOf(
  visit: PersonsVisit,
  runId: string,
  order: 'oldest' | 'newest' = 'oldest',
): Promise<ReceiptsProps['receipt']> {
  const cursor = visit.query.get('receipts')
  const found = await visit.api.call('GET /runs/{id}/authorization', {
    params: { id: runId },
    query: { limit: '20', order, ...(cursor === null ? {} : { cursor }) },
    only: ['run_approvals', 'decisions', 'reused', 'next_cursor'],
  })
  return found.ok ? found.body : found
}

/** For each further approval, the page names the step, the tool or the run. */
const most = '50'

/** What each waiting approval would do, by its id. */
export async function sentencesOf(
  { api }: PersonsVisit,
  query: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, string>> {
  const found = await api.call('GET /approvals', {
    query: { status: 'pending', limit: most, ...query },
  })
  return new Map(found.ok ? found.body.data.map((approval) => [approval.id, sentenceOf(approval)]) : [])
}
