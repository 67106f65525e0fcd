import { CompiledQuery } from 'kysely'
import type { Context } from '../../context.ts'
import { markSentText, openIntentText } from '../../../db/queries/runs/mark-sent.ts'
import type { StepError } from '../../../db/schema/runs.ts'
import { getTool } from '../../../tools/index.ts'
import { isOutcome, type EffectState } from '../../../contract/status.ts'
import { stepError } from '../../../contract/tool-faults.ts'
import { addedLabels, type Call } from '../../../policy/decide.ts'
import { unionLabels, type Label } from '../../../policy/types.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { atCommitPoint } from '../../audit/commit-points.ts'
import { effectId, type EffectKey } from '../../../contract/effect-key.ts'
import { ledgerKind, loadLedger, writeLedger } from './ledger-store.ts'
import type { EffectRecord, Ledger } from './ledger.ts'
import type { LockedCall } from './run-call.ts'
import type { OutcomeTx, Outdated } from '../../tools/memory.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from '../../limits/run-quota.ts'
import type { SealedText } from '../../sealing/format.ts'
import type { Basis } from './step-op.ts'
import { storageOver } from '../../limits/storage.ts'
import { countBody, runActor, settle, type NewError } from './ledger-moves.ts'
import { fitsRun, runTooLarge } from './storage-limit.ts'

/**
 * The result of the tool's body in one attempt. `cost`, in currency units, is the real cost minus the cost that the
 * attempt has reserved. It is added to the run's cost, which counts towards the limit `monthly_spend`.
 */
export interface OutcomeOp {
  readonly key: EffectKey
  readonly attempt: number
  readonly result:
    | {
        readonly state: 'completed'
        /** JSON text. */
        readonly output: SealedText
        /** The labels that the tool declares for every output, and labels of this one output. */
        readonly labels: readonly Label[]
        /** The call as label rules see it. These rules can add labels to the output. */
        readonly call: Call
        readonly cost?: number | undefined
      }
    /**
     * `retry` means that the failure is temporary and the call is made again. The caller chooses between `retry` and
     * `failed` by the step's retry options.
     */
    | {
        readonly state: 'failed' | 'retry'
        readonly error: NewError
        /** JSON text of values that belong to the error. */
        readonly errorDetail?: SealedText | undefined
        readonly cost?: number | undefined
      }
    | { readonly state: 'cancelled' | 'unknown_outcome' }
  readonly durationMs: number
  /** True if the tool's body did not begin, for example because the attempt only looked for an earlier effect. */
  readonly bodiless?: boolean
}

/** Records outcomes; commit point `effect.outcome`. Returns the call's state afterwards. */
export const recordOutcomes = ledgerKind('effect.outcome', applyOutcome)

/**
 * Records the outcome together with a value for the memory (`transactional` tools). A superseded attempt writes
 * nothing. If a quota or the number of labels refuses the write, nothing is written and the call fails.
 *
 * In two cases nothing is written or recorded, and the call must be decided again. The function returns `changed` if
 * the rules or the requester's role have changed (see MayAct), and `outdated` if the key of the memory has changed since
 * the approvers of the call saw it.
 */
