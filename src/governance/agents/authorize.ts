import { newId } from '../../contract/ids.ts'
import { addedLabels, decide, refused, type Call, type Decided } from '../../policy/decide.ts'
import { mostLabels, tooManyLabels, unionLabels, type Label } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { BatchKind } from '../combiner.ts'
import { addressNotConfirmed } from '../people/address-proof.ts'
import { hasRole } from '../scopes.ts'
import { classifyIn, nobodysPath } from './classify.ts'
import { useHeldCall, withdrawHeld } from './held-call.ts'
import { loadAgentLedger, type AgentLedger, type PriorDecision, type SessionRecord } from './ledger.ts'
import type { AuthorizeOp, Judged, Question } from './question.ts'
import { storageOver } from '../quotas/storage.ts'
import { addLabels, goOn, openSession, wouldHaveTooMany } from './sessions.ts'
import { withoutRoom, type AgentDecision } from './unrecorded.ts'
import { priorOf, sharedCall, stillStands } from './same-call.ts'

/** The reason of a denial because the key or session that asks has ended meanwhile, or lost its scope. */
export const keyEnded = 'key ended'

/**
 * Decides agents' calls, in order, under the chain lock; commit point `agent.decide`. Labels that a call adds are there
 * for the next one of the same batch.
 */
export const authorizeCalls: BatchKind<AuthorizeOp, AgentLedger, AgentDecision> = {
  point: 'agent.decide',
  load: (reader, ops) =>
    loadAgentLedger(
      reader,
      ops.map((op) => op.key),
    ),
  weight: (op) => op.weight,
  apply: authorizeCall,
  write: (tx, ledger) => ledger.write(tx),
}

function authorizeCall(tx: ChainTx, ledger: AgentLedger, op: AuthorizeOp): AgentDecision {
  const full = storageOver(tx)
  if (full !== null) return withoutRoom(tx, full, op)
  const shared = sharedCall(ledger, op)
  const session =
    shared === null
      ? openSession(tx, ledger, { ...op.key, agent: op.agent })
      : goOn(tx, ledger, shared.session)
  const asking = ledger.session(op.key.userId, op.key.sessionId) ?? session
  const refusal = refusalOf(tx, ledger, [session, asking], op)
  const answered = priorOf(ledger, session, op)
  // What comes back passes both adapters' sessions: the gateway asks in its own, too, without the hook.
  const carry = (labels: readonly Label[]): void => {
    addLabels(tx, session, labels, op.call.tool)
    if (shared !== null && labels.length > 0)
      addLabels(tx, openSession(tx, ledger, { ...op.key, agent: op.agent }), labels, op.call.tool)
  }
  const hasNoRoomFor = (labels: readonly Label[]): boolean =>
    [session, asking].some((each) => wouldHaveTooMany(each.labels, labels))
  if (refusal === null && answered !== null && stillStands(tx, answered, op)) {
    if (answered.verdict !== 'allow') return answerAgain(session, answered)
    // Its adapter may have said meanwhile that it reads more.
    const more = classifyIn(op.call, answered.labels, tx.policy.settings).outputLabels
    if (!hasNoRoomFor(more)) {
      carry(more)
      return answerAgain(session, answered)
    }
  }

  const earlier = answered?.verdict === 'allow' ? answered : (shared?.prior ?? answered)
  const held = earlier?.verdict === 'allow' ? earlier.labels : session.labels
  // The gateway's own session has seen what went through it alone: that stays with its calls.
  const labels = asking === session ? held : unionLabels(held, asking.labels)
  const { sideEffect, outputLabels, words } = classifyIn(op.call, labels, tx.policy.settings)
  const call: Call = {
    source: 'agents',
    tool: op.call.tool,
    sideEffect,
    params: op.call.params ?? {},
    labels,
  }
  const question: Question = { op, session, earlier, sideEffect, labels }
  const byRules = refusal ?? blockedBy(tx, ledger, question) ?? decide(tx.policy.compiled, call)
  const brings =
    byRules.verdict === 'deny' ? [] : unionLabels(outputLabels, addedLabels(tx.policy.compiled, call))
  const isTooMany = labels.length > mostLabels || hasNoRoomFor(brings)
  const decided = byRules.verdict !== 'deny' && isTooMany ? tooMany : byRules
  const judged = explained(judge(tx, ledger, question, decided), words)
  const answer = record(tx, ledger, question, judged)
  // When it is allowed, not when it is seen to finish: calls run side by side, and none may slip between.
  if (judged.verdict === 'allow') carry(brings)
  return answer
}

const tooMany = refused(
  'too many labels',
  `${tooManyLabels('With this call the session would carry')}: start a new session.`,
)

