import type { Selectable } from 'kysely'
import type { ApprovalKind } from '../../../contract/status.ts'
import { countWaiting, type Waiting } from '../../../db/queries/runs.ts'
import type { RunsTable } from '../../../db/schema/runs.ts'
import { quote } from '../../../policy/text.ts'
import { readSettings, type GovernanceSettings } from '../../../policy/settings.ts'
import { pendingVotes } from '../../../db/queries/approvals.ts'
import { seatWords } from '../../../policy/seats.ts'
import {
  countingVotes,
  requirementOf,
  type FirstPeople,
  type TermsOfKind,
  type VoteWithRole,
} from '../../approvals/requirement.ts'
import type { Context, Reading } from '../../context.ts'

/* Computed when somebody asks, because what a run waits for changes with each vote and each item. */

type Run = Pick<
  Selectable<RunsTable>,
  'id' | 'organization_id' | 'status' | 'status_reason' | 'cancel_requested_at' | 'slot'
>

interface Vote extends VoteWithRole, FirstPeople, TermsOfKind {
  readonly approval_id: string
  readonly run_id: string
  readonly step_id: string | null
  readonly rule_name: string | null
}

interface Present {
  /** When the oldest open approval or unknown outcome began to wait. Is null if there is none. */
  readonly waiting_since: Date | null
}

/** All runs must belong to one organization. */
export async function withPresentReasons<R extends Run>(
  context: Reading & Pick<Context, 'isTemporalAway'>,
  runs: readonly R[],
): Promise<readonly (R & Present)[]> {
  const held = runs.filter(({ status }) => status === 'paused' || status === 'awaiting_approval')
  const facts = held.length === 0 ? null : await readFacts(context, held)
  return runs.map((run) => {
    const reason = facts === null || !held.includes(run) ? run.status_reason : reasonOf(run, facts)
    return {
      ...run,
      status_reason: withTemporal(run, reason, context.isTemporalAway),
      waiting_since: facts === null ? null : waitingSince(run, facts),
    }
  })
}

function waitingSince(run: Run, { waiting }: Facts): Date | null {
  const times = waiting.flatMap(({ run_id, kind, since }) =>
    run_id === run.id && isOfPeople(kind) && since !== null ? [since.getTime()] : [],
  )
  return times.length === 0 ? null : new Date(Math.min(...times))
}

/** A person must do something. */
const isOfPeople = (kind: Waiting['kind']): boolean =>
  kind === 'approval' || kind === 'resolution' || kind === 'answer' || kind === 'revision'

interface Facts {
  readonly settings: GovernanceSettings
  readonly waiting: readonly Waiting[]
  readonly votes: readonly Vote[]
  readonly isTemporalAway: boolean
}

async function readFacts(
  { db, isTemporalAway }: Reading & Pick<Context, 'isTemporalAway'>,
  runs: readonly Run[],
): Promise<Facts> {
  const ids = runs.map(({ id }) => id)
  const organizationId = runs[0]?.organization_id ?? ''
  const [organization, waiting, votes] = await Promise.all([
    db.selectFrom('organizations').select('settings').where('id', '=', organizationId).executeTakeFirst(),
    countWaiting(ids).execute(db),
    pendingVotes<Vote>(ids).execute(db),
  ])
  return {
    settings: readSettings(organization?.settings ?? {}),
    waiting: waiting.rows,
    votes: votes.rows,
    isTemporalAway,
  }
}

/** A sentence names at most this many steps. */
const mostNamed = 5

function reasonOf(run: Run, facts: Facts): string {
  if (run.cancel_requested_at !== null) return run.status_reason
  const own = facts.waiting.filter(({ run_id }) => run_id === run.id)
  const whole = own.find(({ step_id }) => step_id === null)
  if (whole !== undefined) return reasonOfWhole(run, whole, facts)
  const open = own.filter(({ kind }) => isOfPeople(kind) || kind === 'time')
  if (open.length === 0) {
    const decided = own.find(({ kind }) => kind === 'decided')
    return decided === undefined || own.some(({ kind }) => kind === 'slot')
      ? run.status_reason
      : goesOn(`${whatOf(decided)} ${decided.count === 1 ? 'is' : 'are'} decided`, facts)
  }
  const named = open.slice(0, mostNamed).map((each) => sentenceOf(each, facts))
  const more = open.length - named.length
  return more > 0 ? `${named.join('; ')}; and ${more} more` : named.join('; ')
}

