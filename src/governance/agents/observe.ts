import { sql } from 'kysely'
import { type DecidedCall, noteOutcomeOfId, noteOutcomeOfOldest } from '../../db/queries/agents.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import type { ToolAnnotations } from '../../policy/agent-tools.ts'
import { addedLabels } from '../../policy/decide.ts'
import { unionLabels, type JsonObject } from '../../policy/types.ts'
import { DomainError, notFound } from '../errors.ts'
import { actorOf, senderOf } from '../access/identity.ts'
import { quotaExceeded } from '../limits/run-quota.ts'
import { storageOver } from '../limits/storage.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { callerIn, organizationOf, type Asker } from '../../calls/agents/ask.ts'
import { classifyIn, readCall } from '../../calls/agents/classify.ts'
import { loadAgentLedger } from '../../calls/agents/ledger.ts'
import { callHash } from '../../calls/agents/same-call.ts'
import { addLabels, noteTool, noteWritten, openSession } from '../../calls/agents/sessions.ts'

/** As the agent's client reports it. The call's output never leaves the caller's machine. */
export interface Finished {
  readonly session_id: string
  readonly tool_name: string
  readonly tool_input: JsonObject
  readonly tool_use_id?: string | undefined
  readonly outcome?: 'ok' | 'error' | undefined
  readonly annotations?: ToolAnnotations | undefined
}

export interface Observed {
  readonly session_run_id: string
  readonly labels: readonly string[]
  /** True if no decision allowed the call. */
  readonly unapproved: boolean
}

type Observing = Acting & Pick<Context, 'agentSessions' | 'db' | 'metrics'>

/**
 * A call that no decision allowed is counted, recorded as `agent.unapproved_call`, and adds the labels of the
 * data that it may have read. Throws `not_found`, `insufficient_role`, or `quota_exceeded` if a new session
 * would exceed `storage_mb`; then nothing is written.
 */
export async function observe(context: Observing, asker: Asker, finished: Finished): Promise<Observed> {
  const paramsHash = callHash(finished.tool_name, finished.tool_input)
  const { user } = asker.identity
  const allowed =
    finished.tool_use_id === undefined
      ? await someAllowed(context.db, user.id, paramsHash, finished)
      : await lastAnswered(context.db, user.id, paramsHash, finished.tool_use_id, finished)
  if (allowed !== null) return { session_run_id: allowed.run_id, labels: allowed.labels, unapproved: false }
  return raise(context, asker, finished, paramsHash)
}

/**
 * For a call with an id: the newest decision in its own session, or else in the person's other sessions, e.g.
 * the hook's. Null if it did not allow the call. Each report marks all decisions that allowed the call, so a
 * later question with this id is about a new call; without one, a second report is about the same call.
 */
async function lastAnswered(
  db: Db,
  userId: string,
  paramsHash: string,
  toolUseId: string,
  { session_id, outcome }: Finished,
): Promise<DecidedCall | null> {
  const { rows } = await noteOutcomeOfId(
    { userId, sessionId: session_id, paramsHash, outcome: outcome ?? null },
    toolUseId,
  ).execute(db)
  const [last] = rows
  return last?.verdict === 'allow' ? last : null
}

/** For a call without an id. Each decision allows one finished call, so the oldest unused one is taken. */
async function someAllowed(
  db: Db,
  userId: string,
  paramsHash: string,
  { session_id, outcome }: Finished,
): Promise<DecidedCall | null> {
  for (;;) {
    const { rows } = await noteOutcomeOfOldest({
      userId,
      sessionId: session_id,
      paramsHash,
      outcome: outcome ?? null,
    }).execute(db)
    const [row] = rows
    if (row === undefined) return null
    // If `noted` is false, another call that finished at the same moment has used this decision: try the next decision.
    if (row.noted) return row
  }
}

async function raise(
  context: Observing,
  asker: Asker,
  finished: Finished,
  paramsHash: string,
): Promise<Observed> {
  const { identity } = asker
  const read = readCall(finished.tool_name, finished.tool_input, finished.annotations ?? {})
  const organizationId = await organizationOf(context, identity, finished)
  if (organizationId === '') throw notFound('agent session', finished.session_id)
  const caller = callerIn(asker, organizationId)
  const raised = await runAs(context, caller, 'agent.session', async (tx) => {
    const key = {
      userId: identity.user.id,
      sessionId: finished.session_id,
      paramsHash,
      toolUseId: null,
      by: senderOf(identity),
    }
    const ledger = await loadAgentLedger(tx, [key])
    const over = storageOver(tx)
    // Over the storage limit, no session is opened. An existing session still counts the call.
    if (over !== null && ledger.session(key.userId, key.sessionId) === undefined) return quotaExceeded(over)
    const session = openSession(tx, ledger, { ...key, agent: { name: 'unknown', kind: 'unknown' } })
    const { sideEffect, outputLabels } = classifyIn(read, session.labels, tx.policy.settings, session.written)
    const { tool_name: tool, tool_input: given } = finished
    const params = read.params ?? given
    const call = { source: 'agents', tool, sideEffect, params, labels: session.labels } as const
    addLabels(tx, session, unionLabels(outputLabels, addedLabels(tx.policy.compiled, call)), tool)
    noteTool(tx, session, tool)
    noteWritten(tx, session, read.writes)
    ledger.write(tx)
    await sql`update agent_sessions set unapproved = unapproved + 1 where id = ${session.id}`.execute(tx.trx)
    if (over === null)
      tx.append({
        eventType: 'agent.unapproved_call',
        action: tool,
        status: 'alert',
        actor: actorOf(caller),
        runId: session.run_id,
        metadata: {
          session_id: session.id,
          side_effect: sideEffect,
          labels: session.labels,
          params_hash: paramsHash,
        },
      })
    if (over === null) tx.publish('agent.unapproved_call', { session_id: session.id, tool })
    return { session_run_id: session.run_id, labels: session.labels, unapproved: true }
  })
  context.metrics.unapprovedCalls.inc()
  if (raised instanceof DomainError) throw raised
  return raised
}
