import { sql } from 'kysely'
import { newId } from '../../contract/ids.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Changer } from '../changes/gate.ts'
import type { ErrorDetail } from '../errors.ts'
import {
  doerOf,
  dropGroup,
  insertGroup,
  putIntoGroup,
  takeOutOfGroup,
  updateGroup,
} from '../people/groups.ts'
import { prepareOverride } from '../rules/role-overrides.ts'
import type { AnyBody, RuleKindName } from '../rules/rule-kinds.ts'
import { prepareSettings } from '../rules/settings.ts'
import { preparePolicy } from '../rules/tool-policies.ts'
import { writeRules } from '../rules/write-rules.ts'
import {
  dropWorkflow,
  insertWorkflow,
  lockWorkflow,
  requireRights,
  saveChange,
  type Saver,
} from '../workflows/workflows.ts'
import { detailsOf, refuse } from './check.ts'
import { toolAndRole, type ApplyRequest, type DeclaredAs, type DeclaredKind } from './declared.ts'
import { isRule, type Item } from './plan.ts'
import type { PresentState } from './present.ts'

/* Makes all changes of an application of files, in one transaction. */

export interface Saving {
  readonly tx: ChainTx
  readonly changer: Changer & { readonly role: Caller['role'] }
  readonly state: PresentState
  readonly request: ApplyRequest
}

/** Returns the ids of new objects, by item. */
export async function saveItems(saving: Saving, items: readonly Item[]): Promise<ReadonlyMap<Item, string>> {
  const { tx, request } = saving
  const ids = new Map(
    items.flatMap((item) => {
      const kind = item.action === 'create' ? idKinds[item.kind] : undefined
      return kind === undefined ? [] : [[item, newId(kind)] as const]
    }),
  )
  // Whose file changes is a right of its own for a protected workflow.
  const other = items.filter(
    ({ isOther, action, kind }) => isOther || action === 'delete' || kind === 'workflow',
  )
  const [going, staying] = [
    other.filter(({ action }) => action === 'delete'),
    other.filter(({ action }) => action !== 'delete'),
  ]
  const saves = saversOf(saving, ids)
  const each = async (kind: SavedAlone, list: readonly Item[]) =>
    all(
      list.filter((item) => item.kind === kind),
      saves[kind],
    )
  await each('group', staying)
  const named = staying.flatMap((item) =>
    item.kind === 'group' ? [[item.name, idOf(item, ids)] as const] : [],
  )
  tx.makes(named)
  await each('organization', staying)
  for (const kind of ['label_rule', 'rule'] as const)
    await writeRules(
      tx,
      saving.changer,
      kind,
      other.filter((item) => item.kind === kind).map((item) => ruleChange(item, ids)),
    )
  for (const list of [staying, going])
    for (const kind of ['tool_policy', 'role_override', 'workflow'] as const) await each(kind, list)
  await each('group', going)
  await markItems(tx, request, items, ids)
  return ids
}

const idKinds: Partial<Record<DeclaredKind, 'group' | 'labelRule' | 'rule' | 'workflow'>> = {
  group: 'group',
  label_rule: 'labelRule',
  rule: 'rule',
  workflow: 'workflow',
}

const idOf = (item: Item, ids: ReadonlyMap<Item, string>): string => ids.get(item) ?? item.present?.id ?? ''

const ruleChange = (item: Item, ids: ReadonlyMap<Item, string>) => ({
  id: idOf(item, ids),
  before: (item.present?.body ?? null) as AnyBody | null,
  after: (item.declared?.body ?? null) as AnyBody | null,
})

/** All errors at once. Nothing of it still runs when it throws, because the transaction ends then. */
async function all(items: readonly Item[], save: (item: Item) => Promise<unknown>): Promise<void> {
  const ended = await Promise.allSettled(items.map(save))
  const mistakes = ended.flatMap((end, index): ErrorDetail[] => {
    if (end.status === 'fulfilled') return []
    const { declared, kind, name, present } = items[index] as Item
    const place = declared ?? { at: 0, path: present?.managed?.path ?? `${kind} ${name}` }
    return detailsOf(end.reason, place)
  })
  const failed = ended.find((end) => end.status === 'rejected')
  if (failed !== undefined) refuse(failed.reason.code, mistakes)
}

/** Rules are written together. */
type SavedAlone = Exclude<DeclaredKind, RuleKindName>
type Savers = Readonly<Record<SavedAlone, (item: Item) => Promise<unknown>>>

function saversOf({ tx, changer, state }: Saving, ids: ReadonlyMap<Item, string>): Savers {
  const saver: Saver = changer
  return {
    group: (item) => saveGroup(tx, changer, state, item, idOf(item, ids)),
    async organization({ declared }) {
      if (declared === null) return
      const prepared = await prepareSettings(tx, changer, (declared as DeclaredAs<'organization'>).body)
      await prepared.save()
    },
    async tool_policy({ name, declared }) {
      const { tool, role } = toolAndRole(name)
      const body = (declared as DeclaredAs<'tool_policy'> | null)?.body ?? null
      await (await preparePolicy(tx, changer, { tool, body, ...(role === undefined ? {} : { role }) })).save()
    },
    async role_override({ name, declared, present }) {
      const { tool, role = '' } = toolAndRole(name)
      const override = (allowed: boolean | null) =>
        prepareOverride(tx, changer, { tool_name: tool, role, allowed })
      if (present !== null) await (await override(null)).save()
      if (declared !== null)
        await (await override((declared as DeclaredAs<'role_override'>).body.allowed)).save()
    },
    async workflow(item) {
      const { declared, present, name: slug } = item
      const id = idOf(item, ids)
      if (declared === null) {
        requireRights(await lockWorkflow(tx, id), saver)
        return dropWorkflow(tx, saver, id)
      }
      const { body } = declared as DeclaredAs<'workflow'>
      if (present === null) {
        requireRights({ protected: false }, saver, body.protected)
        return insertWorkflow(tx, saver, id, { ...body, slug })
      }
      const row = await lockWorkflow(tx, id)
      requireRights(row, saver, body.protected)
      return item.isOther ? saveChange(tx, saver, row, body) : undefined
    },
  }
}

