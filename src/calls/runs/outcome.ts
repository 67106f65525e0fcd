import { CompiledQuery } from 'kysely'
import type { Context, Changing, Reading } from '../../governance/context.ts'
import { markSentText, openIntentText, reserveCostOfAttempt } from '../../db/queries/runs.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { getTool } from '../../tools/index.ts'
import { isOutcome, type EffectState } from '../../contract/status.ts'
import { stepError } from '../../contract/tool-faults.ts'
import { addedLabels } from '../../policy/decide.ts'
import { unionLabels, type Label } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { atCommitPoint } from '../../governance/audit/commit-points.ts'
import { effectId, type EffectKey } from '../../contract/ids.ts'
import { ledgerKind, loadLedger, writeLedger } from './ledger-store.ts'
import { typists, type EffectRecord, type Ledger, type LockedCall } from './ledger.ts'
import type { OutcomeTx, Outdated } from '../../governance/tools/memory.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from '../../governance/limits/run-quota.ts'
import type { Basis, CallOutcome, NewError } from './call.ts'
import { storageOver } from '../../governance/limits/storage.ts'
import { countBody, runActor, settle } from './ledger-moves.ts'
import { fitsRun, runTooLarge } from './storage-limit.ts'

/** Commit point `effect.outcome`. Returns the call's state afterwards. */
export const recordOutcomes = ledgerKind('effect.outcome', applyOutcome)

/**
 * `transactional` tools write to the memory. A superseded attempt writes nothing. If a quota or the number of
 * labels refuses the write, the call fails. After `changed` (see MayAct) and `outdated` (the memory key is
 * not as the approvers saw it), nothing is recorded, and the call must be decided again.
 */
export function recordWithWrite(
  context: Changing,
  organizationId: string,
  op: CallOutcome,
  basis: Basis,
  write: (transaction: OutcomeTx) => Promise<Exceeded | StepError | Outdated | null>,
): Promise<EffectState | 'changed' | Outdated> {
  return context.combiner.run(organizationId, 'effect.outcome', async (tx) => {
    const ledger = await loadLedger(tx, [op.key])
    const effect = ledger.effects.get(effectId(op.key))
    const acts = effect !== undefined && isCurrent(effect, op)
    if (acts && !isSame(tx, ledger, effect, basis)) return 'changed'
    const over = acts ? await write(outcomeTx(tx, ledger, op.key)) : null
    if (over === 'outdated') return over
    if (over !== null && 'limit' in over)
      tx.append(exceededEntry(over, effect?.tool ?? '', runActor({ id: op.key.runId }), op.key))
    const state = applyOutcome(tx, ledger, over === null ? op : { ...op, result: refusedBy(over) })
    writeLedger(tx, ledger)
    return state
  })
}

function outcomeTx(tx: ChainTx, ledger: Ledger, { runId }: EffectKey): OutcomeTx {
  const run = ledger.runs.get(runId)
  const workflowId = run?.workflow_id ?? null
  return {
    trx: tx.trx,
    limits: tx.policy.limits,
    role: ledger.roles.get(run?.requested_by ?? '') ?? null,
    append: (entry) => tx.append({ ...entry, actor: runActor({ id: runId }), workflowId, runId }),
  }
}

/**
 * The organization is not frozen, and the policy version and the roles are those of the decision. `markSent` checks
 * this too, without the chain lock.
 */
function isSame(tx: ChainTx, ledger: Ledger, { run_id, revision }: EffectRecord, basis: Basis): boolean {
  const { frozen, version } = tx.policy
  const role = ledger.roles.get(ledger.runs.get(run_id)?.requested_by ?? '')
  const areTypists = typists(revision).every((person) => ledger.roles.get(person) === basis.typists[person])
  return frozen === null && version === basis.policyVersion && role === basis.role && areTypists
}

function refusedBy(over: Exceeded | StepError): CallOutcome['result'] {
  return { state: 'failed', error: stepError('limit' in over ? quotaExceeded(over) : over) }
}

const isCurrent = (effect: EffectRecord, op: CallOutcome): boolean =>
  effect.attempt === op.attempt && (effect.state === 'intent' || effect.state === 'sent')

function applyOutcome(tx: ChainTx, ledger: Ledger, op: CallOutcome): EffectState {
  const run = ledger.runs.get(op.key.runId)
  const effect = ledger.effects.get(effectId(op.key))
  if (run === undefined || effect === undefined)
    throw new Error(`no call \`${effectId(op.key)}\` has an intent`)
  if (isOutcome(effect.state)) return effect.state
  // An attempt that was given up can still report the outcome, if no person has resolved the call.
  const settlesLate =
    effect.state === 'unknown_outcome' &&
    effect.resolved_outcome === null &&
    effect.attempt === op.attempt &&
    (op.result.state === 'completed' || op.result.state === 'failed')
  if (!settlesLate && !isCurrent(effect, op)) return effect.state
  if (op.bodiless !== true) countBody(effect)
  const call = { tx, ledger, run, effect }
  const result = kept(call, op.result)
  if (op.result.state === 'retry') effect.failures += 1
  // The cost counts even if the output is dropped.
  if ('cost' in op.result) run.cost = Math.max(0, run.cost + (op.result.cost ?? 0))
  settle(call, {
    state: result.state,
    durationMs: op.durationMs,
    ...('error' in result ? { error: result.error, errorDetail: result.errorDetail } : {}),
    ...(result.state === 'completed'
      ? { output: result.output, outputLabels: outputLabelsOf(call, result) }
      : { outputLabels: effect.labels }),
  })
  if (settlesLate) tx.deliver('run.wake', run.id, { key: `${effect.step_id}#${effect.item_index}` })
  return effect.state
}

