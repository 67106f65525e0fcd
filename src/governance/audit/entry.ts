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
      /** In the log, and not in the chain. */
      readonly requestId?: string | undefined
    }
  | { readonly type: 'system'; readonly id: string }

export interface EntryDraft {
  readonly eventType: string
  readonly action: string
  readonly status: string
  readonly actor: Actor
  readonly workflowId?: string | null
  readonly runId?: string | null
  readonly durationMs?: number | null
  readonly metadata?: Readonly<Partial<Record<string, Json>>>
  /** For the log only: ids and codes that the chain does not have. */
  readonly logged?: LoggedFields
}

export interface LoggedFields {
  /** The request that started the run. The default is the actor's request. */
  readonly request_id?: string | null
  readonly tool?: string | null
  readonly step_id?: string | undefined
  readonly item_index?: number | undefined
  readonly error_code?: string | undefined
  readonly rule_id?: string | undefined
  readonly decision_id?: string | undefined
}

/** Metadata never has a parameter's value or a secret. `auditEvents` declares it for each event type. */
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
  /** RFC 8785 text, without the field `hash`. */
  readonly canonical: string
  readonly hash: string
}

export const chainStart: ChainPosition = { seq: 0, hash: '0'.repeat(64) }

/** The metadata has the policy version, so that verify-entry.ts finds a decision by outdated rules. */
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