/** Why this person or session may not ask at all, whatever the call. */
function refusalOf(
  tx: ChainTx,
  ledger: AgentLedger,
  sessions: readonly SessionRecord[],
  op: AuthorizeOp,
): Decided | null {
  if (!ledger.valid.has(op.key.by))
    return refused(
      keyEnded,
      'The key or session that asks has ended or lost its scope: nothing it asks for is allowed any more.',
    )
  if (tx.policy.frozen !== null)
    return decide(tx.policy.compiled, {
      source: 'agents',
      tool: op.call.tool,
      sideEffect: 'write',
      params: {},
      labels: [],
    })
  if (sessions.some(({ status }) => status === 'revoked'))
    return refused(
      'session revoked',
      'This agent session was revoked: nothing it asks for is allowed any more.',
    )
  if (op.named !== null && op.named !== tx.organizationId)
    return refused(
      'wrong organization',
      'The call names another organization than the one its session belongs to: start a new session for it.',
    )
  const role = ledger.roles.get(op.key.userId)
  if (role === undefined)
    return refused('not a member', 'The person this agent acts for is not a member of the organization.')
  if (op.mustBeConfirmed && !ledger.confirmed.has(op.key.userId))
    return refused(
      addressNotConfirmed,
      'The person this agent acts for has not confirmed their mail address: the mail to it has the link.',
    )
  if (hasRole(role, 'member')) return null
  return refused(
    'role may not ask',
    `The person this agent acts for is only a ${role}: agents need \`member\`.`,
  )
}

function blockedBy(tx: ChainTx, ledger: AgentLedger, { op, sideEffect }: Question): Decided | null {
  if (op.call.annotations.definitionChanged === true)
    return refused(
      'tool changed',
      'The tool’s description or parameters are no longer those that this session was first shown: start a new session once somebody has looked at them.',
    )
  if (op.call.params === null) return nobodysPath
  const role = ledger.roles.get(op.key.userId) ?? 'viewer'
  const blocked = tx.policy.toolAccess.blocks(op.call.tool, role, sideEffect)
  return blocked === null ? null : refused(blocked.reason, blocked.explanation)
}

function judge(tx: ChainTx, ledger: AgentLedger, question: Question, decided: Decided): Judged {
  if (decided.verdict === 'require_approval') return useHeldCall(tx, ledger, question, decided)
  // Nobody needs to decide what no rule holds any more.
  if (decided.verdict === 'allow') withdrawHeld(tx, ledger, question)
  return { ...decided, approvalId: null, expiresAt: null }
}

/** Why a command counts as egress is part of why a rule on egress held or denied it. */
function explained(judged: Judged, words: string): Judged {
  return judged.verdict === 'allow' ? judged : { ...judged, explanation: `${judged.explanation}${words}` }
}

/** Writes the decision and its audit entry. */
function record(tx: ChainTx, ledger: AgentLedger, question: Question, judged: Judged): AgentDecision {
  const { op, session, sideEffect } = question
  const labels = [...question.labels]
  const id = newId('decision')
  session.decision_seq += 1
  session[{ allow: 'allowed', require_approval: 'held', deny: 'denied' }[judged.verdict] as Counter] += 1
  const { toolUseId, paramsHash } = op.key
  const common = {
    tool: op.call.tool,
    side_effect: sideEffect,
    verdict: judged.verdict,
    rule_name: judged.ruleName,
    reason: judged.reason,
    explanation: judged.explanation,
    labels,
    params_hash: paramsHash,
    approval_id: judged.approvalId,
    policy_version: tx.policy.version,
  }
  ledger.newDecisions.push({
    ...common,
    id,
    organization_id: tx.organizationId,
    run_id: session.run_id,
    seq: session.decision_seq,
    step_id: null,
    item_index: null,
    attempt: 0,
    rule_id: judged.ruleId,
    matched_rules: judged.matchedRules,
    label_sources: session.label_sources,
    decided_at: tx.now,
    session_id: session.id,
    tool_use_id: toolUseId,
    requested_by: op.key.userId,
  })
  if (toolUseId !== null)
    ledger.addPrior({
      ...common,
      id,
      session_id: session.id,
      tool_use_id: toolUseId,
      decided_at: tx.now.toISOString(),
      observed: false,
    })
  tx.append({
    eventType: 'agent_call.decided',
    action: op.call.tool,
    status: judged.verdict,
    actor: op.actor,
    runId: session.run_id,
    metadata: {
      decision_id: id,
      session_id: session.id,
      side_effect: sideEffect,
      reason: judged.reason,
      rule_id: judged.ruleId,
      rule_name: judged.ruleName,
      labels,
      params_hash: paramsHash,
      approval_id: judged.approvalId,
    },
  })
  return {
    decision: judged.verdict,
    reason: judged.reason,
    explanation: judged.explanation,
    decision_id: id,
    session_run_id: session.run_id,
    labels,
    side_effect: sideEffect,
    rule_name: judged.ruleName,
    ...(judged.verdict === 'require_approval' && judged.approvalId !== null
      ? { approval_id: judged.approvalId, expires_at: judged.expiresAt }
      : {}),
  }
}

type Counter = 'allowed' | 'held' | 'denied'

function answerAgain(session: SessionRecord, prior: PriorDecision): AgentDecision {
  return {
    decision: prior.verdict,
    reason: prior.reason,
    explanation: prior.explanation,
    decision_id: prior.id,
    session_run_id: session.run_id,
    labels: prior.labels,
    side_effect: prior.side_effect,
    rule_name: prior.rule_name,
  }
}