async function saveGroup(
  tx: ChainTx,
  changer: Changer,
  { people }: PresentState,
  { name, declared, present, before }: Item,
  id: string,
): Promise<void> {
  const doer = doerOf(changer)
  if (declared === null) return dropGroup(tx, id, doer)
  const { description, members } = (declared as DeclaredAs<'group'>).body
  const wanted = new Set(members.flatMap((named) => people.get(named.toLowerCase())?.id ?? []))
  if (present === null) return insertGroup(tx, { id, name, description, members: [...wanted] }, doer)
  if (before?.['description'] !== description) await updateGroup(tx, id, { description }, doer)
  const rows = await tx.trx.selectFrom('group_members').select('user_id').where('group_id', '=', id).execute()
  const had = new Set(rows.map(({ user_id }) => user_id))
  for (const user of [...had].filter((each) => !wanted.has(each)))
    await takeOutOfGroup(tx, { id, name }, user, doer.actor, doer.cause)
  for (const user of [...wanted].filter((each) => !had.has(each)))
    await putIntoGroup(tx, { id, name }, user, doer)
}

/** Writes where each object comes from now. */
async function markItems(
  tx: ChainTx,
  { repository, commit }: ApplyRequest,
  items: readonly Item[],
  ids: ReadonlyMap<Item, string>,
): Promise<void> {
  const marked = items.map((item) => {
    const mark: ManagedBy = {
      repository,
      path: item.declared?.path ?? null,
      commit,
      applied_at: tx.now.toISOString(),
    }
    return { item, mark: item.declared === null ? null : mark, id: idOf(item, ids) }
  })
  await writeMarks(
    tx,
    marked.map(({ item: { kind, name }, mark, id }) => ({ kind, name, id, mark })),
  )
}

export interface Mark {
  readonly kind: DeclaredKind
  readonly name: string
  readonly id: string
  readonly mark: ManagedBy | null
}

const tables = {
  group: 'groups',
  label_rule: 'label_rules',
  rule: 'rules',
  workflow: 'workflows',
  organization: 'organizations',
} as const
const policyTables = { tool_policy: 'tool_policies', role_override: 'role_policy_overrides' } as const

export async function writeMarks(tx: ChainTx, marks: readonly Mark[]): Promise<void> {
  for (const [kind, table] of Object.entries(tables)) {
    const rows = marks.filter((each) => each.kind === kind)
    if (rows.length === 0) continue
    const list = rows.map(({ id, mark }) => ({ id: kind === 'organization' ? tx.organizationId : id, mark }))
    await sql`update ${sql.table(table)} as t set managed_by = c.mark
      from json_to_recordset(${JSON.stringify(list)}::json) as c(id text, mark jsonb) where t.id = c.id`.execute(
      tx.trx,
    )
  }
  for (const [kind, table] of Object.entries(policyTables)) {
    const rows = marks.filter((each) => each.kind === kind)
    if (rows.length === 0) continue
    const list = rows.map(({ name, mark }) => ({
      tool: toolAndRole(name).tool,
      role: toolAndRole(name).role ?? '',
      mark,
    }))
    await sql`update ${sql.table(table)} as t set managed_by = c.mark
      from json_to_recordset(${JSON.stringify(list)}::json) as c(tool text, role text, mark jsonb)
      where t.organization_id = ${tx.organizationId} and t.tool_name = c.tool and t.role = c.role`.execute(
      tx.trx,
    )
  }
}

interface Told {
  readonly applyId: string
  readonly plan: string
  readonly counts: {
    readonly created: number
    readonly changed: number
    readonly deleted: number
    readonly unchanged: number
  }
}

/** The entry of the whole act. */
export function appendApplied({ tx, changer, request }: Saving, { applyId, plan, counts }: Told): void {
  tx.policyChanged()
  tx.append({
    eventType: 'organization.applied',
    action: 'apply',
    actor: actorOf(changer),
    metadata: {
      ...changer.cause,
      apply_id: applyId,
      plan,
      repository: request.repository,
      commit: request.commit,
      ...counts,
    },
  })
}

export const countsOf = (items: readonly Item[], unchanged: number): Told['counts'] => {
  const count = (test: (item: Item) => boolean) => items.filter(test).length
  return {
    created: count(({ action }) => action === 'create'),
    changed: count(({ action, isOther }) => action === 'change' || (action === 'adopt' && isOther)),
    deleted: count(({ action }) => action === 'delete'),
    unchanged,
  }
}

export const bytesOf = (items: readonly Item[]): number => {
  const size = (body: object | null) => (body === null ? 0 : Buffer.byteLength(JSON.stringify(body)))
  return items.reduce((sum, { declared, present, isOther, kind }) => {
    if (!isOther || declared === null) return sum
    // A version of a workflow stays beside the one before.
    return sum + size(declared.body) - (kind === 'workflow' ? 0 : size(present?.body ?? null))
  }, 0)
}

export const rulesAdded = (items: readonly Item[]): number =>
  items
    .filter(isRule)
    .reduce((sum, { action }) => sum + (action === 'create' ? 1 : action === 'delete' ? -1 : 0), 0)
