import { sql, type Selectable } from 'kysely'
import { newId } from '../../contract/ids.ts'
import type { ManagedBy, RulesTable } from '../../db/schema/policy.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound, errorAt } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import type { Caller } from '../access/identity.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import { isHeld, plainJson, type HeldChange } from '../approvals/change.ts'
import type { Reading } from '../context.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { quote } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import { owned } from '../page.ts'
import { refuseManyLabels } from './size-limit.ts'
import { ruleKinds, type AnyBody, type AnyPatch, type RuleKindName } from './rule-kinds.ts'
import { rulesOver, storageOver } from '../limits/storage.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import { applyPatch, type RuleBody } from '../../policy/rule.ts'
import { labelRulesBehind } from '../../policy/strictness.ts'
import { looserExample, savedIn, savedLabelRules, whyLooser } from './looser.ts'
import { bodyToRestore } from './versions.ts'
import { writeRules } from './write-rules.ts'

export type RuleView = AnyBody & {
  readonly id: string
  readonly organization_id: string
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
  readonly managed_by: ManagedBy | null
}

/** What a request asks for. `body` is null for a deletion. */
export interface RuleRequest {
  readonly kind: RuleKindName
  readonly id: string
  readonly body: AnyBody | null
  readonly restored_from?: number
}

/** `body` is validated. Throws `validation_error` for another rule's name, and above a limit of all rules. */
export async function createRule(
  context: Governed,
  kind: RuleKindName,
  caller: Caller,
  body: AnyBody,
  once: Once | null = null,
): Promise<RuleView | HeldChange> {
  return change(context, caller, { kind, id: newId(ruleKinds[kind].id), body }, { action: 'create', once })
}

export const ruleRows = (kind: RuleKindName) => {
  const { table, id, word } = ruleKinds[kind]
  return owned({ table, kind: id, word, searched: sql<string>`o.name`, view: ruleView })
}

/** The rule keeps its id and position. Throws `not_found`. */
export async function replaceRule(
  context: Governed,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  body: AnyBody,
): Promise<RuleView | HeldChange> {
  return change(context, caller, { kind, id, body }, { action: 'update', mustExist: true })
}

/** null removes an optional field. Throws `validation_error` if the result is not a valid rule. */
export async function patchRule(
  context: Governed,
  kind: RuleKindName,
  caller: Caller,
  id: string,
  patch: AnyPatch,
): Promise<RuleView | HeldChange> {
  const bodyAfter = patchedBody(kind, patch)
  const present = await context.db
    .selectFrom(ruleKinds[kind].table)
    .select('body')
    .where('organization_id', '=', caller.organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  // Here, because decisions wait while the chain's lock is held: there, a large rule is checked again only if it has
  // changed. Errors are thrown there, after the caller's rights are checked again.
  const expected = present === undefined ? null : attempt(() => bodyAfter(present.body as unknown as AnyBody))
  const given = { kind, id, body: bodyAfter, expected }
  return change(context, caller, given, { action: 'update', mustExist: true })
}

function attempt<T>(work: () => T): T | null {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof DomainError)) throw error
    return null
  }
}

/**
 * The rule gets the body of that version again; a deleted rule comes back with its id, as the last in the order. Throws
 * as `createRule` and `patchRule` do, `not_found`, and `conflict` for the version of a deletion.
 */
export async function restoreRule(
  context: Governed,
  kind: RuleKindName,
  caller: Caller,
  { id, version }: { readonly id: string; readonly version: string },
  once: Once | null = null,
): Promise<RuleView | HeldChange> {
  const kept = await bodyToRestore(context.db, caller.organizationId, { kind, id }, version)
  const read = readAs<AnyBody>(ruleKinds[kind].input, kept.body)
  if (!read.ok) {
    const message = headlineWithField('the rule of this version is not valid now', read.issues)
    throw new DomainError('validation_error', message, read.issues)
  }
  const given = { kind, id, body: read.value, restored_from: kept.number }
  return change(context, caller, given, { action: 'restore', once })
}

/** Throws `not_found`. */
export async function deleteRule(
  context: Governed,
  kind: RuleKindName,
  caller: Caller,
  id: string,
): Promise<HeldChange | undefined> {
  const answer = await change(
    context,
    caller,
    { kind, id, body: null },
    { action: 'delete', mustExist: true },
  )
  return isHeld(answer) ? answer : undefined
}

type Governed = Governing & Reading

interface Asked extends Omit<RuleRequest, 'body'> {
  /** Or what makes it from the body that is found under the lock; then `expected` is what it probably makes. */
  readonly body: AnyBody | null | ((before: AnyBody) => AnyBody)
  readonly expected?: AnyBody | null
}

/** `RuleView`, or the rule as it was before a deletion. */
async function change(
  context: Governed,
  caller: Caller,
  { expected, ...asked }: Asked,
  given: { readonly action: string; readonly once?: Once | null; readonly mustExist?: boolean },
): Promise<RuleView | HeldChange> {
  const { kind, id, body } = asked
  const probable = typeof body === 'function' ? (expected ?? null) : body
  return changeAs<RuleView>(context, caller, {
    ...given,
    example:
      kind === 'rule'
        ? await looserExample(context, caller.organizationId, id, probable as RuleBody | null)
        : null,
    async prepare(tx, changer) {
      const before = (await rowUnderLock(tx, kind, id))?.body ?? null
      if (before === null && given.mustExist === true) throw notFound(ruleKinds[kind].word, id)
      const after = typeof body === 'function' ? body(before as AnyBody) : body
      return prepareRule(tx, changer, { ...asked, body: after })
    },
  })
}