/** Adds nothing if Temporal cannot be reached, because no worker can take up the run then. */
const goesOn = (decision: string, { isTemporalAway }: Facts): string =>
  isTemporalAway ? decision : `${decision}: the run goes on as soon as a worker takes it up`

function reasonOfWhole(run: Run, whole: Waiting, facts: Facts): string {
  if (whole.kind === 'approval') return `${run.status_reason}: ${votesOf(whole, facts)}`
  // If an approved run waits for a slot, the stored reason says so.
  return run.slot === 'waits' ? run.status_reason : goesOn('the run is approved', facts)
}

/** Returns words for what waits. Examples: `step x`, `item 3 of step x`, `12 items of step x`. */
function whatOf({ step_id, count, first }: Waiting): string {
  const step = `step \`${step_id}\``
  if (count > 1) return `${count} items of ${step}`
  return first < 0 ? step : `item ${first} of ${step}`
}

/** A time for people, exact to the second. */
const shownTime = (at: Date | null): string => `${at?.toISOString().slice(0, 19) ?? ''}Z`

function sentenceOf(waiting: Waiting, facts: Facts): string {
  const what = whatOf(waiting)
  const isOne = waiting.count === 1
  if (waiting.kind === 'time')
    return `${what} ${isOne ? 'waits' : 'wait, the first'} until ${shownTime(waiting.until)}`
  if (waiting.kind === 'resolution')
    return `${what} may or may not have taken effect: an approver must resolve ${isOne ? 'it' : 'them'}`
  const terms = termsOf(waiting)
  const who = terms === null ? 'nobody' : seatWords(requirementOf(terms, facts.settings).seats)
  if (waiting.kind === 'answer') return `${what} ${isOne ? 'waits' : 'wait'} for an answer of ${who}`
  if (waiting.kind === 'revision') return `${what} ${isOne ? 'waits' : 'wait'} for changes by ${who}`
  const why = waiting.rule_name === null ? '' : ` (rule ${quote(waiting.rule_name)})`
  return `${what} ${isOne ? 'waits' : 'wait'} for approval by ${who}${why}: ${votesOf(waiting, facts)}`
}

const kindOf: Readonly<Partial<Record<Waiting['kind'], ApprovalKind>>> = {
  answer: 'ask',
  revision: 'revision',
}

const termsOf = ({ kind, approver, approvals_needed, seats }: Waiting): TermsOfKind | null =>
  approvals_needed === null
    ? null
    : { kind: kindOf[kind] ?? 'step', approver, approvals_needed, seats, typed_by: [] }

/** For all items; only votes that count now. Example: `1 of 2 votes given, 1 missing (1 for each item)`. */
function votesOf(waiting: Waiting, { settings, votes }: Facts): string {
  const terms = termsOf(waiting)
  if (terms === null) return ''
  const required = requirementOf(terms, settings)
  const asked = JSON.stringify(terms.seats)
  const byApproval = Map.groupBy(
    votes.filter(
      (vote) =>
        vote.run_id === waiting.run_id &&
        vote.step_id === waiting.step_id &&
        vote.rule_name === waiting.rule_name &&
        vote.approver === terms.approver &&
        vote.approvals_needed === terms.approvals_needed &&
        JSON.stringify(vote.seats?.map((seat) => ({ ...seat, also: undefined })) ?? null) === asked,
    ),
    ({ approval_id }) => approval_id,
  )
  const given = [...byApproval.values()].reduce(
    (sum, cast) =>
      sum + (cast[0] === undefined ? 0 : countingVotes(cast, cast[0], requirementOf(cast[0], settings))),
    0,
  )
  const needed = required.needed * waiting.count
  const counts = `${given} of ${needed} ${needed === 1 ? 'vote' : 'votes'} given, ${Math.max(0, needed - given)} missing`
  return waiting.count === 1 ? counts : `${counts} (${required.needed} for each item)`
}

const away = 'Temporal cannot be reached'

/** Without Temporal the run cannot go on, even if all votes are given or a slot is free. */
function withTemporal(
  { status, slot, cancel_requested_at }: Run,
  reason: string,
  isTemporalAway: boolean,
): string {
  if (!isTemporalAway || cancel_requested_at !== null || slot === 'queued') return reason
  if (status === 'queued') return `${away}: the run starts once it is back`
  if (status === 'running') return `${away}: the run goes on once it is back`
  if (status === 'paused' || status === 'awaiting_approval')
    return `${reason}; ${away}, so the run goes on only once it is back`
  return reason
}
