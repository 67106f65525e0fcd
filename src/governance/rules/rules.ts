import type { Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { newId } from '../../contract/ids.ts'
import type { RulesTable } from '../../db/schema/policy.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { quote } from '../../policy/text.ts'
import { owned } from '../page.ts'
import { refuseManyLabels, refuseLargeRules } from './size-limit.ts'
import { ruleKinds, type AnyBody, type AnyPatch, type RuleKindName } from './rule-kinds.ts'
import { growAs, rulesOver, type Growth } from '../limits/storage.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import { applyPatch } from '../../policy/rule.ts'
import { bodyToRestore, keepVersion } from './versions.ts'

export type RuleView = AnyBody & {
  readonly id: string
  readonly organization_id: string
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}

/** `body` is validated. Throws `validation_error` for another rule's name, and above a limit of all rules. */
export async function createRule(
  context: Acting,
  kind: RuleKindName,
  caller: Caller,
  body: AnyBody,
  once: Once | null = null,
): Promise<RuleView> {
  const id = newId(ruleKinds[kind].id)
  return saveRule(context, kind, caller, {
    action: 'create',
    exceeded: rulesOver,
    once,
    work: (tx) => insertRule(tx, kind, caller, { id, body }),
  })
}

async function insertRule(
  tx: ChainTx,
  kind: RuleKindName,
  caller: Caller,
  { id, body }: SavedRule,
): Promise<ChangedRule> {
  await refuseTakenName(tx, kind, { id, body })
  refuseUnknownGroups(tx, body)
  await refuseManyLabels(tx, id, null, body)
  await tx.trx
    .insertInto(ruleKinds[kind].table)
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
  return { id, before: null, body }
}

export const ruleRows = (kind: RuleKindName) => {
  const { table, id, word } = ruleKinds[kind]
  return owned({ table, kind: id, word, view: ruleView })
}

/** The rule keeps its id and position. */
export async function replaceRule(
  context: Acting,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  body: AnyBody,
): Promise<RuleView> {
  return update(context, kind, caller, id, () => body)
}

/** null removes an optional field. Throws `validation_error` if the result is not a valid rule. */
export async function patchRule(
  context: Acting & { readonly db: Db },
  kind: RuleKindName,
  caller: Caller,
  id: string,
  patch: AnyPatch,
): Promise<RuleView> {
  const bodyAfter = patchedBody(kind, patch)
  const present = await context.db
    .selectFrom(ruleKinds[kind].table)
    .select('body')
    .where('organization_id', '=', caller.organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  // Here, because decisions wait while the chain's lock is held: there, a large rule is checked again only if it has
  // changed. Errors are thrown there, after the caller's rights are checked again.
  if (present !== undefined) attempt(() => bodyAfter(present.body as unknown as AnyBody))
  return update(context, kind, caller, id, bodyAfter)
}

function attempt(work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if (!(error instanceof DomainError)) throw error
  }
}

/** A body that is no larger is accepted even above the limit `storage_mb`. */
function update(
  context: Acting,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  bodyAfter: (before: AnyBody) => AnyBody,
): Promise<RuleView> {
  const work = async (tx: ChainTx) => {
    const before = await lockBody(tx, kind, id)
    return updateRule(tx, kind, { id, before, body: bodyAfter(before) })
  }
  const bytes = async (tx: ChainTx) => {
    const before = await lockBody(tx, kind, id)
    return sizeOf(bodyAfter(before)) - sizeOf(before)
  }
  return saveRule(context, kind, caller, { action: 'update', work, bytes })
}

async function updateRule(
  tx: ChainTx,
  kind: RuleKindName,
  rule: ChangedRule & { readonly before: AnyBody },
): Promise<ChangedRule> {
  const { id, before, body } = rule
  if (body.name !== before.name) await refuseTakenName(tx, kind, { id, body })
  refuseUnknownGroups(tx, body)
  await refuseManyLabels(tx, id, before, body)
  await writeBody(tx, kind, id, body)
  await refuseLargeRules(tx, before, body)
  return rule
}

/**
 * The rule gets the body of that version again; a deleted rule comes back with its id, as the last in the order. Throws
 * as `createRule` and `patchRule` do, `not_found`, and `conflict` for the version of a deletion.
 */
export async function restoreRule(
  context: Acting & { readonly db: Db },
  kind: RuleKindName,
  caller: Caller,
  { id, version }: { readonly id: string; readonly version: string },
  once: Once | null = null,
): Promise<RuleView> {
  const kept = await bodyToRestore(context.db, caller.organizationId, { kind, id }, version)
  const read = readAs<AnyBody>(ruleKinds[kind].input, kept.body)
  if (!read.ok) {
    const message = headlineWithField('the rule of this version is not valid now', read.issues)
    throw new DomainError('validation_error', message, read.issues)
  }
  const body = read.value
  return saveRule(context, kind, caller, {
    action: 'restore',
    once,
    exceeded: async (tx) => ((await bodyUnderLock(tx, kind, id)) === null ? rulesOver(tx) : null),
    async bytes(tx) {
      const before = await bodyUnderLock(tx, kind, id)
      return before === null ? sizeOf(body) : sizeOf(body) - sizeOf(before)
    },
    async work(tx) {
      const before = await bodyUnderLock(tx, kind, id)
      const changed =
        before === null
          ? await insertRule(tx, kind, caller, { id, body })
          : await updateRule(tx, kind, { id, before, body })
      return { ...changed, restoredFrom: kept.number }
    },
  })
}

/** Without the status, so a rule can be made inactive above a limit, although `inactive` is longer than `active`. */
const sizeOf = (body: AnyBody): number => Buffer.byteLength(JSON.stringify({ ...body, status: '' }))

export async function deleteRule(
  context: Acting,
  kind: RuleKindName,
  caller: Caller,
  id: string,
): Promise<void> {
  const { table } = ruleKinds[kind]
  await runAs(context, caller, 'org.change', async (tx) => {
    const before = await lockBody(tx, kind, id)
    await tx.trx.deleteFrom(table).where('id', '=', id).execute()
    await recordChange(tx, caller, kind, { id, before, body: null })
  })
}

interface SavedRule {
  readonly id: string
  readonly body: AnyBody
}

interface ChangedRule extends SavedRule {
  /** null for a new rule. */
  readonly before: AnyBody | null
  readonly restoredFrom?: number
}

interface RuleChange extends Pick<Growth<RuleView>, 'action' | 'bytes' | 'exceeded'> {
  readonly work: (tx: ChainTx) => Promise<ChangedRule>
  readonly once?: Once | null
}

async function saveRule(
  context: Acting,
  kind: RuleKindName,
  caller: Caller,
  { work: save, once, ...limits }: RuleChange,
): Promise<RuleView> {
  const { table } = ruleKinds[kind]
  return growAs(context, caller, 'org.change', {
    ...limits,
    async work(tx) {
      const saved = await save(tx)
      await recordChange(tx, caller, kind, saved)
      const row = await tx.trx
        .selectFrom(table)
        .selectAll()
        .where('id', '=', saved.id)
        .executeTakeFirstOrThrow()
      await once?.markActed(tx.trx, ruleView(row))
      return ruleView(row)
    },
  })
}

/** Changes of an organization's rules run one after another, so no other one can take the name after this check. */
async function refuseTakenName(tx: ChainTx, kind: RuleKindName, { id, body }: SavedRule): Promise<void> {
  const { table, word, path } = ruleKinds[kind]
  const other = await tx.trx
    .selectFrom(table)
    .select('id')
    .where('organization_id', '=', tx.organizationId)
    .where('name', '=', body.name)
    .where('id', '<>', id)
    .executeTakeFirst()
  if (other === undefined) return
  const change = `PATCH /organizations/${tx.organizationId}/${path}/${other.id}`
  throw errorAt(
    'validation_error',
    'name',
    `there is a ${word} called ${quote(body.name)} already: take another name, or change that one with \`${change}\``,
  )
}

/** Nobody could fill such a seat. */
function refuseUnknownGroups({ policy, organizationId }: ChainTx, body: AnyBody): void {
  if (!('verdict' in body)) return
  const { approver, approvers = [], escalate = [] } = body
  const named = [
    ...(typeof approver === 'object' ? [['approver.group', approver.group] as const] : []),
    ...approvers.flatMap((seat, index) =>
      'group' in seat ? [[`approvers.${index}.group`, seat.group] as const] : [],
    ),
    ...escalate.flatMap(({ to }, index) =>
      typeof to === 'object' ? [[`escalate.${index}.to.group`, to.group] as const] : [],
    ),
  ]
  const [path, name] = named.find(([, group]) => !policy.groups.has(group)) ?? []
  if (path === undefined || name === undefined) return
  throw errorAt(
    'validation_error',
    path,
    `there is no group \`${name}\`: an owner makes it with \`POST /organizations/${organizationId}/groups\``,
  )
}

/** Keeps the version, and appends the audit entry. */
async function recordChange(
  tx: ChainTx,
  caller: Caller,
  kind: RuleKindName,
  rule: Omit<ChangedRule, 'body'> & { readonly body: AnyBody | null },
): Promise<void> {
  const { id, before, body: after } = rule
  const body = (after ?? before) as AnyBody
  const { noun } = ruleKinds[kind]
  const verb = after === null ? 'deleted' : before === null ? 'created' : 'updated'
  tx.policyChanged()
  const kept = await keepVersion(tx, caller, { kind, id }, { ...rule, after })
  tx.append({
    eventType: `${noun}.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    metadata: {
      [`${noun}_id`]: id,
      name: body.name,
      rule_status: body.status,
      ...('verdict' in body ? { verdict: body.verdict } : {}),
      ...kept,
    },
  })
}

async function lockBody(tx: ChainTx, kind: RuleKindName, id: string): Promise<AnyBody> {
  const body = await bodyUnderLock(tx, kind, id)
  if (body === null) throw notFound(ruleKinds[kind].word, id)
  return body
}

async function bodyUnderLock(tx: ChainTx, kind: RuleKindName, id: string): Promise<AnyBody | null> {
  const row = await tx.trx
    .selectFrom(ruleKinds[kind].table)
    .select('body')
    .where('organization_id', '=', tx.organizationId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return row === undefined ? null : (row.body as unknown as AnyBody)
}

async function writeBody(tx: ChainTx, kind: RuleKindName, id: string, body: AnyBody): Promise<void> {
  await tx.trx
    .updateTable(ruleKinds[kind].table)
    .set({ name: body.name, body: JSON.stringify(body), updated_at: tx.now })
    .where('id', '=', id)
    .execute()
}

function ruleView(row: Selectable<RulesTable>): RuleView {
  return {
    id: row.id,
    organization_id: row.organization_id,
    ...(row.body as unknown as AnyBody),
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}

/** They do not decide which calls match. */
const besides: ReadonlySet<string> = new Set(['name', 'description', 'status'])

type Outcome = { readonly body: AnyBody } | { readonly error: unknown }

/**
 * Applies the patch, and throws `validation_error` if the result is not a valid rule. Name, description and status of a
 * rule that has become invalid can still be changed, so that it can be switched off.
 *
 * The check of 50,000 values takes 200 ms, so the last result is kept for the same body.
 */
export function patchedBody(kind: RuleKindName, patch: AnyPatch): (before: AnyBody) => AnyBody {
  let last: { readonly text: string; readonly outcome: Outcome } | null = null
  return (before) => {
    const text = JSON.stringify(before)
    if (last?.text !== text) last = { text, outcome: outcomeOf(kind, before, patch) }
    if ('error' in last.outcome) throw last.outcome.error
    return last.outcome.body
  }
}

function outcomeOf(kind: RuleKindName, before: AnyBody, patch: AnyPatch): Outcome {
  const merged = readAs<AnyBody>(ruleKinds[kind].input, applyPatch(before, patch))
  if (merged.ok) return { body: merged.value }
  if (Object.keys(patch).every((field) => besides.has(field)))
    return { body: applyPatch(before, patch) as AnyBody }
  const message = headlineWithField('the rule would not be valid', merged.issues)
  return { error: new DomainError('validation_error', message, merged.issues) }
}
