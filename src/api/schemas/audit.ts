import { z } from 'zod'
import { id, time } from './common.ts'

const hash = z.string().regex(/^[0-9a-f]{64}$/)

/** A whole audit entry; `hash` covers every other field. */
export const auditEntry = z
  .strictObject({
    seq: z.int(),
    id,
    timestamp: time,
    event_type: z.string(),
    organization_id: id,
    actor: z.strictObject({ type: z.string(), id }),
    user_id: id.nullable(),
    workflow_id: id.nullable(),
    run_id: id.nullable(),
    ip_address: z.string().nullable(),
    action: z.string(),
    status: z.string(),
    duration_ms: z.int().nullable(),
    metadata: z.record(z.string(), z.unknown()),
    prev_hash: hash,
    hash,
  })
  .meta({ id: 'AuditEntry' })

export const verification = z
  .strictObject({
    valid: z.boolean(),
    entries: z.int(),
    head: z.strictObject({ seq: z.int(), hash: z.string() }),
    first_mismatch: z
      .strictObject({
        seq: z.int(),
        id: id.nullable(),
        reason: z.enum(['hash', 'link', 'gap', 'truncated', 'foreign', 'checkpoint']),
        expected: z.string(),
        found: z.string(),
      })
      .nullable(),
    duration_ms: z.int(),
  })
  .meta({ id: 'AuditVerification' })
