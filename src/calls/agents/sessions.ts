import { newId } from '../../contract/ids.ts'
import { needsClass } from '../../policy/external-tools.ts'
import type { Label } from '../../policy/types.ts'
import { mostLabels, unionLabels } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { AgentLedger, SessionRecord } from './ledger.ts'
import { withWritten } from './written.ts'

/** The session id is the client's. */
interface SessionKey {
  readonly userId: string
  readonly sessionId: string
  readonly agent: { readonly name: string; readonly kind: string }
}

/**
 * A missing session is made in the organization of the transaction. An ended one becomes live again with its
 * labels. A revoked one stays revoked. `mayAsk` is false if the person may not use agents: then none becomes
 * live.
 */
export function openSession(tx: ChainTx, ledger: AgentLedger, key: SessionKey, mayAsk = true): SessionRecord {
  const now = tx.now.toISOString()
  const known = ledger.session(key.userId, key.sessionId)
  if (known !== undefined) return resume(tx, ledger, known, mayAsk)
  tx.stores(sessionBytes)
  return resume(
    tx,
    ledger,
    ledger.addSession({
      id: newId('session'),
      user_id: key.userId,
      session_id: key.sessionId,
      run_id: newId('run'),
      agent_name: key.agent.name,
      agent_kind: key.agent.kind,
      status: mayAsk ? 'live' : 'ended',
      labels: [],
      label_sources: [],
      unknown_tools: [],
      written: [],
      label_bytes: 0,
      decision_seq: 0,
      allowed: 0,
      held: 0,
      denied: 0,
      started_at: now,
      last_seen_at: now,
      ended_at: mayAsk ? null : now,
    }),
    mayAsk,
  )
}

/** These come in addition to the size of the labels. */
const sessionBytes = 2_048

/** An ended session becomes live again, unless `mayAsk` is false. A revoked session stays revoked. */
export function resume(
  tx: ChainTx,
  ledger: AgentLedger,
  session: SessionRecord,
  mayAsk = true,
): SessionRecord {
  session.last_seen_at = tx.now.toISOString()
  if (session.status === 'ended' && mayAsk) {
    session.status = 'live'
    session.ended_at = null
  }
  ledger.touch(session)
  return session
}

/** A session with more than `mostLabels` does not change, because all its calls are denied. */
export function addLabels(
  tx: Pick<ChainTx, 'stores'>,
  session: SessionRecord,
  labels: readonly Label[],
  tool: string,
): void {
  if (labels.length === 0 || session.labels.length > mostLabels) return
  const sources = new Map(session.label_sources.map(({ label, from }) => [label, from]))
  const added = new Set(labels)
  session.labels = unionLabels(session.labels, labels)
  session.label_sources = session.labels.map((label) => {
    const from = sources.get(label) ?? []
    const isNews = added.has(label) && !from.includes(tool) && from.length < mostSources
    return { label, from: isNews ? [...from, tool] : from }
  })
  recount(tx, session)
}

/** The console and the API show which of these tools nobody has classed. */
export function noteTool(tx: Pick<ChainTx, 'stores'>, session: SessionRecord, tool: string): void {
  const { unknown_tools: noted } = session
  if (!needsClass(tool) || noted.length >= mostUnknownTools || noted.includes(tool)) return
  session.unknown_tools = [...noted, tool]
  recount(tx, session)
}

/** `entries` come from `entriesOf`. */
export function noteWritten(
  tx: Pick<ChainTx, 'stores'>,
  session: SessionRecord,
  entries: readonly string[],
): void {
  if (entries.every((entry) => session.written.includes(entry))) return
  session.written = withWritten(session.written, entries)
  recount(tx, session)
}

/** Each name has at most 200 characters. */
export const mostUnknownTools = 100

function recount(tx: Pick<ChainTx, 'stores'>, session: SessionRecord): void {
  const { labels, label_sources: sources, unknown_tools: tools, written } = session
  const bytes = Buffer.byteLength(JSON.stringify([labels, sources, ...tools, ...written]))
  tx.stores(bytes - session.label_bytes)
  session.label_bytes = bytes
}

export function wouldExceedLabels(labels: readonly Label[], added: readonly Label[]): boolean {
  if (labels.length + added.length <= mostLabels) return false
  return unionLabels(labels, added).length > mostLabels
}

/** This is the number of tools for each label. */
const mostSources = 20