/**
 * A read whose output exceeds a tool policy or the run's storage fails. If the organization has no storage
 * left, it is tried again later. Any other output is stored at any size, because the call has happened.
 */
function kept({ tx, ledger, run, effect }: LockedCall, result: CallOutcome['result']): CallOutcome['result'] {
  if (result.state !== 'completed') return result
  const { bytes } = result.output
  const { tool } = result.call
  // The declared side effect counts, wherever the call went.
  if (getTool(tool)?.sideEffect === 'read') {
    const most = tx.policy.toolAccess.of(run.requested_by).largestOutput(tool, ledger.rolesFor(run, effect))
    if (most !== null && bytes > most * 1024) return { state: 'failed', error: tooLarge(tool, bytes, most) }
    if (!fitsRun(run, bytes)) return { state: 'failed', error: stepError(runTooLarge) }
    if (storageOver(tx, bytes) !== null) return { state: 'retry', error: { ...waitingForRoom, bytes } }
  }
  tx.expects({ bytes })
  return result
}

const waitingForRoom = stepError(
  { code: 'quota_exceeded', message: 'the organization has no storage left for the output' },
  true,
)

const tooLarge = (tool: string, bytes: number, most: number): NewError => ({
  code: 'response_too_large',
  message: `the output of \`${tool}\` takes ${Math.ceil(bytes / 1024)} KiB, and a tool policy allows ${most} (\`max_response_size_kb\`)`,
  fault: 'policy',
  retryable: false,
})

function outputLabelsOf(
  { tx, effect }: LockedCall,
  result: Extract<CallOutcome['result'], { state: 'completed' }>,
): Label[] {
  return unionLabels(effect.labels, result.labels, addedLabels(tx.policy.compiled, result.call))
}

/**
 * Whether a call may act now:
 *
 * - `yes`: the call may act.
 * - `changed`: the call must be decided again first (`decideAgain`), because the organization is frozen, a rule or
 *   setting was saved, or the role of the requester or of whoever edited the call has changed.
 * - `superseded`: a newer attempt has taken over, or the run was cancelled or has ended.
 * - `disconnected`: the connection that the attempt uses was revoked or replaced, or has expired.
 */
export type MayAct = 'yes' | 'changed' | 'superseded' | 'disconnected'

/**
 * Takes no lock, but sees everything that was committed before. This is enough for calls that were decided
 * ahead (activities/decided-ahead.ts): they can run twice without harm, or act only in the transaction that
 * saves their outcome.
 */
export async function stillHolds(
  { db }: Reading,
  { runId, stepId, itemIndex }: EffectKey,
  attempt: number,
  basis: Basis,
): Promise<boolean> {
  const values = [runId, stepId, itemIndex, attempt, ...basisValues(basis)]
  // Kysely's pool prepares statements only if the configuration allows it (db/prepared.ts).
  const { rows } = await db.executeQuery<{ same: boolean }>(CompiledQuery.raw(openIntentText, values))
  return rows[0]?.same === true
}

const basisValues = ({ policyVersion, role, typists: typed }: Basis) => [
  policyVersion,
  role,
  JSON.stringify(typed),
]

/**
 * Later commits of the attempt count the body too. Without this, the crash of a worker would hide a long
 * body.
 */
export async function noteBody(
  { pool }: Pick<Context, 'pool'>,
  { runId, stepId, itemIndex }: EffectKey,
  attempt: number,
): Promise<void> {
  await pool.query(
    `update effects set bodies = bodies + 1, body_counted = true where run_id = $1 and step_id = $2
     and item_index = $3 and attempt = $4 and state = 'intent' and not body_counted`,
    [runId, stepId, itemIndex, attempt],
  )
}

/**
 * The point of no return (commit point `effect.sent`): after a later crash, the outcome is unknown. Without
 * `yes`, nothing may be sent. One SQL statement checks and marks, so an earlier freeze, rule change or
 * revocation prevents the mark. `sentWith` is the connection's id and address.
 */
export async function markSent(
  context: Pick<Context, 'pool'>,
  key: EffectKey,
  attempt: number,
  basis: Basis,
  sentWith: string | null = null,
): Promise<MayAct> {
  const { rows } = await atCommitPoint('effect.sent', () =>
    context.pool.query<{ answer: MayAct }>(markSentText, [
      key.runId,
      key.stepId,
      key.itemIndex,
      attempt,
      ...basisValues(basis),
      sentWith,
    ]),
  )
  return rows[0]?.answer ?? 'superseded'
}

/**
 * Reserves `most`, in currency units, before anything is spent (commit point `effect.spend`). Holds the
 * organization's lock, so that two calls cannot reserve the same money. Reserves nothing if the attempt is
 * `superseded`, or if the month in which the run was accepted would exceed `monthly_spend`. The second case
 * writes an audit entry and returns the limit.
 */
export function reserveCost(
  context: Changing,
  organizationId: string,
  {
    key,
    attempt,
    tool,
    most,
  }: Pick<CallOutcome, 'key' | 'attempt'> & { readonly tool: string; readonly most: number },
): Promise<'reserved' | 'superseded' | Exceeded> {
  return context.combiner.run(organizationId, 'effect.spend', async (tx) => {
    const limit = tx.policy.limits.monthly_spend
    const [row] = await tx.send(
      reserveCostOfAttempt({
        organizationId,
        runId: key.runId,
        stepId: key.stepId,
        itemIndex: key.itemIndex,
        attempt,
        most,
        limit,
      }),
    )
    if (row?.reserved === true) return 'reserved'
    if (row?.may_act !== true) return 'superseded'
    const over: Exceeded = { limit: 'monthly_spend', value: limit, retryAfter: 1 }
    tx.append(exceededEntry(over, tool, runActor({ id: key.runId }), { runId: key.runId }))
    return over
  })
}
