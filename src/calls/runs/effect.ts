import type { HeldDetails } from '../../contract/messages.ts'
import { stepError } from '../../contract/tool-faults.ts'
import { isOutcome, mostAttempts, runEnded, type Outcome } from '../../contract/status.ts'
import type { Repeat, ToolDeclaration } from '../../tools/kit/tool.ts'
import { addedLabels, type Decided, refused, judgeCall } from '../../policy/decide.ts'
import type { CallRevision } from '../../db/schema/runs.ts'
import { unionLabels, type Label } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { toolNotAvailable } from '../../contract/tool-services.ts'
import { toolStanding } from '../../governance/tools/connections.ts'
import { DomainError } from '../../governance/errors.ts'
import { isUnseen, useApproval, withdrawPending } from './approval-use.ts'
import { callOf, EditedMeanwhile, whereTo, type Decision, type ResolvedCall, type Reused } from './call.ts'
import { alreadyMade } from './earlier.ts'
import { unlessConfirmed } from './revised.ts'
import { effectId, readCallId, type EffectKey } from '../../contract/ids.ts'
import { ledgerKind } from './ledger-store.ts'
import { typists, type EffectRecord, type Ledger, type LockedCall, type LockedRun } from './ledger.ts'
import {
  callFitsRun,
  organizationLimitReached,
  runTooLarge,
  waitForOrganizationLimit,
  sourceBytes,
  countStoredBytes,
} from './storage-limit.ts'
import {
  noteOutcome,
  recordDecision,
  settle,
  startRun,
  stepEvent,
  updateRunStatus,
  countBody,
} from './ledger-moves.ts'
import { addressNotConfirmed } from '../../governance/access/address-proof.ts'
import { refusalOfRole } from '../../governance/access/recheck.ts'
import { hasRole } from '../../governance/access/scopes.ts'

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

/** Decides calls of runs; commit point `effect.decide`. */
export const decideSteps = ledgerKind('effect.decide', decideStep)

function decideStep(tx: ChainTx, ledger: Ledger, asked: ResolvedCall): Decision {
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
  const { reused } = asked.earlier
  const wouldBeHeld = (): boolean =>
    reused === null &&
    asked.wanted &&
    asked.problem === null &&
    decideCall(locked, asked).verdict === 'require_approval'
  const bytes = asked.sealed.length + (reused?.output?.bytes ?? 0)
  const over =
    run.cancel_requested_at === null ? organizationLimitReached(tx, known, bytes, wouldBeHeld) : null
  if (over !== null) return waitForOrganizationLimit(locked, over)
  // Write nothing before the data for the approvers was read.
  if (known === undefined && isUnseen(locked, asked) && wouldBeHeld()) return { go: false, state: 'unseen' }
  startRun(locked)
  const fits = callFitsRun(run, known, bytes, sourceBytes(asked.labelSources))
  // Without storage, label sources are not stored, whatever the outcome.
  const op = fits ? asked : { ...asked, labelSources: [] }
  const effect = known ?? addEffect(locked, op, fits)
  const call = { ...locked, effect }
  // The earlier attempt may have acted. If the call is held again now, this time still shows it.
  if (effect.state === 'intent' && op.tool.repeat === 'keyed') effect.sent_at ??= effect.intent_at
  if (run.cancel_requested_at !== null) return finish(call, op, 'cancelled', 'the run was cancelled')
  if (op.stopped !== null && tx.policy.frozen === null)
    throw new DomainError('unavailable', 'the organization is no longer frozen')
  if (op.stopped !== null) return judge(call, op)
  if (!op.wanted) return finish(call, op, 'skipped', 'its `when` does not hold')
  const isMember = ledger.roles.has(run.requested_by)
  if (reused !== null && fits && isMember && tx.policy.frozen === null) return takeOutcome(call, op, reused)
  if (effect.repeats !== null && run.on_repeat === 'skip')
    return finish(call, op, 'skipped', `an earlier run has made it: ${callNamed(effect.repeats)}`)
  if (effect.attempt >= mostAttempts)
    return finish(call, op, 'failed', `gave up after ${mostAttempts} attempts`)
  const { unavailable, code } = toolStanding(
    op.installation,
    tx.policy.connections,
    op.tool,
    run.requested_by,
  )
  // A frozen organization denies every call, even one whose tool is not available.
  if (unavailable !== null && tx.policy.frozen === null)
    return finish(call, op, 'failed', unavailable, code ?? toolNotAvailable)
  if (op.problem !== null) return finish(call, op, 'failed', op.problem.message, op.problem.code)
  if (!fits) return finish(call, op, 'failed', runTooLarge.message, runTooLarge.code)
  // A person has edited the parameters after they were read: the next attempt reads those that hold now.
  if (effect.revision !== null && !isOfRevision(effect.revision, effect, op)) throw new EditedMeanwhile()
  if (effect.params_hash !== (reused?.paramsHash ?? op.paramsHash))
    throw new Error(`the parameters of \`${effectId(op.key)}\` differ from the stored ones`)
  return judge(call, op)
}

