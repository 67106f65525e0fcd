import { canonicalJson, sha256 } from '../canonical.ts'
import type { ChainTx } from '../chain-tx.ts'
import { classifyIn } from './classify.ts'
import type { AgentLedger, PriorDecision, SessionRecord } from './ledger.ts'
import type { AuthorizeOp } from './question.ts'

/*
 * Whether two questions are about one call. A client gives each call an id (`tool_use_id`); for some minutes, and until
 * the call is seen to finish, a question with the same id and the same input is the same call asked about again.
 */

/** What identifies a call's content: lower-case hex SHA-256 over `{tool, params}` (contract section 6). */
export function callHash(tool: string, params: unknown): string {
  return hashOfCall(tool, canonicalJson(params))
}

/** The same, of parameters that are canonical JSON already. */
export function hashOfCall(tool: string, canonicalParams: string): string {
  return sha256(`{"params":${canonicalParams},"tool":${canonicalJson(tool)}}`)
}

/**
 * Whether a recorded answer is given again. Only while nothing has changed that it was decided on: after a rule, policy or
 * setting was saved the call is decided anew, and so is an allowed one that its adapter now calls stricter.
 */
export function stillStands(tx: ChainTx, prior: PriorDecision, { call }: AuthorizeOp): boolean {
  if (prior.verdict === 'require_approval' || prior.policy_version !== tx.policy.version) return false
  if (prior.verdict === 'deny') return true
  const { sideEffect } = classifyIn(call, prior.labels, tx.policy.settings)
  return call.annotations.definitionChanged !== true && sideEffect === prior.side_effect
}

/** The newest decision on this call in this session, if the call has not been seen to finish. */
export function priorOf(ledger: AgentLedger, session: SessionRecord, op: AuthorizeOp): PriorDecision | null {
  if (op.key.toolUseId === null) return null
  const prior = ledger
    .priors(op.key.userId, op.key.toolUseId)
    .find(
      (each) =>
        each.session_id === session.id &&
        each.tool === op.call.tool &&
        each.params_hash === op.key.paramsHash,
    )
  return prior === undefined || prior.observed ? null : prior
}

/** A call that another adapter of the same person has asked about: the hook before, the gateway now. */
export interface SharedCall {
  readonly session: SessionRecord
  readonly prior: PriorDecision
}

/**
 * The hook sees a protocol call as `mcp__<gateway>__<server>__<tool>`, the gateway behind it as `mcp__<server>__<tool>`,
 * in a session of its own or in the same. With the same client id and input it is one call: decided in the hook's session,
 * whatever has become of that, and covered by the approval that let it through there.
 */
export function sharedCall(ledger: AgentLedger, op: AuthorizeOp): SharedCall | null {
  if (op.key.toolUseId === null) return null
  for (const prior of ledger.priors(op.key.userId, op.key.toolUseId)) {
    if (prior.observed || prior.verdict !== 'allow') continue
    const session = ledger.sessionById(prior.session_id)
    if (session === undefined) continue
    if (isBehindGateway(prior.tool, op.call.tool) && callHash(prior.tool, op.params) === prior.params_hash)
      return { session, prior }
  }
  return null
}

/** What clients take of a tool's name in all, and so what the gateway cuts at. */
const longestName = 64

/**
 * Whether the gateway itself shows a tool so: `mcp__svc__fs__write` in front of `mcp__fs__write`. Its own name has no two
 * underscores together: `mcp__svc__x__y__t` is another server's tool than `mcp__y__t`. A name too long for clients, or
 * one that is taken, is cut and ends in its hash.
 */
function isBehindGateway(seenByHook: string, seenByGateway: string): boolean {
  const inner = /^mcp__(.+)$/.exec(seenByGateway)?.[1]
  const [, prefix, shown] = /^(mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__)(.+)$/.exec(seenByHook) ?? []
  if (inner === undefined || prefix === undefined) return false
  if (shown === inner) return true
  const hash = `_${sha256(inner).slice(0, 8)}`
  const room = longestName - prefix.length - hash.length
  return room > 0 && shown === inner.slice(0, room) + hash
}
