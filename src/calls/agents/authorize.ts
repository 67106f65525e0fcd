import { newId } from '../../contract/ids.ts'
import { addedLabels, decide, refused, type Call, type Decided } from '../../policy/decide.ts'
import { mostLabels, tooManyLabels, unionLabels, type Label, type SideEffect } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { BatchKind } from '../../governance/audit/lane-transactions.ts'
import { addressNotConfirmed } from '../../governance/access/address-proof.ts'
import { hasRole } from '../../governance/access/scopes.ts'
import { refusalOfRole } from '../../governance/access/recheck.ts'
import { classifyIn, pathAboveRoot } from './classify.ts'
import { useHeldCall } from './held-call.ts'
import { loadAgentLedger, type AgentLedger, type PriorDecision, type SessionRecord } from './ledger.ts'
import {
  type AskedCall,
  type DecidedCall,
  type LockedCall,
  denyOverStorageLimit,
  unrecorded,
  type AgentDecision,
} from './call.ts'
import { storageOver } from '../../governance/limits/storage.ts'
import { addLabels, noteTool, noteWritten, openSession, resume, wouldExceedLabels } from './sessions.ts'
import { priorOf, sharedCall, mayRepeat } from './same-call.ts'

/** The asking key or sign-in session has ended, or has lost its scope. */
export const keyEnded = 'key ended'

/**
 * Decides in order, under the chain lock (commit point `agent.decide`). Labels that a call adds to a session
 * count for the session's next calls in the batch.
 */
