import { newId } from '../../contract/ids.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import { governanceChanges } from '../../policy/settings.ts'
import { quote } from '../../policy/text.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { LabelRuleBody, StoredRule } from '../../policy/rule.ts'
import { labelRulesBehind } from '../../policy/strictness.ts'
import { type Caller } from '../access/identity.ts'
import { roleUnderLock, type PresentCaller } from '../access/recheck.ts'
import { plainJson, type HeldChange, type LooserExample } from '../approvals/change.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { policySnapshot } from '../audit/combiner.ts'
import { changeAs, type Changer, type Governing, type Prepared } from '../changes/gate.ts'
import type { Reading } from '../context.ts'
import { DomainError } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { storageOver } from '../limits/storage.ts'
import { savedRules } from '../rules/analysis.ts'
import { decidedOtherwise, savedLabelRules } from '../rules/looser.ts'
import { ruleKinds, type AnyBody } from '../rules/rule-kinds.ts'
import { refuseLockOut } from '../rules/settings.ts'
import { requireSound } from '../tools/connections.ts'
import { readDefinition } from '../workflows/workflows.ts'
import { refuseBlocked, refuseMistakes, type Unread } from './check.ts'
import { asWriterOf, requireRights, type ApplyRequest, type Declared, type DeclaredAs } from './declared.ts'
import { linesOf } from './lines.ts'
import { groupsIn, isRule, keyedId, planOf, type Item, type Plan } from './plan.ts'
import { readFingerprint, readState, type PresentState } from './present.ts'
import { appendApplied, bytesOf, countsOf, rulesAdded, saveItems } from './save.ts'
import { whyLooserForNow, whyLooserItems } from './stricter.ts'

export interface AppliedChange {
  readonly action: Item['action']
  readonly kind: Item['kind']
  readonly name: string
  /** null for what has no id, and for what does not exist yet. */
  readonly id: string | null
  readonly path: string | null
  readonly lines: readonly string[]
  readonly decided_otherwise: LooserExample | null
}

export interface Applied {
  readonly dry_run: boolean
  readonly plan: string
  readonly created: number
  readonly changed: number
  readonly deleted: number
  readonly unchanged: number
  readonly changes: readonly AppliedChange[]
  /** So many changes are not in the list. */
  readonly more: number
}

/** In an answer. */
export const mostShown = 500
/** Milliseconds of the thread, to look for example calls. */
const mostWork = { plan: 300, apply: 40 }

interface Asked {
  readonly request: ApplyRequest
  readonly dryRun: boolean
  readonly unread?: Unread
  /** What would be done must still be this one. */
  readonly plan: string | null
}

type Applying = Governing & Reading

/**
 * Makes the organization's objects as the files declare them, all or nothing. Objects that came from the same repository
 * and are no longer declared are deleted; others are left alone.
 *
 * Throws `missing_scope` and `insufficient_role` for a kind, `validation_error` or `conflict` with all mistakes,
 * `conflict` for another plan, and as the changes of single objects do.
 */
export async function applyObjects(
  context: Applying,
  caller: Caller,
  { request, unread, dryRun, plan: expected }: Asked,
  once: Once | null,
): Promise<Applied | HeldChange> {
  const need = dryRun ? 'reads' : 'writes'
  requireRights(
    caller,
    request.objects.map(({ kind }) => kind),
    need,
  )
  const policy = await policySnapshot(context, caller.organizationId)
  const state = await readState(context.db, caller.organizationId, policy, request)
  const plan = planOf(state, request)
  requireRights(
    caller,
    plan.items.map(({ kind }) => kind),
    need,
  )
  refuseMistakes(state, request, plan, unread)
  await refuseBlocked(context.db, caller.organizationId, state, { request, plan })
  refuseOther(plan, expected)
  const shown = await describe(context, state, plan, dryRun ? mostWork.plan : mostWork.apply)
  if (dryRun || plan.items.length === 0) return answerOf(plan, shown, dryRun)
  const kinds = plan.items.map(({ kind }) => kind)
  return changeAs<Applied>(context, asWriterOf(caller, kinds), {
    action: 'apply',
    once,
    example: [...shown.examples.values()].find(isLooser) ?? null,
    async prepare(tx, changer, now) {
      const isSame =
        policy.version === tx.policy.version &&
        state.fingerprint === (await readFingerprint(tx.trx, tx.organizationId))
      const found = isSame ? state : await readState(tx.trx, tx.organizationId, tx.policy, request)
      const under = isSame ? plan : planOf(found, request)
      // Then other rights may be needed than those that are checked here.
      if (under.items.some(({ kind }) => !kinds.includes(kind)))
        throw new DomainError('conflict', 'something was changed meanwhile: apply the files again')
      const present = await now()
      requireRights(
        present,
        under.items.map(({ kind }) => kind),
        'writes',
      )
      if (!isSame) refuseMistakes(found, request, under)
      refuseOther(under, expected)
      await refuseOwnLockOut(tx, under, () => Promise.resolve(present))
      return preparedFrom({
        tx,
        changer: { ...changer, role: present.role },
        state: found,
        request,
        plan: under,
        shown: isSame ? shown : null,
      })
    },
  })
}

