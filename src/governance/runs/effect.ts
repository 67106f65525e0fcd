import type { HeldDetails } from '../../contract/messages.ts'
import { isOutcome, runEnded, type Outcome } from '../../contract/status.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import { decide, refused, type Call, type Decided } from '../../policy/decide.ts'
import type { JsonObject, Label, Role } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { toolNotAvailable, toolStanding, type Installation } from '../connections.ts'
import { DomainError } from '../errors.ts'
import { addressNotConfirmed } from '../people/address-proof.ts'
import { addEffect } from './add-effect.ts'
import { releaseHold, useApproval, withdrawApproval } from './approval-use.ts'
import {
  effectId,
  ledgerKind,
  type EffectKey,
  type EffectRecord,
  type Ledger,
  type RunState,
} from './ledger.ts'
import { fitsInto, lacksRoom, outOfRoom, waitForRoom, type NoRoom } from './room.ts'
import { recordDecision, settle, startRun, stepEvent, updateRunStatus } from './ledger-moves.ts'

/**
 * The effect: intent, call, outcome. One row per (run, step, item), one state:
 *
 * - *(no row)*: nothing was decided yet.
 * - `held`: parameters are resolved and sealed, an approval waits (or was given and waits for its use), or the run waits
 *   for a slot to go on with (slot-moves.ts).
 * - `intent`: allowed, the approval used up, the body may run. A new attempt decides again. Reads, transactional and
 *   keyed tools stay here while their body runs; of an unsafe tool no byte has left yet.
 * - `sent`: an unsafe tool has passed its point of no return; bytes may have left.
 * - `retry`: the tool failed in a way that can pass; a later attempt decides again.
 * - `unknown_outcome`: a process died (or time ran out) in `sent`; a person chooses retry, done or fail.
 * - `completed`, `failed`, `denied`, `rejected`, `expired`, `skipped`, `cancelled`: the outcome. Final; an attempt that
 *   finds it returns it and runs nothing.
 *
 * Moves: (none)|held|intent|retry → intent (commit point `effect.decide`); intent → sent (`effect.sent`);
 * intent|sent → outcome|retry|unknown_outcome (`effect.outcome`); sent → unknown_outcome at the next attempt
 * (`effect.decide`); unknown_outcome → outcome, or `retry` chosen (`effect.resolve`), or its own late outcome
 * (`effect.outcome`). `attempt` fences: only the newest attempt may move to `sent` or record an outcome.
 */
export interface StepOp {
  readonly key: EffectKey
  readonly tool: ToolDeclaration
  /** false: the step's `when` does not hold, nothing is decided and the outcome is `skipped`. */
  readonly wanted: boolean
  /** Its parameters were not read, because its run was cancelled or its organization frozen: it can only end. */
  readonly isUnread?: boolean
  /** Why it cannot be called at all (templates, parameters, no executor); the outcome is `failed`. */
  readonly problem: StepError | null
  /** Templates resolved and `me` an address: what the rules judge and the tool is called with, before defaults. */
  readonly params: JsonObject
  /** Over the resolved parameters as they are sealed: before defaults and `me` are filled in (contract section 6). */
  readonly paramsHash: string
  readonly paramLabels: ReadonlyMap<string, readonly Label[]>
  readonly sealed: Buffer
  readonly labels: Label[]
  readonly labelSources: LabelSource[]
  /** What this process has for tools that need the installation's folder or mail server. */
  readonly installation: Installation
  /** Whether a person whose address is not confirmed is refused. */
  readonly mustBeConfirmed: boolean
  /** How long an approval waits unless its rule says otherwise; 0 = for ever. */
  readonly approvalSeconds: number
}

/** What a decision rested on. While both are the same, deciding again would give the same answer. */
export interface Basis {
  readonly policyVersion: number
  /** The requester's. */
  readonly role: Role
}

export type StepVerdict =
  /** Run the body as this attempt. */
  | {
      readonly go: true
      readonly attempt: number
      /** Of the tool, so far. */
      readonly failures: number
      readonly basis: Basis
    }
  /** The outcome stands; nothing runs. */
  | { readonly go: false; readonly state: Outcome; readonly reason: string }
  | ({ readonly go: false; readonly state: 'held' } & HeldDetails)
  | { readonly go: false; readonly state: 'unknown_outcome' }
  /** Nothing was decided: the organization has no room for it just now. It is asked for again. */
  | NoRoom

/** Deaths and failures together after which a call is given up: something kills every worker that tries it. */
const maxAttempts = 100