/** Labels and parameters are read one after the other. A call with too many labels to compare has failed before. */
const isOfRevision = (revision: CallRevision, { params_hash }: EffectRecord, op: ResolvedCall): boolean =>
  params_hash === op.paramsHash && revision.labels.every((label) => op.labels.includes(label))

/** The chain has made the call already, and it means the same. It keeps its labels, and gets those that it would get now. */
function takeOutcome(call: LockedCall, op: ResolvedCall, reused: Reused): Decision {
  const { tx, effect } = call
  const decided = callOf(op, whereTo(call, op))
  effect.labels = op.labels
  settle(call, {
    state: 'completed',
    output: reused.output ?? undefined,
    outputLabels: unionLabels(
      reused.labels,
      op.labels,
      op.tool.outputLabels,
      addedLabels(tx.policy.compiled, decided),
    ),
  })
  return { go: false, state: 'completed', reason: 'an earlier run has done it' }
}

/** Runs on every attempt, under the lock, so each saved rule takes effect at once. */
function judge(call: LockedCall, op: ResolvedCall): Decision {
  const { effect } = call
  const decided = decideCall(call, op)
  effect.labels = op.labels
  effect.label_sources = op.labelSources
  if (decided.verdict === 'deny') {
    if (mayHaveHappened(effect, op.tool)) return becomeUnknown(call)
    effect.decision_id = recordDecision(call, op, decided, null)
    return finish(call, op, 'denied', decided.explanation, 'denied', decided.ruleId)
  }
  const use = useApproval(call, op, decided)
  if (use.kind === 'waits') return held(use)
  if (use.kind === 'no_room') return waitForOrganizationLimit(call, use.over)
  if (use.kind === 'unseen') return { go: false, state: 'unseen' }
  if (use.kind === 'ended') return finish(call, op, use.outcome, use.reason, use.code)
  if (decided.verdict !== 'require_approval') return begin(call, op, decided)
  const explanation = `${decided.explanation} Its approval \`${effect.approval_id}\` lets this one call through.`
  return begin(call, op, { ...decided, explanation }, effect.approval_id)
}

const held = ({ waitsFor, approvalId, expiresAt }: HeldDetails): Decision => ({
  go: false,
  state: 'held',
  waitsFor,
  approvalId,
  expiresAt,
})

/** The decision and the use of the approval commit in the same transaction. */
function begin(
  call: LockedCall,
  op: ResolvedCall,
  decided: Decided,
  approvalId: string | null = null,
): Decision {
  const { tx, ledger, run, effect } = call
  const wasWaiting = effect.state === 'held' || effect.state === 'unknown_outcome'
  // A call with an unknown outcome is decided only after a person has chosen `retry`.
  if (effect.state === 'unknown_outcome') noteOutcome(effect, 'unknown_outcome')
  effect.attempt += 1
  effect.body_counted = false
  effect.state = 'intent'
  // An earlier effect is looked for or repeated with its key. A person who chose `retry` has looked already.
  const canBeFound = op.tool.repeat === 'findable' || effect.sent_with !== null
  if (!canBeFound || effect.resolved_outcome === 'retry') effect.sent_at = effect.sent_with = null
  effect.resolved_outcome = null
  effect.wants_slot = false
  effect.intent_at = tx.now.toISOString()
  // First the run goes on, then the call is decided: so the events come in this order for every end of a wait.
  if (wasWaiting) run.waiting -= 1
  updateRunStatus(call)
  effect.decision_id = recordDecision(call, op, decided, effect.approval_id)
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
  const basis = { policyVersion: tx.policy.version, role, typists: ledger.rolesOf(typists(effect.revision)) }
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
    audience: tx.policy.toolAccess.of(run.requested_by).audience(op.tool.name, ledger.rolesFor(run, effect)),
  }
}

