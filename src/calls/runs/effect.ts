import type { HeldDetails } from '../../contract/messages.ts'
import { stepError } from '../../contract/tool-faults.ts'
import { isOutcome, mostAttempts, runEnded, type Outcome } from '../../contract/status.ts'
import type { Repeat, ToolDeclaration } from '../../tools/kit/tool.ts'
import type { Audience } from '../../policy/audience.ts'
import { addedLabels, type Decided } from '../../policy/decide.ts'
import type { Label } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { CallDestination } from '../../governance/audit/connected.ts'
import { toolNotAvailable } from '../../contract/tool-services.ts'
import { toolStanding } from '../../governance/tools/connections.ts'
import { DomainError } from '../../governance/errors.ts'
import { addEffect } from './add-effect.ts'
import { isUnseen, releaseHold, useApproval, withdrawPending } from './approval-use.ts'
import { callOf, decideCall, whereTo } from './decide-call.ts'
import { effectId } from '../../contract/effect-key.ts'
import { ledgerKind } from './ledger-store.ts'
import type { EffectRecord, Ledger } from './ledger.ts'
import type { DecidingCall, LockedCall } from './run-call.ts'
import {
  callFitsRun,
  organizationLimitReached,
  runTooLarge,
  waitForOrganizationLimit,
  type OverStorageLimit,
} from './storage-limit.ts'
import type { Basis, StepOp } from './step-op.ts'
import { noteOutcome, recordDecision, settle, startRun, stepEvent, updateRunStatus } from './ledger-moves.ts'

/*
 * An effect is the row of one call of a run. There is one row for each (run, step, item). Its states:
 *
 * - *(no row)*: nothing was decided yet.
 * - `held`: the parameters are resolved and sealed. The call waits for an approval, has an approval that is not used
 *   yet, or waits until its run has a slot (slot-moves.ts).
 * - `intent`: the call is allowed, its approval is used, and the tool's body may run. A new attempt decides the call
 *   again. Reads, transactional and keyed tools stay in `intent` while their body runs. An unsafe or findable tool has
 *   not sent the call in this attempt yet. If `sent_at` is set, an earlier attempt may have acted. Then a findable tool
 *   only looks for the effect of the earlier attempt. An unsafe tool with `sent_with` sends the call again with the
 *   same key.
 * - `sent`: an unsafe or findable tool has passed its point of no return; bytes may have left.
 * - `retry`: the tool failed temporarily; a later attempt decides the call again.
 * - `unknown_outcome`: a process died, or time ran out, while the call was `sent`, and the call cannot be found. A
 *   person chooses retry, done or fail.
 * - `completed`, `failed`, `denied`, `rejected`, `expired`, `skipped`, `cancelled`: the outcome. The outcome is final:
 *   a later attempt returns it and runs nothing.
 *
 * Moves, with their commit points:
 *
 * - (none)|held|intent|retry → intent, held or an outcome (`effect.decide`).
 * - intent → sent (`effect.sent`).
 * - intent|sent → outcome|retry|unknown_outcome (`effect.outcome`).
 * - sent → unknown_outcome at the next attempt (`effect.decide`). If the tool is findable or `sent_with` is set: sent →
 *   intent, and `sent_at` stays.
 * - intent with `sent_at` → sent if the call is sent again with its key. If the call was not found at the service:
 *   intent with `sent_at` → retry.
 * - unknown_outcome → outcome by a person's choice (`effect.resolve`). If the person chooses `retry`, the state stays
 *   until the next attempt, which decides the call again.
 * - unknown_outcome → the outcome that the attempt reports late (`effect.outcome`).
 *
 * `attempt` is a fence: only the newest attempt may move to `sent` or record an outcome. `bodies` is the number that
 * people see: how often the tool's body began (docs/decisions/0274).
 */

export type StepVerdict =
  /** Run the tool's body as this attempt. */
  | {
      readonly go: true
      readonly attempt: number
      /** Failures of the tool so far. */
      readonly failures: number
      readonly basis: Basis
      /**
       * Seconds since the time when an earlier attempt may have acted. The tool then looks for the effect of that
       * attempt, or repeats the call with the same key. If the value is null, the tool makes the call without looking.
       */
      readonly sentSecondsAgo: number | null
      /**
       * The id and the address of the connection that the earlier attempt used. Is null if they are unknown, or if
       * nothing was sent.
       */
      readonly sentWith: string | null
      /** The id of the approval that lets the call through. Is null if no rule requires an approval. */
      readonly approvalId: string | null
      /** Where the call goes. It is decided again before it goes anywhere else. */
      readonly to: CallDestination | null
      /** The labels that the organization's rules add to the output. */
      readonly addedLabels: readonly Label[]
      /**
       * Who may read the document or folder to which the call writes. The tool asks the service who really can read it.
       */
      readonly audience: Audience
    }
  /** The call has its outcome; nothing runs. */
  | { readonly go: false; readonly state: Outcome; readonly reason: string }
  | ({ readonly go: false; readonly state: 'held' } & HeldDetails)
  | { readonly go: false; readonly state: 'unknown_outcome' }
  /**
   * There is no decision, because the organization is at its limit of storage or of pending approvals. The caller asks
   * again later.
   */
  | OverStorageLimit
  | Unseen

