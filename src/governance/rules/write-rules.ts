import { sql } from 'kysely'
import { actorOf } from '../access/identity.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Changer } from '../changes/gate.ts'
import { ruleKinds, type AnyBody, type RuleKindName } from './rule-kinds.ts'
import { refuseLargeRules } from './size-limit.ts'
import { keepVersions } from './versions.ts'

/** A change of a rule that was validated under the lock. */
export interface RuleChange {
  readonly id: string
  /** null for a new rule. */
  readonly before: AnyBody | null
  /** null for a deleted one. */
  readonly after: AnyBody | null
  readonly restoredFrom?: number
}

/**
 * Writes changes of different rules with few statements, keeps a version of each, and appends their entries. Throws
 * `validation_error` above the size of all rules together.
 */
export async function writeRules(
  tx: ChainTx,
  changer: Changer,
  kind: RuleKindName,
  changes: readonly RuleChange[],
): Promise<void> {
  if (changes.length === 0) return
  await write(tx, changer, kind, changes)
  await refuseLargeRules(tx, changes)
  for (const _ of changes) tx.policyChanged()
  const kept = await keepVersions(
    tx,
    changer,
    changes.map(({ id, ...change }) => ({ object: { kind, id }, ...change })),
  )
  changes.forEach((change, index) => appendEntry(tx, changer, kind, change, kept[index] ?? {}))
}

async function write(
  tx: ChainTx,
  { userId }: Changer,
  kind: RuleKindName,
  changes: readonly RuleChange[],
): Promise<void> {
  const { table } = ruleKinds[kind]
  const gone = changes.flatMap(({ id, after }) => (after === null ? [id] : []))
  if (gone.length > 0) await tx.trx.deleteFrom(table).where('id', 'in', gone).execute()
  const saved = changes.flatMap(({ id, before, after }) =>
    after === null ? [] : [{ id, isNew: before === null, name: after.name, body: after }],
  )
  const changed = saved.filter(({ isNew }) => !isNew)
  if (changed.length > 0)
    await sql`
      update ${sql.table(table)} as r set name = c.name, body = c.body, updated_at = ${tx.now}
      from json_to_recordset(${JSON.stringify(changed)}::json) as c(id text, name text, body jsonb)
      where r.id = c.id`.execute(tx.trx)
  const rows = saved
    .filter(({ isNew }) => isNew)
    .map(({ id, name, body }) => ({
      id,
      organization_id: tx.organizationId,
      name,
      body: JSON.stringify(body),
      created_by: userId,
      created_at: tx.now,
      updated_at: tx.now,
    }))
  if (rows.length > 0) await tx.trx.insertInto(table).values(rows).execute()
}

function appendEntry(
  tx: ChainTx,
  changer: Changer,
  kind: RuleKindName,
  { id, before, after }: RuleChange,
  kept: object,
): void {
  const body = (after ?? before) as AnyBody
  const { noun } = ruleKinds[kind]
  const verb = after === null ? 'deleted' : before === null ? 'created' : 'updated'
  tx.append({
    eventType: `${noun}.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(changer),
    metadata: {
      [`${noun}_id`]: id,
      name: body.name,
      rule_status: body.status,
      ...('verdict' in body ? { verdict: body.verdict } : {}),
      ...kept,
      ...changer.cause,
    },
  })
}
