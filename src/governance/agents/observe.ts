import { sql } from 'kysely'
import type { Context } from '../../context.ts'
import type { ToolAnnotations } from '../../policy/agent-tools.ts'
import { addedLabels } from '../../policy/decide.ts'
import { unionLabels, type JsonObject } from '../../policy/types.ts'
import { senderOf } from '../identity.ts'
import { organizationOf, type Asker } from './ask.ts'
import { classifyIn, readCall } from './classify.ts'
import { loadAgentLedger } from './ledger.ts'
import { callHash } from './same-call.ts'
import { addLabels, openSession } from './sessions.ts'

/** A call that has finished, as the client's post event tells it: its output never leaves the caller's machine. */
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
  /** No decision had allowed it. */
  readonly unapproved: boolean
}

/**
 * Matches a finished call with the decision that allowed it (contract section 7). One that nobody allowed raises
 * `agent.unapproved_call`: in the audit log and on the session, whose labels then hold what the call may have read.
 */
export async function observe(context: Context, asker: Asker, finished: Finished): Promise<Observed> {
  const userId = asker.identity.user.id
  const paramsHash = callHash(finished.tool_name, finished.tool_input)
  const { rows } = await sql<{ run_id: string; labels: string[] }>`
    with call as (
      select d.id, s.run_id, s.labels, o.decision_id is not null as observed
      from decisions d join agent_sessions s on s.id = d.session_id
      left join agent_observations o on o.decision_id = d.id
      where s.user_id = ${userId} and d.params_hash = ${paramsHash} and d.verdict = 'allow'
        and ${
          finished.tool_use_id === undefined
            ? sql`s.session_id = ${finished.session_id} and o.decision_id is null`
            : sql`d.tool_use_id = ${finished.tool_use_id}`
        }
      order by observed, d.seq limit 1
    ), noted as (
      insert into agent_observations (decision_id, outcome)
      select id, ${finished.outcome ?? null}::text from call where not observed
      on conflict do nothing
    )
    select run_id, labels from call`.execute(context.db)
  const [row] = rows
  if (row !== undefined) return { session_run_id: row.run_id, labels: row.labels, unapproved: false }
  return raise(context, asker, finished, paramsHash)
}

async function raise(
  context: Context,
  asker: Asker,
  finished: Finished,
  paramsHash: string,
): Promise<Observed> {
  const { identity, ip } = asker
  const read = readCall(finished.tool_name, finished.tool_input, finished.annotations ?? {})
  const organizationId = await organizationOf(context, identity, finished)
  const raised = await context.combiner.run(organizationId, 'agent.session', async (tx) => {
    const key = {
      userId: identity.user.id,
      sessionId: finished.session_id,
      paramsHash,
      toolUseId: null,
      by: senderOf(identity),
    }
    const ledger = await loadAgentLedger(tx, [key])
    const session = openSession(tx, ledger, { ...key, agent: { name: 'unknown', kind: 'unknown' } })
    const { sideEffect, outputLabels } = classifyIn(read, session.labels, tx.policy.settings)
    const { tool_name: tool, tool_input: params } = finished
    const call = { source: 'agents', tool, sideEffect, params, labels: session.labels } as const
    addLabels(session, unionLabels(outputLabels, addedLabels(tx.policy.compiled, call)), tool)
    ledger.write(tx)
    await sql`update agent_sessions set unapproved = unapproved + 1 where id = ${session.id}`.execute(tx.trx)
    tx.append({
      eventType: 'agent.unapproved_call',
      action: tool,
      status: 'alert',
      actor: { type: 'user', id: identity.user.id, apiKeyId: identity.keyId, ip },
      runId: session.run_id,
      metadata: {
        session_id: session.id,
        side_effect: sideEffect,
        labels: session.labels,
        params_hash: paramsHash,
      },
    })
    return { session_run_id: session.run_id, labels: session.labels, unapproved: true }
  })
  context.metrics.unapprovedCall()
  return raised
}
