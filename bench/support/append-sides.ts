import type pg from 'pg'
import { createPipeline } from '../../src/db/connect.ts'
import { sealEntry, type AuditDraft, type ChainPosition } from '../../src/governance/audit/entry.ts'
import type { EntryMacs } from '../../src/governance/audit/entry-macs.ts'
import { createCombiner, type BatchKind } from '../../src/governance/audit/combiner.ts'
import { benchMacs } from './macs.ts'

/** The audit entry that each append writes: the decision about one call of a run. */
export const draft: AuditDraft = {
  eventType: 'tool_call.decided',
  action: 'mail_send',
  status: 'allow',
  actor: {
    type: 'user',
    id: 'usr_01J00000000000000000000000',
    apiKeyId: 'key_01J00000000000000000000000',
    ip: '127.0.0.1',
  },
  runId: 'run_01J00000000000000000000000',
  workflowId: 'wf_01J00000000000000000000000',
  metadata: {
    decision_id: 'dec_01J00000000000000000000000',
    params_hash: 'a'.repeat(64),
    rule_id: 'rule_01J00000000000000000000000',
    side_effect: 'egress',
    step_id: 'send',
  },
}

export type Side = 'combiner' | 'per call'

/** Appends one entry, and resolves when the entry is committed to disk. */
export type Append = () => Promise<void>

const appendEntry: BatchKind<null, null, null> = {
  point: 'effect.decide',
  load: () => Promise.resolve(null),
  apply: (tx) => {
    tx.append(draft)
    return null
  },
  write: () => {},
}

export function appendWith(side: Side, pool: pg.Pool, organizationId: string): Append {
  const macs = benchMacs(pool)
  if (side === 'per call') return () => lockAppendCommit(pool, macs, organizationId)
  const combiner = createCombiner({ pipeline: createPipeline(pool), macs, onCommitted: () => {} })
  return async () => {
    await combiner.join(organizationId, appendEntry, null)
  }
}

/**
 * The simple solution, for comparison. Each call locks the head of the chain, appends and commits. Like the service,
 * this side uses `pg` and prepared statements.
 */
async function lockAppendCommit(pool: pg.Pool, macs: EntryMacs, organizationId: string): Promise<void> {
  const sign = await macs.signer(organizationId)
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { rows } = await client.query<ChainPosition & { policy_version: number; now: Date }>({
      name: 'lock',
      text: `select seq, hash, policy_version, clock_timestamp() as now
             from chain_head where organization_id = $1 for update`,
      values: [organizationId],
    })
    const head = rows[0] as ChainPosition & { policy_version: number; now: Date }
    const entry = sealEntry(organizationId, head, head.policy_version, head.now, draft)
    await client.query({
      name: 'append',
      text: `with added as (insert into audit_events (canonical, hash, mac) values ($2, $3, $5))
             update chain_head set seq = $4, hash = $3, mac = $5 where organization_id = $1`,
      values: [organizationId, entry.canonical, entry.hash, entry.seq, sign(entry)],
    })
    await client.query('commit')
  } finally {
    client.release()
  }
}
