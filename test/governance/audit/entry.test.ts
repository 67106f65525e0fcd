import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { chainStart, sealEntry, type AuditDraft } from '../../../src/governance/audit/entry.ts'
import { canonicalJson, sha256 } from '../../../src/shared/canonical-json.ts'

const at = new Date('2026-03-04T05:06:07.089Z')
const draft: AuditDraft = {
  eventType: 'workflow.execute',
  action: 'execute',
  status: 'accepted',
  actor: { type: 'user', id: 'usr_1', apiKeyId: 'key_1', ip: '192.0.2.7' },
  workflowId: 'wf_1',
  runId: 'run_1',
  durationMs: 12,
  metadata: { input_hash: 'a'.repeat(64) },
}

describe('sealEntry', () => {
  test('returns the documented entry without its hash, and the hash of its RFC 8785 bytes', () => {
    const entry = sealEntry('org_1', { seq: 6, hash: 'b'.repeat(64) }, 3, at, draft)
    const fields = JSON.parse(entry.canonical)
    expect(fields).toEqual({
      seq: 7,
      id: expect.stringMatching(/^evt_[0-9A-HJKMNP-TV-Z]{26}$/),
      timestamp: '2026-03-04T05:06:07.089Z',
      event_type: 'workflow.execute',
      organization_id: 'org_1',
      actor: { type: 'user', id: 'usr_1' },
      user_id: 'usr_1',
      workflow_id: 'wf_1',
      run_id: 'run_1',
      ip_address: '192.0.2.7',
      action: 'execute',
      status: 'accepted',
      duration_ms: 12,
      metadata: { input_hash: 'a'.repeat(64), api_key_id: 'key_1', policy_version: 3 },
      prev_hash: 'b'.repeat(64),
    })
    expect(entry.canonical).toBe(canonicalJson(fields))
    expect(entry).toMatchObject({ seq: 7, hash: sha256(entry.canonical) })
  })

  test('unknown values are null, never absent', () => {
    const { eventType, action, status } = draft
    const bare = { eventType, action, status, actor: { type: 'system', id: 'sweeper' } as const }
    expect(JSON.parse(sealEntry('org_1', chainStart, 1, at, bare).canonical)).toMatchObject({
      seq: 1,
      prev_hash: '0'.repeat(64),
      user_id: null,
      workflow_id: null,
      run_id: null,
      ip_address: null,
      duration_ms: null,
      metadata: { policy_version: 1 },
    })
  })

  test('law: metadata cannot replace the policy version or the key', () => {
    const forged = fc.dictionary(fc.constantFrom('policy_version', 'api_key_id', 'x'), fc.integer())
    fc.assert(
      fc.property(forged, fc.nat(), (metadata, version) => {
        const entry = sealEntry('org_1', chainStart, version, at, { ...draft, metadata })
        expect(JSON.parse(entry.canonical).metadata).toMatchObject({
          policy_version: version,
          api_key_id: 'key_1',
        })
      }),
    )
  })
})