function becomeUnknown(call: LockedCall): Decision {
  withdrawPending(call)
  settle(call, { state: 'unknown_outcome' })
  return { go: false, state: 'unknown_outcome' }
}

/** Such a call never ends as denied, rejected or cancelled, because these mean that nothing happened. */
function mayHaveHappened(effect: EffectRecord, tool: ToolDeclaration): boolean {
  return effect.sent_at !== null && mayAct.has(tool.repeat)
}

const mayAct: ReadonlySet<Repeat> = new Set(['unsafe', 'findable', 'keyed'])

function finish(
  call: LockedCall,
  op: ResolvedCall,
  outcome: Exclude<Outcome, 'completed'>,
  reason: string,
  code: string = outcome,
  ruleId: string | null = null,
): Decision {
  const { effect } = call
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

/**
 * Something has changed just before the call acts (commit point `effect.decide`). A used approval can let the
 * call through again. Returns null if another attempt has taken over. After a crash, the call's row is in
 * `intent`, and the next attempt decides it again. `attempt` is the number of the attempt that was allowed.
 */
export const decideAgain = ledgerKind(
  'effect.decide',
  (
    tx,
    ledger,
    {
      key,
      call,
      attempt,
    }: { readonly key: EffectKey; readonly call: ResolvedCall; readonly attempt: number },
  ): Decision | null => {
    const effect = ledger.effects.get(effectId(key))
    if (effect === undefined || effect.attempt !== attempt) return null
    if (effect.state === 'intent') countBody(effect)
    if (call.changed !== undefined && (effect.state === 'intent' || effect.state === 'sent')) {
      // `changed` means: the tool saw that its target had changed, and did nothing. So the call is not `sent` any more.
      effect.state = 'retry'
      effect.sent_at = effect.sent_with = null
      ledger.touchEffect(effect)
    } else if (effect.state !== 'intent') return null
    const verdict = decideStep(tx, ledger, call)
    // The same body goes on with the new decision, unless it has given up.
    if (verdict.go) effect.body_counted = call.changed === undefined
    return verdict
  },
)

/**
 * Decides a call in the transaction that saves the outcome of the previous call, `after` (commit point
 * `effect.decide`). After a crash, the call's row is in `intent`, and its activity decides it again. Returns
 * null and writes nothing in these cases; the call is then decided when its activity runs:
 *
 * - `after` is not completed, or its output has other labels than `expectedLabels`.
 * - The call has a row already.
 * - The run is not `running`, or its cancellation was requested.
 * - The organization is frozen.
 */
export const decideNext = ledgerKind(
  'effect.decide',
  (
    tx,
    ledger,
    {
      key,
      after,
      expectedLabels,
      call,
    }: {
      readonly key: EffectKey
      readonly after: EffectKey
      readonly expectedLabels: readonly Label[]
      readonly call: ResolvedCall
    },
  ): Decision | null => {
    const run = ledger.runs.get(key.runId)
    if (run?.status !== 'running' || run.cancel_requested_at !== null || tx.policy.frozen !== null)
      return null
    const before = ledger.effects.get(effectId(after))
    if (before?.state !== 'completed' || ledger.effects.has(effectId(key))) return null
    const { output_labels: labels } = before
    const isExpected =
      labels.length === expectedLabels.length &&
      labels.every((label, index) => label === expectedLabels[index])
    return isExpected ? decideStep(tx, ledger, call) : null
  },
)

function decideCall(locked: LockedRun, op: ResolvedCall): Decided {
  const { tx, ledger, run } = locked
  const role = ledger.roles.get(run.requested_by)
  if (role === undefined)
    return refused('requester has left', 'the person who started this run is no longer a member')
  const refusal = refusalOfRole('workflows', role)
  if (refusal !== null) return refusal
  if (op.mustBeConfirmed && !ledger.confirmed.has(run.requested_by))
    return refused(
      addressNotConfirmed,
      'The person who started this run has not confirmed their mail address.',
    )
  const { compiled, toolAccess } = tx.policy
  const revision = ledger.effects.get(effectId(op.key))?.revision ?? null
  // A person who edits the call may do no more with the tool than they may do by their own role.
  if (typists(revision).some((person) => !hasRole(ledger.roles.get(person) ?? 'viewer', 'member')))
    return refused(
      'editor may not run tools',
      'A person who edited this call has left, or is only a viewer now.',
    )
  const { runId: run_id, stepId: step_id } = op.key
  const byRules = judgeCall(
    { compiled, toolAccess: toolAccess.of(run.requested_by) },
    callOf(op, whereTo(locked, op)),
    role,
    ledger.rolesFor(run, { run_id, step_id, revision }),
  )
  const decided = unlessConfirmed(byRules, revision)
  const repeats = repeatedBy(ledger, op)
  if (repeats === null || run.on_repeat !== 'hold' || decided.verdict !== 'allow') return decided
  return {
    ...decided,
    verdict: 'require_approval',
    reason: alreadyMade,
    explanation: `An earlier run has made this call already: ${callNamed(repeats)}. It is made again only if a person says so.`,
  }
}

/** In words, for the call of an earlier run. Items are counted from 0, as everywhere in the API. */
function callNamed(id: string): string {
  const key = readCallId(id)
  if (key === null) return `\`${id}\``
  const item = key.itemIndex < 0 ? '' : `item ${key.itemIndex} of `
  return `${item}step \`${key.stepId}\` of run \`${key.runId}\``
}

const repeatedBy = (ledger: Ledger, { key, earlier }: ResolvedCall): string | null =>
  ledger.effects.get(effectId(key))?.repeats ?? earlier.repeats

/** The state is set before the transaction ends. */
export const newEffect = ({ runId, stepId, itemIndex }: EffectKey): Omit<EffectRecord, 'tool'> => ({
  run_id: runId,
  step_id: stepId,
  item_index: itemIndex,
  state: 'retry',
  attempt: 0,
  bodies: 0,
  body_counted: false,
  failures: 0,
  resolved_outcome: null,
  params_hash: null,
  labels: [],
  label_sources: [],
  decision_id: null,
  approval_id: null,
  output_labels: [],
  error: null,
  past_outcomes: [],
  intent_at: null,
  sent_at: null,
  sent_with: null,
  finished_at: null,
  duration_ms: null,
  wants_slot: false,
  until: null,
  reused_from: null,
  repeats: null,
  revision: null,
  sealed: null,
})

/** If `fits` is false, the run has no storage left for the parameters, so they are not stored. */
function addEffect(locked: LockedRun, op: ResolvedCall, fits: boolean): EffectRecord {
  const { tx, ledger } = locked
  // A call that is taken over was made with the parameters of the earlier run.
  const sealed = fits && op.earlier.reused === null ? op.sealed : null
  const bytes = sealed?.length ?? 0
  if (fits) countStoredBytes(locked, bytes + sourceBytes(op.labelSources))
  if (fits) tx.expects({ bytes })
  return ledger.addEffect({
    ...newEffect(op.key),
    tool: op.tool.name,
    // Later runs compare with the hash as of the run that made the call.
    params_hash: op.earlier.reused?.paramsHash ?? op.paramsHash,
    reused_from: op.earlier.reused?.from ?? null,
    repeats: op.earlier.repeats,
    labels: op.labels,
    label_sources: op.labelSources,
    sealed,
  })
}