export const authorizeCalls: BatchKind<AskedCall, AgentLedger, AgentDecision> = {
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

function authorizeCall(tx: ChainTx, ledger: AgentLedger, op: AskedCall): AgentDecision {
  const full = storageOver(tx)
  if (full !== null) return denyOverStorageLimit(tx, full, op)
  const shared = sharedCall(ledger, op)
  const role = ledger.roles.get(op.key.userId)
  if (role === undefined && shared === null && ledger.session(op.key.userId, op.key.sessionId) === undefined)
    return denyStranger(tx, ledger, op)
  const mayAsk = role !== undefined && hasRole(role, 'member')
  const session =
    shared === null
      ? openSession(tx, ledger, { ...op.key, agent: op.agent }, mayAsk)
      : resume(tx, ledger, shared.session, mayAsk)
  const asking = ledger.session(op.key.userId, op.key.sessionId) ?? session
  const refusal = refusalOf(tx, ledger, [session, asking], op)
  const answered = priorOf(ledger, session, op)
  // The hook and the gateway may ask about one call in two sessions. Its result reaches both.
  const carry = (labels: readonly Label[]): void => {
    addLabels(tx, session, labels, op.call.tool)
    if (shared !== null && labels.length > 0)
      addLabels(tx, openSession(tx, ledger, { ...op.key, agent: op.agent }), labels, op.call.tool)
  }
  const hasNoRoomFor = (labels: readonly Label[]): boolean =>
    [session, asking].some((each) => wouldExceedLabels(each.labels, labels))
  if (refusal === null && answered !== null && mayRepeat(tx, answered, op, session.written)) {
    if (answered.verdict !== 'allow') return answerAgain(session, answered)
    // The call was allowed before, but annotations that the adapter has sent since then may add labels.
    const more = classifyIn(op.call, answered.labels, tx.policy.settings).outputLabels
    if (!hasNoRoomFor(more)) {
      carry(more)
      return answerAgain(session, answered)
    }
  }

  const earlier = answered?.verdict === 'allow' ? answered : (shared?.prior ?? answered)
  const held = earlier?.verdict === 'allow' ? earlier.labels : session.labels
  // If the hook and the gateway ask in two sessions, `asking` is the gateway's. The call goes through both.
  const labels = asking === session ? held : unionLabels(held, asking.labels)
  const { sideEffect, outputLabels, words } = classifyIn(op.call, labels, tx.policy.settings, [
    ...session.written,
    ...asking.written,
  ])
  const locked: LockedCall = {
    tx,
    ledger,
    op,
    session,
    earlier,
    sideEffect,
    labels,
    decisionId: newId('decision'),
  }
  const needsRule = ledger.narrow.has(op.key.by) || tx.policy.needRule.has(op.key.userId)
  const call = { ...callOf(op, sideEffect, labels), needsRule }
  const byRules = refusal ?? blockedBy(locked) ?? decide(tx.policy.compiled, call)
  const brings =
    byRules.verdict === 'deny' ? [] : unionLabels(outputLabels, addedLabels(tx.policy.compiled, call))
  const isTooMany = labels.length > mostLabels || hasNoRoomFor(brings)
  const decided = byRules.verdict !== 'deny' && isTooMany ? tooMany : byRules
  const judged = explained(useHeldCall(locked, decided), words)
  const answer = recordDecision(locked, judged)
  // The session gets the labels now, because other calls at the same time must not be decided without them.
  if (judged.verdict === 'allow') {
    carry(brings)
    noteWritten(tx, session, op.call.writes)
  }
  return answer
}

/** The rules see the call like this. */
const callOf = ({ call }: AskedCall, sideEffect: SideEffect, labels: readonly Label[]): Call => ({
  source: 'agents',
  tool: call.tool,
  sideEffect,
  params: call.params ?? {},
  labels,
})

const tooMany = refused(
  'too many labels',
  `${tooManyLabels('With this call the session would carry')}: start a new session.`,
)

/** The denial is not stored. Otherwise a person who has left could open any number of sessions. */
function denyStranger(tx: ChainTx, ledger: AgentLedger, op: AskedCall): AgentDecision {
  const { reason, explanation } = refusalOf(tx, ledger, [], op) ?? notMember
  return unrecorded(reason, explanation)
}

const notMember = refused(
  'not a member',
  'The person this agent acts for is not a member of the organization.',
)

/** Returns null if this person, key and agent session may make calls. */
function refusalOf(
  tx: ChainTx,
  ledger: AgentLedger,
  sessions: readonly SessionRecord[],
  op: AskedCall,
): Decided | null {
  if (!ledger.valid.has(op.key.by))
    return refused(
      keyEnded,
      'The key or session that asks has ended or lost its scope: it can make no more calls.',
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
    return refused('session revoked', 'This agent session was revoked: it can make no more calls.')
  if (op.named !== null && op.named !== tx.organizationId)
    return refused(
      'wrong organization',
      `This session belongs to \`${tx.organizationId}\`, but the call names another organization: check \`SERVICE_ORG_ID\` (the field \`organization_id\`), and whether the agent’s person is a member of that organization. After a change, start a new session.`,
    )
  const role = ledger.roles.get(op.key.userId)
  if (role === undefined) return notMember
  if (op.mustBeConfirmed && !ledger.confirmed.has(op.key.userId))
    return refused(
      addressNotConfirmed,
      'The person this agent acts for has not confirmed their mail address: use the link in the mail.',
    )
  return refusalOfRole('agents', role)
}

function blockedBy({ tx, ledger, op, sideEffect }: LockedCall): Decided | null {
  if (op.call.annotations.definitionChanged === true)
    return refused(
      'tool changed',
      'The tool’s description or parameters have changed since the session began: let a person check them, then start a new session.',
    )
  if (op.call.params === null) return pathAboveRoot
  const role = ledger.roles.get(op.key.userId) ?? 'viewer'
  const blocked = tx.policy.toolAccess
    .of(op.key.userId)
    .refusal({ tool: op.call.tool, role, sideEffect, params: null })
  return blocked === null ? null : refused(blocked.reason, blocked.explanation)
}

/** `words` says why the command counts as egress, and is empty for other calls. */
function explained(judged: DecidedCall, words: string): DecidedCall {
  return judged.verdict === 'allow' ? judged : { ...judged, explanation: `${judged.explanation}${words}` }
}

/** The decision is also counted in the session. */
function recordDecision(locked: LockedCall, judged: DecidedCall): AgentDecision {
  const { tx, ledger, op, session, sideEffect, decisionId: id } = locked
  const labels = [...locked.labels]
  session.decision_seq += 1
  noteTool(tx, session, op.call.tool)
  session[{ allow: 'allowed', require_approval: 'held', deny: 'denied' }[judged.verdict] as Counter] += 1
  const { toolUseId, paramsHash } = op.key
  const common = {
    tool: op.call.tool,
    side_effect: sideEffect,
    destination: null,
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
    input_hash: op.inputHash,
    requested_by: op.key.userId,
  })
  if (judged.approvalId === null) keepInput(locked, id)
  if (toolUseId !== null)
    ledger.addPrior({
      ...common,
      id,
      session_id: session.id,
      tool_use_id: toolUseId,
      decided_at: tx.now.toISOString(),
      observed: false,
    })
  appendDecided(locked, judged, id)
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

/** A larger input is not kept for backtests. */
const mostKeptBytes = 16 * 1024
/** The last part of `storage_mb` is left to what must be stored: over it, every call would be denied. */
const mostUsed = 0.8

/** For backtests. The approval of a held call has its input already. */
function keepInput({ tx, ledger, op }: LockedCall, decisionId: string): void {
  if (tx.policy.settings.keep_decision_params !== 'all' || Buffer.byteLength(op.input) > mostKeptBytes) return
  if (tx.storedBytes > mostUsed * tx.policy.limits.storage_mb * 1024 ** 2) return
  ledger.keep(decisionId, op)
}

function appendDecided(
  { tx, op, session, sideEffect, labels }: LockedCall,
  judged: DecidedCall,
  id: string,
): void {
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
      labels: [...labels],
      params_hash: op.key.paramsHash,
      approval_id: judged.approvalId,
    },
  })
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