export function recordWithWrite(
  context: Pick<Context, 'combiner'>,
  organizationId: string,
  op: OutcomeOp,
  basis: Basis,
  write: (transaction: OutcomeTx) => Promise<Exceeded | StepError | Outdated | null>,
): Promise<EffectState | 'changed' | Outdated> {
  return context.combiner.run(organizationId, 'effect.outcome', async (tx) => {
    const ledger = await loadLedger(tx, [op.key])
    const effect = ledger.effects.get(effectId(op.key))
    const acts = effect !== undefined && isCurrent(effect, op)
    if (acts && !isSame(tx, ledger, op.key, basis)) return 'changed'
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
 * Returns true if the organization is not frozen, and if the policy version and the requester's role are those of the
 * decision. `markSent` makes this check too, without the chain lock.
 */
function isSame(tx: ChainTx, ledger: Ledger, { runId }: EffectKey, basis: Basis): boolean {
  const { frozen, version } = tx.policy
  const role = ledger.roles.get(ledger.runs.get(runId)?.requested_by ?? '')
  return frozen === null && version === basis.policyVersion && role === basis.role
}

function refusedBy(over: Exceeded | StepError): OutcomeOp['result'] {
  return { state: 'failed', error: stepError('limit' in over ? quotaExceeded(over) : over) }
}

const isCurrent = (effect: EffectRecord, op: OutcomeOp): boolean =>
  effect.attempt === op.attempt && (effect.state === 'intent' || effect.state === 'sent')

function applyOutcome(tx: ChainTx, ledger: Ledger, op: OutcomeOp): EffectState {
  const run = ledger.runs.get(op.key.runId)
  const effect = ledger.effects.get(effectId(op.key))
  if (run === undefined || effect === undefined)
    throw new Error(`no call \`${effectId(op.key)}\` has an intent`)
  if (isOutcome(effect.state)) return effect.state
  // An attempt that was given up can still report the outcome. This report settles the call if no person has resolved
  // the call.
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
 * Checks the size of an output. If the output of a read exceeds a tool policy or the run's storage, the output is
 * dropped and the call fails. If the organization has no storage left, the read is tried again later. The output of any
 * other call is stored at any size, because the call has happened.
 */
function kept({ tx, ledger, run, effect }: LockedCall, result: OutcomeOp['result']): OutcomeOp['result'] {
  if (result.state !== 'completed') return result
  const { bytes } = result.output
  const { tool } = result.call
  // The declared side effect counts, wherever the call went.
  if (getTool(tool)?.sideEffect === 'read') {
    const most = tx.policy.toolAccess.largestOutput(tool, ledger.rolesFor(run, effect))
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
  result: Extract<OutcomeOp['result'], { state: 'completed' }>,
): Label[] {
  return unionLabels(effect.labels, result.labels, addedLabels(tx.policy.compiled, result.call))
}

/**
 * Whether a call may act now:
 *
 * - `yes`: the call may act.
 * - `changed`: the call must be decided again first (`decideAgain`), because the organization is frozen, a rule or
 *   setting was saved, or the requester's role has changed.
 * - `superseded`: a newer attempt has taken over, or the run was cancelled or has ended.
 * - `disconnected`: the connection that the attempt uses was revoked or replaced, or has expired.
 */
export type MayAct = 'yes' | 'changed' | 'superseded' | 'disconnected'

/**
 * Whether the decision of this attempt is still valid. The check takes no lock, but sees every freeze, rule and
 * cancellation that was committed before the check. It is used for calls that were decided ahead
 * (activities/decided-ahead.ts). For these calls, a check without a lock is enough: they can run twice without harm, or
 * act only in the transaction that saves their outcome.
 */
export async function stillHolds(
  { db }: Pick<Context, 'db'>,
  { runId, stepId, itemIndex }: EffectKey,
  attempt: number,
  { policyVersion, role }: Basis,
): Promise<boolean> {
  const values = [runId, stepId, itemIndex, attempt, policyVersion, role]
  // This statement goes through Kysely's pool, which prepares statements only if the configuration allows it
  // (db/prepared.ts).
  const { rows } = await db.executeQuery<{ same: boolean }>(CompiledQuery.raw(openIntentText, values))
  return rows[0]?.same === true
}

/**
 * Counts the body that this attempt has begun. Later commits of the attempt count it too. So this is for bodies that
 * take long: without it, the crash of their worker would hide them.
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
 * Marks the call as sent (commit point `effect.sent`). This is the call's point of no return: after a later crash, the
 * outcome is unknown. If the answer is not `yes`, the call was not marked, and nothing may be sent. One SQL statement
 * checks and marks. So a freeze, changed rule or revocation that was committed before the statement prevents the mark.
 * `sentWith` is the connection's id and address.
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
      basis.policyVersion,
      basis.role,
      sentWith,
    ]),
  )
  return rows[0]?.answer ?? 'superseded'
}
