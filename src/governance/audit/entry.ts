import type { AuditEventType, AuditMetadata } from '../../contract/audit-events.ts'
import { newId } from '../../contract/ids.ts'
import type { Json } from '../../policy/types.ts'
import { canonicalJson, sha256 } from '../../shared/canonical-json.ts'

export type Actor =
  | {
      readonly type: 'user'
      readonly id: string
      readonly apiKeyId?: string | null
      readonly ip?: string | null
      /** The id of the HTTP request. The log contains this id, but the chain does not. */
      readonly requestId?: string | undefined
    }
  | { readonly type: 'system'; readonly id: string }

/** An audit entry that has no position in the chain yet. */
export interface EntryDraft {
  readonly eventType: string
  readonly action: string
  readonly status: string
  readonly actor: Actor
  readonly workflowId?: string | null
  readonly runId?: string | null
  readonly durationMs?: number | null
  readonly metadata?: Readonly<Partial<Record<string, Json>>>
  /** More fields for the entry's line in the log. They are ids and codes that the chain does not contain. */
  readonly logged?: LoggedFields
}

export interface LoggedFields {
  /**
   * The id of the request that started the run. If this field is missing, the log shows the id of the actor's request.
   */
  readonly request_id?: string | null
  /** The tool that a person's action is about. */
  readonly tool?: string | null
  readonly step_id?: string | undefined
  readonly item_index?: number | undefined
  readonly error_code?: string | undefined
  readonly rule_id?: string | undefined
  readonly decision_id?: string | undefined
}

/**
 * One event to record. Metadata contains ids, hashes, counts and names, but never a parameter's value or a secret.
 * `auditEvents` declares the metadata of each event type.
 */
export interface AuditDraft<T extends AuditEventType = AuditEventType> extends Omit<
  EntryDraft,
  'metadata' | 'status'
> {
  readonly eventType: T
  /** The default is `success`. */
  readonly status?: string
  readonly metadata?: AuditMetadata<T>
}

export interface ChainPosition {
  readonly seq: number
  readonly hash: string
}

export interface SealedEntry {
  /** The entry as RFC 8785 text, without the field `hash`. */
  readonly canonical: string
  readonly hash: string
}

/** The position before a chain's first entry. */
export const chainStart: ChainPosition = { seq: 0, hash: '0'.repeat(64) }

/**
 * Makes the entry that follows `head`. The new entry's `prev_hash` is the hash of `head`. The new entry's `hash` is the
 * SHA-256 of its canonical bytes. The metadata contains the present policy version. So the check of the chain
 * (verify-entry.ts) can detect a decision that was made by outdated rules.
 */
export function sealEntry(
  organizationId: string,
  head: ChainPosition,
  policyVersion: number,
  at: Date,
  draft: EntryDraft,
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
