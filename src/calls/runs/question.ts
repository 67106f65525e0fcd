import { unionLabels, type Json, type Label } from '../../policy/types.ts'
import type { HeldDetails } from '../../contract/messages.ts'
import { assessRisk } from '../../policy/risk.ts'
import { seatsOf, seatWords, type HeldSeat } from '../../policy/seats.ts'
import { standIn, type Question } from '../../steps/ask.ts'
import { pendingApproval, requirementFor, type ApprovalRecord } from '../../governance/approvals/records.ts'
import { announceRequest, expireApproval } from '../../governance/approvals/moves.ts'
import { storedSeats } from '../../governance/approvals/requirement.ts'
import { isDue } from '../../governance/approvals/state.ts'
import { outputBinding } from '../../governance/sealing/bindings.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import type { Seal } from '../../governance/sealing/sealer.ts'
import type { EffectKey } from '../../contract/ids.ts'
import type { LockedCall } from './ledger.ts'
import { runActor, stepEvent, updateRunStatus } from './ledger-moves.ts'
import { countStoredBytes } from './storage-limit.ts'

/*
 * A step that asks a person (`run: { as: 'ask' }`). Its row of `approvals` has the seats, the messages, the expiry and
 * the place in the inbox. It is never an approval (docs/decisions/0289): only an answer (answer.ts) or its expiry ends
 * the step.
 */

/** What a person is asked. It was read and sealed before the lock. */
export interface Asked {
  readonly question: Question
  /** Null: `to` names a group. */
  readonly person: { readonly email: string; readonly id: string } | null
  /** Why the person cannot be asked. */
  readonly problem: string | null
  /** The values of `show`. */
  readonly sealed: Buffer
  readonly seal: Seal
  /** Until it expires, unless the step says so. 0: never. */
  readonly expiresAfterSeconds: number
}

type Standing =
  | ({ readonly kind: 'waits' } & HeldDetails)
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'expired' }

/** The question that the step has asked. Undefined: none yet. */
export const questionOf = ({ ledger, effect }: LockedCall): ApprovalRecord | undefined =>
  effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)

/** Whether the step only waits on: nobody has answered, and it has time. */
export const waitsOn = (call: LockedCall): Extract<Standing, { kind: 'waits' }> | null => {
  const asked = questionOf(call)
  return asked?.status === 'pending' && !isDue(asked, call.tx.now) ? waiting(asked) : null
}

const waiting = ({ id, expires_at }: ApprovalRecord): Extract<Standing, { kind: 'waits' }> => ({
  kind: 'waits',
  waitsFor: 'answer',
  approvalId: id,
  expiresAt: expires_at,
})

export function askOrEnd(call: LockedCall, asked: Asked): Standing {
  const known = questionOf(call)
  if (known === undefined) return askNow(call, asked)
  if (isDue(known, call.tx.now)) {
    expireApproval(call, known, { actor: runActor(call.run), runId: call.run.id })
    return { kind: 'expired' }
  }
  if (known.status === 'pending') return waiting(known)
  return { kind: known.status === 'expired' ? 'expired' : 'cancelled' }
}

function askNow(call: LockedCall, asked: Asked): Standing {
  const { tx, ledger, run, effect } = call
  if (asked.problem !== null) return { kind: 'failed', reason: asked.problem }
  const { question, sealed } = asked
  tx.expects({ bytes: sealed.length, approvals: 1 })
  const record = pendingApproval(
    tx,
    {
      kind: 'ask',
      run_id: run.id,
      workflow_id: run.workflow_id,
      step_id: effect.step_id,
      item_index: effect.item_index < 0 ? null : effect.item_index,
      session_id: null,
      requested_by: run.requested_by,
      // Those who wrote the question may answer it.
      authors: [],
      params_hash: null,
      labels: effect.labels,
      rule_name: null,
      decision_id: null,
    },
    { seats: seatsFor(call, asked), needed: 1 },
    {
      expiresAfterSeconds: question.expires_after_seconds ?? asked.expiresAfterSeconds,
      remindAfterSeconds: question.remind_after_seconds ?? null,
    },
  )
  const approval = {
    record,
    sealed,
    state: null,
    tool: null,
    title: question.title,
    side_effect: null,
    destination: null,
    rule_id: null,
    risk: assessRisk([]),
  }
  ledger.addApproval(approval)
  countStoredBytes(call, sealed.length)
  run.waiting += 1
  effect.state = 'held'
  effect.approval_id = record.id
  ledger.touchEffect(effect)
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    step.status = 'held'
    step.started_at ??= tx.now.toISOString()
    ledger.dirtySteps.add(step)
  }
  stepEvent(tx, effect, 'step.held', { approval_id: record.id })
  announceRequest(tx, approval, { actor: runActor(run), runId: run.id })
  updateRunStatus(call, `step \`${effect.step_id}\` waits for an answer of ${seatWords(storedSeats(record))}`)
  return waiting(record)
}

/** With the groups that have these names now. */
function seatsFor({ tx }: LockedCall, { question, person }: Asked): readonly HeldSeat[] {
  const { to, escalate } = question
  const group = typeof to === 'object' && 'group' in to ? to.group : ''
  const { settings, groups } = tx.policy
  // One person is enough, whatever the threshold of approvals is.
  const policy = { groups, settings: { ...settings, approval_threshold: 1 } }
  const { seats } = requirementFor(seatsOf({ approver: { group }, escalate }), policy, tx.now)
  if (person === null) return seats
  const { email, id } = person
  return seats.map(({ count, also }) => ({
    person: email,
    id,
    count,
    ...(also === undefined ? {} : { also }),
  }))
}

export const sealedAnswer = (
  seal: Seal,
  key: EffectKey,
  output: { readonly answer: Json; readonly by: string | null; readonly at: string },
): SealedText => {
  const text = JSON.stringify(output)
  return { sealed: seal(outputBinding(key), text), bytes: Buffer.byteLength(text) }
}

/** The output if nobody answered in time. Undefined: nothing stands in for an answer. */
export function otherwiseOf(
  call: LockedCall,
  key: EffectKey,
  { question, seal }: Asked,
): SealedText | undefined {
  const answer = standIn(question)
  if (answer === null) return undefined
  const at = questionOf(call)?.expires_at ?? call.tx.now.toISOString()
  return sealedAnswer(seal, key, { answer, by: null, at: new Date(at).toISOString() })
}

/** Answers are texts of people, so they are untrusted like all others, unless the settings say otherwise. */
export const answerLabels = ({ tx, effect }: LockedCall): Label[] =>
  unionLabels(effect.labels, tx.policy.settings.trust_answers ? [] : ['untrusted'])