/**
 * Validates the change under the lock. A body that is no larger is accepted even above the limit `storage_mb`, and so
 * is a deletion.
 */
export async function prepareRule(
  tx: ChainTx,
  changer: Changer,
  { kind, id, body: after, restored_from: restoredFrom }: RuleRequest,
): Promise<Prepared<RuleView>> {
  const { body: before, managed } = (await rowUnderLock(tx, kind, id)) ?? { body: null, managed: null }
  const body = after ?? before
  if (body === null) throw notFound(ruleKinds[kind].word, id)
  if (after !== null) {
    if (after.name !== before?.name) await refuseTakenName(tx, kind, { id, body: after })
    refuseUnknownGroups(tx, after)
    await refuseManyLabels(tx, id, before, after)
  }
  const verb = before === null ? 'Create' : after === null ? 'Delete' : 'Change'
  const given = {
    kind,
    id,
    body: after,
    ...(restoredFrom === undefined ? {} : { restored_from: restoredFrom }),
  }
  return {
    request: { operation: 'rule', given: plainJson(given) as JsonObject },
    title: `${verb} the ${ruleKinds[kind].word} ${quote(body.name)}`,
    before,
    after,
    managed,
    async over() {
      if (after === null) return null
      if (before === null)
        return storageOver(tx, restoredFrom === undefined ? 0 : sizeOf(after)) ?? rulesOver(tx)
      const more = sizeOf(after) - sizeOf(before)
      return more <= 0 ? null : storageOver(tx, more)
    },
    groups: [before, after].flatMap(groupsOfRule),
    reliesOn: () =>
      labelRulesBehind(
        after?.labels?.none_of ?? [],
        savedLabelRules(tx.policy).filter((rule) => rule.id !== id),
      ),
    whyLooser: (terms, waiting) => whyLooser(savedIn(tx.policy), { kind, id, before, after }, terms, waiting),
    async save() {
      const view = after === null ? await viewOf(tx, kind, id) : null
      const { restored_from: restored } = given
      await writeRules(tx, changer, kind, [
        { id, before, after, ...(restored === undefined ? {} : { restoredFrom: restored }) },
      ])
      return view ?? viewOf(tx, kind, id)
    },
  }
}

const viewOf = async (tx: ChainTx, kind: RuleKindName, id: string): Promise<RuleView> =>
  ruleView(
    await tx.trx.selectFrom(ruleKinds[kind].table).selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
  )

/** Without the status, so a rule can be made inactive above a limit, although `inactive` is longer than `active`. */
const sizeOf = (body: AnyBody): number => Buffer.byteLength(JSON.stringify({ ...body, status: '' }))

interface SavedRule {
  readonly id: string
  readonly body: AnyBody
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
  const [path, name] = groupsNamed(body).find(([, group]) => !policy.groups.has(group)) ?? []
  if (path === undefined || name === undefined) return
  throw errorAt(
    'validation_error',
    path,
    `there is no group \`${name}\`: an owner makes it with \`POST /organizations/${organizationId}/groups\``,
  )
}

/** Each with its path. */
export function groupsNamed(body: AnyBody): (readonly [string, string])[] {
  if (!('verdict' in body)) return []
  const { approver, approvers = [], escalate = [] } = body
  return [
    ...(typeof approver === 'object' ? [['approver.group', approver.group] as const] : []),
    ...approvers.flatMap((seat, index) =>
      'group' in seat ? [[`approvers.${index}.group`, seat.group] as const] : [],
    ),
    ...escalate.flatMap(({ to }, index) =>
      typeof to === 'object' ? [[`escalate.${index}.to.group`, to.group] as const] : [],
    ),
  ]
}

export const groupsOfRule = (body: AnyBody | null): string[] =>
  body === null ? [] : groupsNamed(body).map(([, group]) => group)

async function rowUnderLock(tx: ChainTx, kind: RuleKindName, id: string) {
  const row = await tx.trx
    .selectFrom(ruleKinds[kind].table)
    .select(['body', 'managed_by'])
    .where('organization_id', '=', tx.organizationId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return row === undefined ? null : { body: row.body as unknown as AnyBody, managed: row.managed_by }
}

function ruleView(row: Selectable<RulesTable>): RuleView {
  return {
    id: row.id,
    organization_id: row.organization_id,
    ...(row.body as unknown as AnyBody),
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    managed_by: row.managed_by,
  }
}

/** Whether the bodies differ only in what does not decide which calls match. */
export const hasSameConditions = (one: AnyBody, other: AnyBody): boolean => {
  const parts = (body: AnyBody) => Object.entries(body).filter(([field]) => !besides.has(field))
  return hashOf(Object.fromEntries(parts(one))) === hashOf(Object.fromEntries(parts(other)))
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
