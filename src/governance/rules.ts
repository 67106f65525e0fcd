import type { Selectable } from 'kysely'
import type { Context } from '../context.ts'
import { newId } from '../contract/ids.ts'
import type { RulesTable } from '../db/schema/policy.ts'
import { headlineWithField, readAs } from '../policy/issues.ts'
import { applyPatch } from '../policy/rule.ts'
import { hashOf } from './canonical.ts'
import type { ChainTx } from './chain-tx.ts'
import { violates } from './database-errors.ts'
import { DomainError, notFound } from './errors.ts'
import type { Once } from './idempotency.ts'
import { actorOf, type Caller } from './identity.ts'
import { readPage, viewPage, type Page, type PageRequest } from './page.ts'
import { refuseManyLabels } from './label-room.ts'
import { ruleKinds, type AnyBody, type AnyPatch, type RuleKindName } from './rule-kinds.ts'
import { refuseLargeRules } from './quotas/rule-size.ts'
import { growAs, rulesOver, type Growth } from './quotas/storage.ts'
import { runAs } from './standing.ts'

/** A rule or label rule as answered: its body and what the service adds. */
export type RuleView = AnyBody & {
  readonly id: string
  readonly organization_id: string
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}

/**
 * Saves a rule; it holds from the next decision on, in every process (specification, "Rules and label rules").
 * `body` has been validated. Throws `conflict` when the organization has one of that name,
 * `validation_error` when its rules would hold more than they may together.
 */
export async function createRule(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  body: AnyBody,
  once: Once | null = null,
): Promise<RuleView> {
  const { table, id: idKind } = ruleKinds[kind]
  const id = newId(idKind)
  return change(
    context,
    kind,
    caller,
    'created',
    body.name,
    async (tx) => {
      await refuseManyLabels(tx, id, null, body)
      await tx.trx
        .insertInto(table)
        .values({
          id,
          organization_id: caller.organizationId,
          name: body.name,
          body: JSON.stringify(body),
          created_by: caller.userId,
          created_at: tx.now,
          updated_at: tx.now,
        })
        .execute()
      await refuseLargeRules(tx, null, body)
      return { id, body }
    },
    { room: rulesOver },
    once,
  )
}

/** Newest first. */
export async function listRules(
  context: Context,
  kind: RuleKindName,
  organizationId: string,
  page: PageRequest,
): Promise<Page<RuleView>> {
  const query = context.db
    .selectFrom(ruleKinds[kind].table)
    .selectAll()
    .where('organization_id', '=', organizationId)
  return viewPage(await readPage(context.db, query, 'id', page, (row) => row.id), viewOf)
}

export async function readRule(
  context: Context,
  kind: RuleKindName,
  organizationId: string,
  id: string,
): Promise<RuleView> {
  const row = await context.db
    .selectFrom(ruleKinds[kind].table)
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw notFound(ruleKinds[kind].word, id)
  return viewOf(row)
}

/** Puts another body in the place of a rule's: it keeps its id and its place in the order. */
export async function replaceRule(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  body: AnyBody,
): Promise<RuleView> {
  return update(context, kind, caller, id, body.name, () => body)
}

/** Changes single fields; null takes an optional one away. `validation_error` when no valid rule would remain. */
export async function patchRule(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  patch: AnyPatch,
): Promise<RuleView> {
  return update(context, kind, caller, id, patch.name ?? '', (before) => {
    const merged = readAs<AnyBody>(ruleKinds[kind].input, applyPatch(before, patch))
    if (merged.ok) return merged.value
    const message = headlineWithField('the rule would not be valid', merged.issues)
    throw new DomainError('validation_error', message, merged.issues)
  })
}

/** A body that is no larger than the one before has room over `storage_mb` too. */
function update(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  name: string,
  bodyAfter: (before: AnyBody) => AnyBody,
): Promise<RuleView> {
  const work = async (tx: ChainTx) => {
    const before = await lockBody(tx, kind, id)
    const body = bodyAfter(before)
    await refuseManyLabels(tx, id, before, body)
    await writeBody(tx, kind, id, body)
    await refuseLargeRules(tx, before, body)
    return { id, body }
  }
  const bytes = async (tx: ChainTx) => {
    const before = await lockBody(tx, kind, id)
    return sizeOf(bodyAfter(before)) - sizeOf(before)
  }
  return change(context, kind, caller, 'updated', name, work, { bytes })
}

/** Without the status: the word `inactive` is longer than `active`, and a rule can always be taken out of use. */
const sizeOf = (body: AnyBody): number => Buffer.byteLength(JSON.stringify({ ...body, status: '' }))

export async function deleteRule(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  id: string,
): Promise<void> {
  const { table, noun } = ruleKinds[kind]
  await runAs(context, caller, 'org.change', async (tx) => {
    const body = await lockBody(tx, kind, id)
    await tx.trx.deleteFrom(table).where('id', '=', id).execute()
    tx.policyChanged()
    record(tx, caller, noun, 'deleted', id, body)
  })
}

/** One change under the chain's lock, audited with the hash of the body that now holds. */
async function change(
  context: Context,
  kind: RuleKindName,
  caller: Caller,
  verb: 'created' | 'updated',
  name: string,
  work: (tx: ChainTx) => Promise<{ id: string; body: AnyBody }>,
  limits: Pick<Growth<RuleView>, 'bytes' | 'room'>,
  once: Once | null = null,
): Promise<RuleView> {
  const { table, noun, word, nameConstraint } = ruleKinds[kind]
  try {
    return await growAs(context, caller, 'org.change', {
      action: verb.slice(0, -1),
      ...limits,
      async work(tx) {
        const { id, body } = await work(tx)
        tx.policyChanged()
        record(tx, caller, noun, verb, id, body)
        const row = await tx.trx.selectFrom(table).selectAll().where('id', '=', id).executeTakeFirstOrThrow()
        await once?.markActed(tx.trx, viewOf(row))
        return viewOf(row)
      },
    })
  } catch (error) {
    if (!violates(error, nameConstraint)) throw error
    const message = `there is a ${word} called \`${name}\` already: take another name`
    throw new DomainError('conflict', message, [{ path: 'name', message }])
  }
}

function record(tx: ChainTx, caller: Caller, noun: string, verb: string, id: string, body: AnyBody): void {
  tx.append({
    eventType: `${noun}.${verb}`,
    action: verb.slice(0, -1),
    status: 'success',
    actor: actorOf(caller),
    metadata: {
      [`${noun}_id`]: id,
      name: body.name,
      rule_status: body.status,
      ...('verdict' in body ? { verdict: body.verdict } : {}),
      body_hash: hashOf(body),
    },
  })
}

async function lockBody(tx: ChainTx, kind: RuleKindName, id: string): Promise<AnyBody> {
  const row = await tx.trx
    .selectFrom(ruleKinds[kind].table)
    .select('body')
    .where('organization_id', '=', tx.organizationId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) throw notFound(ruleKinds[kind].word, id)
  return row.body as unknown as AnyBody
}

async function writeBody(tx: ChainTx, kind: RuleKindName, id: string, body: AnyBody): Promise<void> {
  await tx.trx
    .updateTable(ruleKinds[kind].table)
    .set({ name: body.name, body: JSON.stringify(body), updated_at: tx.now })
    .where('id', '=', id)
    .execute()
}

function viewOf(row: Selectable<RulesTable>): RuleView {
  return {
    id: row.id,
    organization_id: row.organization_id,
    ...(row.body as unknown as AnyBody),
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}
