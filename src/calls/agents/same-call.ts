import { canonicalJson, sha256 } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { classifyIn } from './classify.ts'
import type { AgentLedger, PriorDecision, SessionRecord } from './ledger.ts'
import type { AskedCall } from './call.ts'

/*
 * Two questions with the same client id (`tool_use_id`) and input within ten minutes are about one call. But
 * after the call has finished, a question is about a new call.
 */

/** Lower-case hex SHA-256 over `{tool, params}`. */
export function callHash(tool: string, params: unknown): string {
  return hashOfCall(tool, canonicalJson(params))
}

/** Like `callHash`, but the parameters must be canonical JSON already. */
export function hashOfCall(tool: string, canonicalParams: string): string {
  return sha256(`{"params":${canonicalParams},"tool":${canonicalJson(tool)}}`)
}

/**
 * Whether an earlier answer may be returned again. If not, the call is decided again:
 *
 * - A held call is always decided again.
 * - After a change of a rule, policy or setting, every call is decided again.
 * - An allowed call is decided again if its side effect is now another one, or if its adapter reports that the tool's
 *   definition has changed.
 */
export function mayRepeat(
  tx: ChainTx,
  prior: PriorDecision,
  { call }: AskedCall,
  written: readonly string[],
): boolean {
  if (prior.verdict === 'require_approval' || prior.policy_version !== tx.policy.version) return false
  if (prior.verdict === 'deny') return true
  const { sideEffect } = classifyIn(call, prior.labels, tx.policy.settings, written)
  return call.annotations.definitionChanged !== true && sideEffect === prior.side_effect
}

/** Null if there is none, or if the call has finished. */
export function priorOf(ledger: AgentLedger, session: SessionRecord, op: AskedCall): PriorDecision | null {
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

/** The hook has asked before, and the gateway asks now. */
interface SharedCall {
  readonly session: SessionRecord
  readonly prior: PriorDecision
}

/**
 * Finds the hook's decision that allowed the gateway's call. Both sent the same input and client id. The hook
 * names a protocol call `mcp__<gateway>__<server>__<tool>`, the gateway names it `mcp__<server>__<tool>`.
 *
 * Such a call is decided in the hook's session, even if this session has ended or was revoked. An approval
 * there counts for the gateway too.
 */
export function sharedCall(ledger: AgentLedger, op: AskedCall): SharedCall | null {
  if (op.key.toolUseId === null) return null
  const hashAs = hasherOf(op.params)
  for (const prior of ledger.priors(op.key.userId, op.key.toolUseId)) {
    if (prior.observed || prior.verdict !== 'allow') continue
    const session = ledger.sessionById(prior.session_id)
    if (session === undefined) continue
    if (isBehindGateway(prior.tool, op.call.tool) && hashAs(prior.tool) === prior.params_hash)
      return { session, prior }
  }
  return null
}

/** The parameters may be long, so they are serialized only once, and hashed only once for each tool. */
function hasherOf(params: unknown): (tool: string) => string {
  const hashes = new Map<string, string>()
  let canonical: string | undefined
  return (tool) => {
    canonical ??= canonicalJson(params)
    const hash = hashes.get(tool) ?? hashOfCall(tool, canonical)
    hashes.set(tool, hash)
    return hash
  }
}

/** The limit of clients, in characters. The gateway cuts longer names. */
const longestName = 64

/**
 * The hook names a tool `mcp__svc__fs__write`, and the gateway `svc` names it `mcp__fs__write`. A gateway's
 * own name contains no double underscore, so `mcp__svc__x__y__t` is never a tool of a gateway `svc__x`. If a
 * name is too long or already taken, the gateway cuts it and appends the hash of the full name.
 */
function isBehindGateway(seenByHook: string, seenByGateway: string): boolean {
  const inner = /^mcp__(.+)$/.exec(seenByGateway)?.[1]
  const [, prefix, shown] = /^(mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__)(.+)$/.exec(seenByHook) ?? []
  if (inner === undefined || prefix === undefined) return false
  if (shown === inner) return true
  const hash = `_${sha256(inner).slice(0, 8)}`
  const rest = longestName - prefix.length - hash.length
  return rest > 0 && shown === inner.slice(0, rest) + hash
}