/** The call must be held. The caller first reads the data for its approvers (`StepOp.seen`), then asks again. */
export interface Unseen {
  readonly go: false
  readonly state: 'unseen'
}

/** Decides calls of runs; commit point `effect.decide`. */
export const decideSteps = ledgerKind('effect.decide', decideStep)

export function decideStep(tx: ChainTx, ledger: Ledger, asked: StepOp): StepVerdict {
  const run = ledger.runs.get(asked.key.runId)
  if (run === undefined) return { go: false, state: 'cancelled', reason: 'the run does not exist' }
  const locked = { tx, ledger, run }
  const known = ledger.effects.get(effectId(asked.key))
  if (known !== undefined && isOutcome(known.state))
    return { go: false, state: known.state, reason: known.error?.message ?? known.state }
  // Nothing is written, because the rows of an ended run do not change, even if a call has no outcome.
  if (runEnded(run.status)) return { go: false, state: 'cancelled', reason: 'the run has ended' }
  if (known?.state === 'unknown_outcome' && known.resolved_outcome !== 'retry')
    return { go: false, state: 'unknown_outcome' }
  if (known?.state === 'sent' && asked.tool.repeat === 'unsafe' && known.sent_with === null)
    return becomeUnknown({ ...locked, effect: known })
  if (run.status === 'awaiting_approval')
    throw new DomainError('conflict', 'the run waits for its own approval')
  const wouldBeHeld = (): boolean => decideCall(locked, asked).verdict === 'require_approval'
  const over =
    run.cancel_requested_at === null ? organizationLimitReached(tx, known, asked, wouldBeHeld) : null
  if (over !== null) return waitForOrganizationLimit(locked, over)
  // Write nothing before the data for the approvers was read.
  if (known === undefined && isUnseen(locked, asked) && wouldBeHeld()) return { go: false, state: 'unseen' }
  startRun(locked)
  const fits = callFitsRun(run, known, asked)
  // If the run has no storage left, label sources are not stored. This is true for every outcome of the call.
  const op = fits ? asked : { ...asked, labelSources: [] }
  const effect = known ?? addEffect(locked, op, fits)
  const call = { ...locked, effect, op }
  // The earlier attempt may have acted. Store the time of that attempt. If the call is held again now, this time still
  // shows that the call may have acted.
  if (effect.state === 'intent' && op.tool.repeat === 'keyed') effect.sent_at ??= effect.intent_at
  if (run.cancel_requested_at !== null) return finish(call, 'cancelled', 'the run was cancelled')
  if (op.isUnread === true && tx.policy.frozen === null)
    throw new DomainError('unavailable', 'the organization is no longer frozen')
  if (op.isUnread === true) return judge(call)
  if (!op.wanted) return finish(call, 'skipped', 'its `when` does not hold')
  if (effect.attempt >= mostAttempts) return finish(call, 'failed', `gave up after ${mostAttempts} attempts`)
  const { unavailable, code } = toolStanding(
    op.installation,
    tx.policy.connections,
    op.tool,
    run.requested_by,
  )
  // A frozen organization denies every call, even one whose tool is not available.
  if (unavailable !== null && tx.policy.frozen === null)
    return finish(call, 'failed', unavailable, code ?? toolNotAvailable)
  if (op.problem !== null) return finish(call, 'failed', op.problem.message, op.problem.code)
  if (!fits) return finish(call, 'failed', runTooLarge.message, runTooLarge.code)
  if (effect.params_hash !== op.paramsHash)
    throw new Error(`the parameters of \`${effectId(op.key)}\` differ from the stored ones`)
  return judge(call)
}

/** Judges the call by the rules. Runs on every attempt, under the lock, so each saved rule takes effect at once. */
function judge(call: DecidingCall): StepVerdict {
  const { effect, op } = call
  const decided = decideCall(call, op)
  effect.labels = op.labels
  effect.label_sources = op.labelSources
  if (decided.verdict === 'deny') {
    if (mayHaveHappened(effect, op.tool)) return becomeUnknown(call)
    effect.decision_id = recordDecision(call, decided, null)
    return finish(call, 'denied', decided.explanation, 'denied', decided.ruleId)
  }
  if (decided.verdict === 'require_approval') {
    const use = useApproval(call, decided)
    if (use.kind === 'waits') return held(use)
    if (use.kind === 'no_room') return waitForOrganizationLimit(call, use.over)
    if (use.kind === 'unseen') return { go: false, state: 'unseen' }
    if (use.kind === 'ended') return finish(call, use.outcome, use.reason, use.code)
    const explanation = `${decided.explanation} Its approval \`${effect.approval_id}\` lets this one call through.`
    return begin(call, { ...decided, explanation }, effect.approval_id)
  }
  // No rule requires an approval now. But if the call's approval was rejected, withdrawn or not given in time, the call
  // still ends.
  const stopped = releaseHold(call, decided)
  if (stopped?.kind === 'waits') return held(stopped)
  if (stopped !== null) return finish(call, stopped.outcome, stopped.reason)
  return begin(call, decided)
}