/** Decides calls of runs; commit point `effect.decide`. */
export const decideSteps = ledgerKind('effect.decide', decideStep)

export function decideStep(tx: ChainTx, ledger: Ledger, asked: StepOp): StepVerdict {
  const run = ledger.runs.get(asked.key.runId)
  if (run === undefined) return { go: false, state: 'cancelled', reason: 'the run does not exist' }
  const known = ledger.effects.get(effectId(asked.key))
  if (known !== undefined && isOutcome(known.state))
    return { go: false, state: known.state, reason: known.error?.message ?? known.state }
  // Nothing is written: whatever its end left open, the run's rows stay as they are.
  if (runEnded(run.status)) return { go: false, state: 'cancelled', reason: 'the run has ended' }
  if (known?.state === 'unknown_outcome' && known.resolved_outcome !== 'retry')
    return { go: false, state: 'unknown_outcome' }
  if (known?.state === 'sent' && asked.tool.repeat === 'unsafe') return becomeUnknown(tx, ledger, run, known)
  if (run.status === 'awaiting_approval')
    throw new DomainError('conflict', 'the run waits for its own approval')
  const wouldBeHeld = (): boolean => decideCall(tx, ledger, run, asked).verdict === 'require_approval'
  const over = run.cancel_requested_at === null ? lacksRoom(tx, known, asked, wouldBeHeld) : null
  if (over !== null) return waitForRoom(ledger, run, over)
  startRun(tx, ledger, run)
  const fits = fitsInto(run, known, asked)
  // What there is no room for is not kept, whatever the call ends as.
  const op = fits ? asked : { ...asked, labelSources: [] }
  const effect = known ?? addEffect(tx, ledger, run, op, fits)
  // Remembered also while it is held anew: this call may have happened.
  if (effect.state === 'intent' && op.tool.repeat === 'keyed') effect.sent_at ??= effect.intent_at
  if (run.cancel_requested_at !== null)
    return finish(tx, ledger, run, effect, op, 'cancelled', 'the run was cancelled')
  if (op.isUnread === true && tx.policy.frozen === null)
    throw new DomainError('unavailable', 'the organization is not frozen any more')
  if (op.isUnread === true) return judge(tx, ledger, run, effect, op)
  if (!op.wanted) return finish(tx, ledger, run, effect, op, 'skipped', 'its `when` does not hold')
  if (effect.attempt >= maxAttempts)
    return finish(tx, ledger, run, effect, op, 'failed', `gave up after ${maxAttempts} attempts`)
  const { unavailable } = toolStanding(op.installation, tx.policy.connections, op.tool)
  // In a frozen organization every call is denied, whatever else is wrong with it.
  if (unavailable !== null && tx.policy.frozen === null)
    return finish(tx, ledger, run, effect, op, 'failed', unavailable, toolNotAvailable)
  if (op.problem !== null)
    return finish(tx, ledger, run, effect, op, 'failed', op.problem.message, op.problem.code)
  if (!fits) return finish(tx, ledger, run, effect, op, 'failed', outOfRoom.message, outOfRoom.code)
  if (effect.params_hash !== op.paramsHash)
    throw new Error(`the stored parameters of \`${effectId(op.key)}\` are not those that were decided`)
  return judge(tx, ledger, run, effect, op)
}

/** Evaluated on every attempt, under the lock: what was saved a moment ago holds (contract section 6). */
function judge(tx: ChainTx, ledger: Ledger, run: RunState, effect: EffectRecord, op: StepOp): StepVerdict {
  const decided = decideCall(tx, ledger, run, op)
  effect.labels = op.labels
  effect.label_sources = op.labelSources
  if (decided.verdict === 'deny') {
    if (mayHaveHappened(effect, op.tool)) return becomeUnknown(tx, ledger, run, effect)
    effect.decision_id = recordDecision(tx, ledger, run, effect, op, decided, null)
    return finish(tx, ledger, run, effect, op, 'denied', decided.explanation)
  }
  if (decided.verdict === 'require_approval') {
    const use = useApproval(tx, ledger, run, effect, op, decided)
    if (use.kind === 'waits') return held(use)
    if (use.kind === 'no_room') return waitForRoom(ledger, run, use.over)
    if (use.kind === 'ended') return finish(tx, ledger, run, effect, op, use.outcome, use.reason)
    const explanation = `${decided.explanation} Its approval \`${effect.approval_id}\` lets this one call through.`
    return begin(tx, ledger, run, effect, op, { ...decided, explanation })
  }
  // The rule that held it is gone: a person's refusal stands all the same.
  const stopped = releaseHold(tx, ledger, run, effect)
  if (stopped?.kind === 'waits') return held(stopped)
  if (stopped !== null) return finish(tx, ledger, run, effect, op, stopped.outcome, stopped.reason)
  return begin(tx, ledger, run, effect, op, decided)
}

