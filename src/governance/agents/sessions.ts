import { newId } from '../../contract/ids.ts'
import type { Label } from '../../policy/types.ts'
import { mostLabels, unionLabels } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { AgentLedger, SessionRecord } from './ledger.ts'

/** Who asks, and in which of their sessions. */
export interface SessionKey {
  readonly userId: string
  readonly sessionId: string
  readonly agent: { readonly name: string; readonly kind: string }
}

/**
 * The session a call belongs to, live from now on unless it was revoked: after its end the next call opens it again with
 * the labels it had (contract section 7). A new one is bound to the organization of the transaction.
 */
export function openSession(tx: ChainTx, ledger: AgentLedger, key: SessionKey): SessionRecord {
  const now = tx.now.toISOString()
  const known = ledger.session(key.userId, key.sessionId)
  if (known !== undefined) return goOn(tx, ledger, known)
  tx.stores(sessionBytes)
  return goOn(
    tx,
    ledger,
    ledger.addSession({
      id: newId('session'),
      user_id: key.userId,
      session_id: key.sessionId,
      run_id: newId('run'),
      agent_name: key.agent.name,
      agent_kind: key.agent.kind,
      status: 'live',
      labels: [],
      label_sources: [],
      label_bytes: 0,
      decision_seq: 0,
      allowed: 0,
      held: 0,
      denied: 0,
      started_at: now,
      last_seen_at: now,
      ended_at: null,
    }),
  )
}

/** What a session counts for beside its labels. */
const sessionBytes = 2_048

/** Something is asked in the session: it is live, unless it was revoked. */
export function goOn(tx: ChainTx, ledger: AgentLedger, session: SessionRecord): SessionRecord {
  session.last_seen_at = tx.now.toISOString()
  if (session.status === 'ended') {
    session.status = 'live'
    session.ended_at = null
  }
  ledger.touch(session)
  return session
}

/**
 * Lets labels join the session, with the tool that brought them: every later call carries them. A session with more than
 * `mostLabels` stays as it is: all its calls are denied.
 */
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
  const bytes = Buffer.byteLength(JSON.stringify([session.labels, session.label_sources]))
  tx.stores(bytes - session.label_bytes)
  session.label_bytes = bytes
}

/** Whether a session of these labels would carry more than it may once others join. */
export function wouldHaveTooMany(labels: readonly Label[], added: readonly Label[]): boolean {
  if (labels.length + added.length <= mostLabels) return false
  return unionLabels(labels, added).length > mostLabels
}

/** Enough to tell where a label came from; tools' names are free text and need not all be kept. */
const mostSources = 20
