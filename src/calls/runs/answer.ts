import { sql } from 'kysely'
import { checkAnswer, type Question } from '../../steps/ask.ts'
import type { Json } from '../../policy/types.ts'
import { effectId, type EffectKey } from '../../contract/ids.ts'
import { actorOf, type Caller } from '../../governance/access/identity.ts'
import { requireThawed } from '../../governance/access/frozen.ts'
import { runAs } from '../../governance/access/recheck.ts'
import { refuseEnded } from '../../governance/approvals/expire.ts'
import { answerApproval, wakeRun } from '../../governance/approvals/moves.ts'
import { readQuestion } from '../../governance/approvals/question.ts'
import { voterRefusal } from '../../governance/approvals/refusals.ts'
import { bestOf, requirementOf } from '../../governance/approvals/requirement.ts'
import { rightsOf } from '../../governance/approvals/rights.ts'
import { withRoles } from '../../governance/approvals/records.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { ChangingRuns } from '../../governance/context.ts'
import { DomainError, notFound } from '../../governance/errors.ts'
import type { Once } from '../../governance/idempotency.ts'
import type { Seal } from '../../governance/sealing/sealer.ts'
import { loadLedger, writeLedger } from './ledger-store.ts'
import type { LockedCall } from './ledger.ts'
import { settle } from './ledger-moves.ts'
import { answerLabels, questionOf, sealedAnswer } from './question.ts'

export interface AnswerRequest {
  readonly caller: Caller
  readonly approvalId: string
  readonly answer: Json
  readonly once?: Once | null
}

/**
 * Answers a question of a run: the answer is the output of its step (commit point `approval.answer`).
 *
 * Throws `not_found`, `bad_transition` for an approval, `approval_already_decided`, `approval_expired`,
 * `not_an_approver`, `conflict` while the organization is frozen, and `validation_error`.
 */
export async function answerQuestion(context: ChangingRuns, request: AnswerRequest): Promise<void> {
  const { caller, approvalId } = request
  const asked = await readQuestion(context, caller.organizationId, approvalId)
  if (asked === null) throw notFound('approval', approvalId)
  if (asked.question === null)
    throw new DomainError(
      'bad_transition',
      `this is no question: decide it with \`POST /approvals/${approvalId}/approve\` or \`reject\``,
    )
  const { key, question } = asked
  const seal = await context.sealer.sealing()
  const refused = await runAs(context, caller, 'approval.answer', async (tx, now) => {
    const ledger = await loadLedger(tx, [key])
    const [run, effect] = [ledger.runs.get(key.runId), ledger.effects.get(effectId(key))]
    if (run === undefined || effect === undefined) throw notFound('approval', approvalId)
    const call = { tx, ledger, run, effect }
    const ended = await answerNow(call, { ...request, key, question, seal, role: (await now()).role })
    if (ended === null) await request.once?.markActed(tx.trx)
    return ended
  })
  // The expiry is committed, so the error is thrown only now.
  if (refused !== null) throw refused
}

interface Answering extends AnswerRequest {
  readonly key: EffectKey
  readonly question: Question
  readonly seal: Seal
  readonly role: Parameters<typeof rightsOf>[2]['role']
}

async function answerNow(call: LockedCall, given: Answering): Promise<DomainError | null> {
  const { tx, ledger } = call
  const { caller, key, question, seal, role } = given
  const approval = questionOf(call)
  if (approval?.id !== given.approvalId) throw notFound('approval', given.approvalId)
  const expired = refuseEnded(tx, approval, question.otherwise !== undefined)
  if (expired !== null) return expired
  const { kind, requested_by, authors } = approval
  const asked = { kind, requested_by, authors, votes: withRoles(approval, ledger) }
  const required = requirementOf(approval, tx.policy.settings)
  const rights = await rightsOf(tx.trx, tx.organizationId, { userId: caller.userId, role }, nowOf(tx))
  const own = bestOf(rights, asked, required)
  const refusal = await voterRefusal(tx.trx, tx.organizationId, own, asked, required)
  if (refusal !== null) throw refusal
  requireThawed(tx)
  const checked = checkAnswer(question, given.answer)
  if (Array.isArray(checked)) throw new DomainError('validation_error', 'the answer does not fit', checked)
  const { answer } = checked
  const output = sealedAnswer(seal, key, { answer, by: caller.email, at: tx.now.toISOString() })
  tx.expects({ bytes: output.bytes })
  answerApproval(call, approval, { actor: actorOf(caller), forUser: own.for_user })
  settle(call, { state: 'completed', output, outputLabels: answerLabels(call) })
  writeLedger(tx, ledger)
  wakeRun(tx, approval, caller.userId)
  return null
}

const nowOf = ({ now }: ChainTx) => sql<Date>`${now}`