const held = ({ waitsFor, approvalId, expiresAt }: HeldDetails): StepVerdict => ({
  go: false,
  state: 'held',
  waitsFor,
  approvalId,
  expiresAt,
})

function decideCall(tx: ChainTx, ledger: Ledger, run: RunState, op: StepOp): Decided {
  const role = ledger.roles.get(run.requested_by)
  if (role === undefined || role === 'viewer') {
    return refused(
      role === undefined ? 'requester has left' : 'requester may not run tools',
      `the person who started this run ${role === undefined ? 'is no longer a member' : 'is only a viewer'}`,
    )
  }
  if (op.mustBeConfirmed && !ledger.confirmed.has(run.requested_by))
    return refused(
      addressNotConfirmed,
      'The person who started this run has not confirmed their mail address.',
    )
  const blocked = tx.policy.toolAccess.blocks(op.tool.name, role, op.tool.sideEffect)
  const limited = blocked ?? tx.policy.toolAccess.exceeds(op.tool.name, role, op.params)
  if (limited !== null && tx.policy.frozen === null) return refused(limited.reason, limited.explanation)
  return decide(tx.policy.compiled, callOf(op))
}

/** The call as the rules see it. */
export function callOf(op: StepOp): Call {
  return {
    source: 'workflows',
    tool: op.tool.name,
    sideEffect: op.tool.sideEffect,
    params: op.params,
    labels: op.labels,
    paramLabels: op.paramLabels,
  }
}

/** Intent: decision, approval use and the right to run the body commit together. */
function begin(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  op: StepOp,
  decided: Decided,
): StepVerdict {
  const wasWaiting = effect.state === 'held' || effect.state === 'unknown_outcome'
  effect.attempt += 1
  effect.state = 'intent'
  effect.resolved_outcome = null
  effect.wants_slot = false
  effect.intent_at = tx.now.toISOString()
  effect.sent_at = null
  effect.error = null
  effect.decision_id = recordDecision(tx, ledger, run, effect, op, decided, effect.approval_id)
  ledger.touchEffect(effect)
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    // Of a `for_each` step, expanding it says so.
    if (effect.attempt === 1 && effect.item_index < 0) stepEvent(tx, effect, 'step.started')
    step.started_at ??= tx.now.toISOString()
    step.status = 'running'
    step.verdict = decided.verdict
    step.attempts = Math.max(step.attempts, effect.attempt)
    ledger.dirtySteps.add(step)
  }
  if (wasWaiting) run.waiting -= 1
  updateRunStatus(tx, ledger, run)
  // Nobody without a role gets here (decideCall).
  const role = ledger.roles.get(run.requested_by) ?? 'viewer'
  const basis = { policyVersion: tx.policy.version, role }
  return { go: true, attempt: effect.attempt, failures: effect.failures, basis }
}

function becomeUnknown(tx: ChainTx, ledger: Ledger, run: RunState, effect: EffectRecord): StepVerdict {
  withdrawApproval(tx, ledger, run, effect)
  settle(tx, ledger, run, effect, { state: 'unknown_outcome' })
  return { go: false, state: 'unknown_outcome' }
}

/**
 * Whether an earlier attempt may have taken effect although no outcome says so. Such a call never ends as denied,
 * rejected or cancelled: that would say that it did not happen.
 */
function mayHaveHappened(effect: EffectRecord, tool: ToolDeclaration): boolean {
  return effect.sent_at !== null && (tool.repeat === 'unsafe' || tool.repeat === 'keyed')
}

function finish(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  op: StepOp,
  outcome: Exclude<Outcome, 'completed'>,
  reason: string,
  code: string = outcome,
): StepVerdict {
  if (mayHaveHappened(effect, op.tool)) return becomeUnknown(tx, ledger, run, effect)
  withdrawApproval(tx, ledger, run, effect)
  effect.labels = op.labels
  effect.label_sources = op.labelSources
  settle(tx, ledger, run, effect, {
    state: outcome,
    error: outcome === 'skipped' ? null : { code, message: reason },
    outputLabels: op.labels,
  })
  return { go: false, state: outcome, reason }
}