const held = ({ waitsFor, approvalId, expiresAt }: HeldDetails): StepVerdict => ({
  go: false,
  state: 'held',
  waitsFor,
  approvalId,
  expiresAt,
})

/** Moves the call to `intent`. The decision and the use of the approval commit in the same transaction. */
function begin(call: DecidingCall, decided: Decided, approvalId: string | null = null): StepVerdict {
  const { tx, ledger, run, effect, op } = call
  const wasWaiting = effect.state === 'held' || effect.state === 'unknown_outcome'
  // A call with an unknown outcome is decided only after a person has chosen `retry`.
  if (effect.state === 'unknown_outcome') noteOutcome(effect, 'unknown_outcome')
  effect.attempt += 1
  effect.body_counted = false
  effect.state = 'intent'
  // If `sent_at` is set, this attempt first looks for the effect of an earlier attempt, or repeats the call with its
  // key. A person who chose `retry` has looked already, so `sent_at` is then removed.
  const canBeFound = op.tool.repeat === 'findable' || effect.sent_with !== null
  if (!canBeFound || effect.resolved_outcome === 'retry') effect.sent_at = effect.sent_with = null
  effect.resolved_outcome = null
  effect.wants_slot = false
  effect.intent_at = tx.now.toISOString()
  // First the run goes on, then the call is decided: so the events come in this order for every end of a wait.
  if (wasWaiting) run.waiting -= 1
  updateRunStatus(call)
  effect.decision_id = recordDecision(call, decided, effect.approval_id)
  ledger.touchEffect(effect)
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    // For a `for_each` step, `expandStep` has already sent this event.
    if (effect.attempt === 1 && effect.item_index < 0) stepEvent(tx, effect, 'step.started')
    step.started_at ??= tx.now.toISOString()
    step.status = 'running'
    step.verdict = decided.verdict
    // An attempt that looks for the effect of an earlier one does not begin the body.
    step.attempts = Math.max(step.attempts, effect.bodies + (effect.sent_at === null ? 1 : 0))
    ledger.dirtySteps.add(step)
  }
  // `decideCall` has already denied the call of a person without a role, so `viewer` is never used.
  const role = ledger.roles.get(run.requested_by) ?? 'viewer'
  const basis = { policyVersion: tx.policy.version, role }
  const { sent_at: sentAt, sent_with: sentWith } = effect
  const sentSecondsAgo = sentAt === null ? null : (tx.now.getTime() - Date.parse(sentAt)) / 1_000
  const { attempt, failures } = effect
  const to = whereTo(call, op)
  return {
    go: true,
    attempt,
    failures,
    basis,
    sentSecondsAgo,
    sentWith,
    approvalId,
    to,
    addedLabels: addedLabels(tx.policy.compiled, callOf(op, to)),
    audience: tx.policy.toolAccess.audience(op.tool.name, ledger.rolesFor(run, effect)),
  }
}

function becomeUnknown(call: LockedCall): StepVerdict {
  withdrawPending(call)
  settle(call, { state: 'unknown_outcome' })
  return { go: false, state: 'unknown_outcome' }
}

/**
 * Whether an earlier attempt may have taken effect although no outcome was stored. Such a call never ends as denied,
 * rejected or cancelled, because these states mean that nothing happened.
 */
function mayHaveHappened(effect: EffectRecord, tool: ToolDeclaration): boolean {
  return effect.sent_at !== null && mayAct.has(tool.repeat)
}

const mayAct: ReadonlySet<Repeat> = new Set(['unsafe', 'findable', 'keyed'])

function finish(
  call: DecidingCall,
  outcome: Exclude<Outcome, 'completed'>,
  reason: string,
  code: string = outcome,
  ruleId: string | null = null,
): StepVerdict {
  const { effect, op } = call
  if (mayHaveHappened(effect, op.tool)) return becomeUnknown(call)
  withdrawPending(call)
  effect.labels = op.labels
  effect.label_sources = op.labelSources
  settle(call, {
    state: outcome,
    error: outcome === 'skipped' ? null : stepError({ code, message: reason }),
    outputLabels: op.labels,
    ruleId,
  })
  return { go: false, state: outcome, reason }
}
