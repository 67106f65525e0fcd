import { newId } from '../contract/ids.ts'
import type { Json } from '../policy/types.ts'
import { canonicalJson, sha256 } from './canonical.ts'

export type Actor =
  | {
      readonly type: 'user'
      readonly id: string
      readonly apiKeyId?: string | null
      readonly ip?: string | null
    }
  | { readonly type: 'system'; readonly id: string }

/** One thing to record. Metadata holds ids, hashes, counts and names; never a parameter's value or a secret. */
export interface AuditDraft {
  readonly eventType: string
  readonly action: string
  readonly status: string
  readonly actor: Actor
  readonly workflowId?: string | null
  readonly runId?: string | null
  readonly durationMs?: number | null
  readonly metadata?: Readonly<Record<string, Json>>
}

export interface ChainPosition {
  readonly seq: number
  readonly hash: string
}

export interface SealedEntry {
  /** RFC 8785 text of the entry without `hash` (contract section 8). */
  readonly canonical: string
  readonly hash: string
}

/** The position before a chain's first entry. */
export const chainStart: ChainPosition = { seq: 0, hash: '0'.repeat(64) }

/**
 * The entry that follows `head`: `seq` one more, `prev_hash` its hash, `hash` the SHA-256 of the canonical bytes.
 * The policy version in force is part of the metadata, so that verify can see a decision made on stale rules.
 */
export function sealEntry(
  organizationId: string,
  head: ChainPosition,
  policyVersion: number,
  at: Date,
  draft: AuditDraft,
): SealedEntry & ChainPosition {
  const { actor } = draft
  const apiKeyId = actor.type === 'user' ? (actor.apiKeyId ?? null) : null
  const seq = head.seq + 1
  const canonical = canonicalJson({
    seq,
    id: newId('event'),
    timestamp: at.toISOString(),
    event_type: draft.eventType,
    organization_id: organizationId,
    actor: { type: actor.type, id: actor.id },
    user_id: actor.type === 'user' ? actor.id : null,
    workflow_id: draft.workflowId ?? null,
    run_id: draft.runId ?? null,
    ip_address: actor.type === 'user' ? (actor.ip ?? null) : null,
    action: draft.action,
    status: draft.status,
    duration_ms: draft.durationMs ?? null,
    metadata: {
      ...draft.metadata,
      ...(apiKeyId === null ? {} : { api_key_id: apiKeyId }),
      policy_version: policyVersion,
    },
    prev_hash: head.hash,
  })
  return { seq, canonical, hash: sha256(canonical) }
}