/** By its verdict. */
const isLooser = ({ before, after }: LooserExample): boolean =>
  verdicts.indexOf(after) < verdicts.indexOf(before)
const verdicts: readonly LooserExample['after'][] = ['allow', 'require_approval', 'deny']

function refuseOther({ hash }: Plan, expected: string | null): void {
  if (expected === null || expected === hash) return
  throw new DomainError(
    'conflict',
    'something has changed since the plan was made: make a new one with `dry_run`, and look at it',
    [{ path: 'plan', message: `would now be \`${hash}\`` }],
  )
}

async function refuseOwnLockOut(
  tx: ChainTx,
  { items }: Plan,
  now: () => Promise<PresentCaller>,
): Promise<void> {
  for (const { kind, declared } of items)
    if (kind === 'organization' && declared !== null)
      await refuseLockOut(tx, plainJson(declared.body) as JsonObject, now)
}

/** An application that waited for a second person. Throws what `applyObjects` throws. */
export async function prepareApply(
  tx: ChainTx,
  changer: Changer,
  request: ApplyRequest,
): Promise<Prepared<Applied>> {
  const state = await readState(tx.trx, tx.organizationId, tx.policy, request)
  const plan = planOf(state, request)
  const role = await roleUnderLock(tx, changer.userId)
  refuseMistakes(state, request, plan)
  request.objects.forEach(refuseInvalid)
  return preparedFrom({
    tx,
    changer: { ...changer, role: role ?? 'viewer' },
    state,
    request,
    plan,
    shown: null,
  })
}

/** What was valid when it was asked for may not be now, after an upgrade. */
function refuseInvalid({ kind, body, name }: Declared): void {
  if (kind === 'workflow') return requireSound(body.definition)
  if (kind === 'organization') return void governanceChanges.parse(body)
  if (kind !== 'rule' && kind !== 'label_rule') return
  const read = readAs<AnyBody>(ruleKinds[kind].input, body)
  if (read.ok) return
  const message = headlineWithField(
    `the ${ruleKinds[kind].word} ${quote(name)} would not be valid now`,
    read.issues,
  )
  throw new DomainError('validation_error', message, read.issues)
}

interface Preparing {
  readonly tx: ChainTx
  readonly changer: Changer & Pick<Caller, 'role'>
  readonly state: PresentState
  readonly request: ApplyRequest
  readonly plan: Plan
  readonly shown: Shown | null
}

async function preparedFrom({
  tx,
  changer,
  state,
  request,
  plan,
  shown,
}: Preparing): Promise<Prepared<Applied>> {
  const { items, hash } = plan
  const counts = countsOf(items, plan.unchanged)
  const isGoverned = tx.policy.settings.loosening === 'second_person'
  const definitions = isGoverned ? await workflowsBefore(tx, items) : new Map<Item, JsonObject>()
  const title = `Apply files: create ${counts.created}, change ${counts.changed}, delete ${counts.deleted}`
  return {
    request: {
      operation: 'apply',
      given: plainJson(request) as JsonObject,
    },
    touches: items.filter(isRule).flatMap(({ present }) => present?.id ?? []),
    title,
    ...(request.repository === null ? {} : { sealedTitle: `${title}, from ${request.repository}` }),
    before: sidesOf(items, (item) => definitions.get(item) ?? item.before),
    after: sidesOf(items, afterOf),
    groups: groupsIn(items),
    reliesOn: () => [{ plan: hash }, ...labelRulesOf(tx, items)],
    async over() {
      const bytes = bytesOf(items)
      const stored = bytes <= 0 ? null : storageOver(tx, bytes)
      if (stored !== null) return stored
      const { rules: most } = tx.policy.limits
      const added = rulesAdded(items)
      const count = tx.policy.rules.size + tx.policy.labelRules.size + added
      return Promise.resolve(
        added > 0 && count > most ? { limit: 'rules', value: most, retryAfter: 60 } : null,
      )
    },
    whyLooser: (terms, waiting) => whyLooserItems(tx, items, terms, waiting),
    whyForNow: () => whyLooserForNow(tx, items),
    async save() {
      const applyId = newId('apply')
      const cause = { ...changer.cause, apply_id: applyId }
      const saving = { tx, changer: { ...changer, cause }, state, request }
      const ids = await saveItems(saving, items)
      if (items.length > 0) appendApplied(saving, { applyId, plan: hash, counts })
      return answerOf(plan, shown ?? (await withoutExamples(tx, plan)), false, ids)
    },
  }
}

/** The label rules that can add what rules of the files exclude, as they are now and as the files make them. */
function labelRulesOf({ policy }: ChainTx, items: readonly Item[]): readonly LabelRuleBody[] {
  const changed = items.filter((item) => isRule(item) && item.isOther)
  const bodies = changed.flatMap(({ after }) => (after === null ? [] : [after as AnyBody]))
  const excluded = bodies.flatMap(({ labels }) => labels?.none_of ?? [])
  const declared = bodies.filter((body) => 'add_labels' in body)
  return labelRulesBehind(excluded, [...savedLabelRules(policy), ...declared])
}

/** What approvers compare, by kind and name. */
const sidesOf = (items: readonly Item[], side: (item: Item) => JsonObject | null): JsonObject =>
  Object.fromEntries(
    items.filter(({ isOther }) => isOther).map((item) => [`${item.kind} ${item.name}`, side(item)]),
  )

const afterOf = ({ kind, declared, after }: Item): JsonObject | null =>
  kind === 'workflow' && declared !== null ? plainJson(declared.body) : after

/** Workflows as they are now, with their definitions. */
async function workflowsBefore(tx: ChainTx, items: readonly Item[]): Promise<ReadonlyMap<Item, JsonObject>> {
  const found = new Map<Item, JsonObject>()
  for (const item of items) {
    const { kind, isOther, present, before } = item
    if (kind !== 'workflow' || !isOther || present === null) continue
    const { digest: _, ...rest } = before as JsonObject
    const definition = await readDefinition(tx.trx, present.id ?? '', present.version ?? 0)
    found.set(item, plainJson({ ...rest, definition }) as JsonObject)
  }
  return found
}

interface Shown {
  readonly lines: ReadonlyMap<Item, readonly string[]>
  readonly examples: ReadonlyMap<string, LooserExample>
}

const withoutExamples = async (tx: ChainTx, { items }: Plan): Promise<Shown> => ({
  lines: await linesFor(tx.trx, items.slice(0, mostShown)),
  examples: new Map(),
})

async function describe(
  context: Reading,
  state: PresentState,
  { items }: Plan,
  most: number,
): Promise<Shown> {
  const lines = await linesFor(context.db, items.slice(0, mostShown))
  const rules = items.filter(({ kind, isOther }) => kind === 'rule' && isOther)
  if (rules.length === 0) return { lines, examples: new Map() }
  const from = savedRules(state.policy)
  const changed = new Map(rules.map((item) => [keyedId(item), item.after]))
  const to = [
    ...from.flatMap((rule) => {
      const after = changed.get(rule.id)
      return after === undefined
        ? [rule]
        : after === null
          ? []
          : [{ ...after, id: rule.id } as unknown as StoredRule]
    }),
    ...rules.flatMap((item) =>
      item.present === null ? [{ ...item.after, id: keyedId(item) } as unknown as StoredRule] : [],
    ),
  ]
  return {
    lines,
    examples: await decidedOtherwise(state.policy, { from, to }, new Set(changed.keys()), most),
  }
}

async function linesFor(
  db: Reading['db'],
  items: readonly Item[],
): Promise<ReadonlyMap<Item, readonly string[]>> {
  const lines = new Map<Item, readonly string[]>()
  for (const item of items) lines.set(item, [...(await linesOfItem(db, item)), ...whoMay(item)])
  return lines
}

async function linesOfItem(
  db: Reading['db'],
  { action, kind, declared, present, before, after, isOther }: Item,
): Promise<string[]> {
  if (action === 'delete')
    return kind === 'organization' ? ['the settings stay as they are; people change them again'] : []
  const path = present?.managed?.path ?? null
  const moved =
    action === 'change' && path !== declared?.path
      ? [`file: ${path ?? 'none'} → ${declared?.path ?? 'none'}`]
      : []
  if (!isOther || action === 'create') return moved
  if (kind !== 'workflow' || present === null) return [...moved, ...linesOf(before, after)]
  const definition =
    before?.['digest'] === after?.['digest']
      ? []
      : await definitionLines(db, present, declared as DeclaredAs<'workflow'>)
  const named = linesOf({ ...before, digest: null }, { ...after, digest: null })
  return [...moved, ...named, ...definition]
}

/** The reader of a plan may not be who applies it. */
function whoMay({ kind, before, after }: Item): string[] {
  if (kind !== 'workflow') return []
  const was = before?.['protected'] === true
  if (after !== null && was !== (after['protected'] === true))
    return ['only an owner applies this: it changes `protected`']
  return was ? ['only an admin or owner applies this: it is protected'] : []
}

const definitionLines = async (
  db: Reading['db'],
  { id, version }: NonNullable<Item['present']>,
  { body: { definition } }: DeclaredAs<'workflow'>,
): Promise<string[]> =>
  linesOf(plainJson(await readDefinition(db, id ?? '', version ?? 0)), plainJson(definition))

function answerOf(
  plan: Plan,
  { lines, examples }: Shown,
  dryRun: boolean,
  ids: ReadonlyMap<Item, string> = new Map(),
): Applied {
  const { items, unchanged, hash } = plan
  const changes = items.slice(0, mostShown).map((item) => ({
    action: item.action,
    kind: item.kind,
    name: item.name,
    id: ids.get(item) ?? item.present?.id ?? null,
    path: item.declared?.path ?? item.present?.managed?.path ?? null,
    lines: lines.get(item) ?? [],
    decided_otherwise: item.kind === 'rule' ? (examples.get(keyedId(item)) ?? null) : null,
  }))
  return {
    dry_run: dryRun,
    plan: hash,
    ...countsOf(items, unchanged),
    changes,
    more: items.length - changes.length,
  }
}
