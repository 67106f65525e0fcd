import type { AuditMetadata } from '../../contract/audit-events.ts'
import type { Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import { getTool } from '../../tools/index.ts'
import type { Context, Changing } from '../context.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { newId } from '../../contract/ids.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import type { RegistryState, WorkflowsTable } from '../../db/schema/workflows.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { toolStanding, requireSound } from '../tools/connections.ts'
import { errorAt, notFound, type ErrorDetail } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireNoTemplate } from './registry-entry.ts'
import { isRoleName } from '../access/scopes.ts'
import { growAs } from '../limits/storage.ts'
import { refuseManaged } from '../access/managed.ts'
import { requireRole, runAs, type Acting, type PresentCaller } from '../access/recheck.ts'
import { authorsOf, originOf, type Origin } from '../runs/values/authors.ts'

export interface WorkflowSummary {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly slug: string | null
  readonly description: string
  /** Which the next run uses. */
  readonly version: number
  /** Only admins may change or delete it. */
  readonly protected: boolean
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
  readonly managed_by: ManagedBy | null
}
export interface WorkflowView extends WorkflowSummary {
  readonly definition: WorkflowDefinition
  /** Only in the answer to a request that saved a definition. */
  readonly warnings?: readonly ErrorDetail[]
}

/** They stand in the definition too, and replace what it says. */
type People = { readonly [Name in 'readers' | 'run_by']?: WorkflowDefinition[Name] }

export interface WorkflowInput extends People {
  readonly name: string
  readonly slug?: string | null | undefined
  readonly description: string
  readonly definition: WorkflowDefinition
  readonly protected?: boolean | undefined
}
export interface WorkflowChange extends People {
  readonly protected?: boolean | undefined
  readonly name?: string | undefined
  readonly slug?: string | null | undefined
  readonly description?: string | undefined
  readonly definition?: WorkflowDefinition | undefined
  readonly message?: string | undefined
}

/** Throws `validation_error` that names the wrong steps. */
export async function createWorkflow(
  context: Acting,
  caller: Caller,
  input: WorkflowInput,
  once: Once | null = null,
): Promise<WorkflowView> {
  const definition = withPeople(input.definition, input)
  requireSound(definition)
  const id = newId('workflow')
  return growAs(context, caller, 'org.change', {
    action: 'create',
    bytes: JSON.stringify(definition).length,
    async work(tx, now) {
      const present = await now()
      if (input.protected === true) requireRole(present.role, 'owner')
      const saved = await insertWorkflow(tx, present, id, { ...input, definition })
      return keepMade(once, tx, { ...saved, ...warningsOf(context, tx, caller, definition) })
    },
  })
}

/** With the readers that stand beside it. */
export const withPeople = (
  definition: WorkflowDefinition,
  { readers, run_by }: People,
): WorkflowDefinition => ({
  ...definition,
  ...(readers === undefined ? {} : { readers }),
  ...(run_by === undefined ? {} : { run_by }),
})

/** With the role that was read under the lock. */
export type Saver = Pick<Caller, 'userId' | 'keyId' | 'ip' | 'requestId' | 'role'> & {
  /** In the entries. */
  readonly cause?: AuditMetadata<'workflow.deleted'>
}

/** `from` is the template's version that it is made of, and `message` names it. */
export async function insertWorkflow(
  tx: ChainTx,
  caller: Saver,
  id: string,
  input: WorkflowInput,
  {
    message = '',
    from = null,
    pollOf = null,
  }: { readonly message?: string; readonly from?: Origin | null; readonly pollOf?: string | null } = {},
): Promise<WorkflowView> {
  const row = {
    id,
    organization_id: tx.organizationId,
    name: input.name,
    slug: input.slug ?? null,
    description: input.description,
    current_version: 1,
    protected: input.protected ?? false,
    created_by: caller.userId,
    created_at: tx.now,
    updated_at: tx.now,
    deleted_at: null,
    poll_of: pollOf,
  }
  await requireFreeSlug(tx, id, row.slug)
  await tx.trx.insertInto('workflows').values(row).execute()
  await deploy(tx, caller, { id, version: 1, definition: input.definition, message, origin: from })
  if (row.protected) appendWorkflowEvent(tx, caller, id, 'update', { protected: true })
  return { ...summaryOf({ ...row, managed_by: null }), definition: input.definition }
}

export interface WorkflowDetail extends WorkflowSummary {
  readonly definition: WorkflowDefinition
  readonly created_by_email: string
  /** null: it is no template. */
  readonly template_state: RegistryState | null
}

export async function readWorkflow(db: Db, id: string): Promise<WorkflowDetail> {
  const row = await db
    .selectFrom('workflows as w')
    .innerJoin('workflow_versions as v', (join) =>
      join.onRef('v.workflow_id', '=', 'w.id').onRef('v.version', '=', 'w.current_version'),
    )
    .innerJoin('users as u', 'u.id', 'w.created_by')
    .leftJoin('registry_entries as e', 'e.workflow_id', 'w.id')
    .selectAll('w')
    .select(['v.definition', 'u.email', 'e.state'])
    .where('w.id', '=', id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow', id)
  return {
    ...summaryOf(row),
    created_by_email: row.email,
    template_state: row.state,
    definition: JSON.parse(row.definition) as WorkflowDefinition,
  }
}

/** A definition, `readers` or `run_by` become a new version, unless they are the same. Without a change, nothing is written. */
export async function changeWorkflow(
  context: Changing,
  caller: Caller,
  id: string,
  change: WorkflowChange,
): Promise<WorkflowView> {
  if (change.definition !== undefined) requireSound(change.definition)
  const saved = await growAs(context, caller, 'org.change', {
    action: 'update',
    bytes: JSON.stringify(change).length,
    async work(tx, now) {
      const row = await lockWorkflow(tx, id)
      const present = await now()
      requireChangeable(row, present, change.protected)
      const { definition, ...summary } = await saveChange(tx, present, row, change)
      const given = change.definition ?? definition
      const warnings = given === null ? {} : warningsOf(context, tx, caller, given)
      return { ...summary, ...warnings, definition }
    },
  })
  // As of this change, even if another one has been saved meanwhile.
  return { ...saved, definition: saved.definition ?? (await readDefinition(context.db, id, saved.version)) }
}

/** The caller has checked the rights. `definition` is null without a new version. */
export async function saveChange(
  tx: ChainTx,
  caller: Saver,
  row: Selectable<WorkflowsTable>,
  change: WorkflowChange,
): Promise<WorkflowSummary & { readonly definition: WorkflowDefinition | null }> {
  const { id } = row
  const definition = await definitionAfter(tx, row, change)
  if (definition === null && isSame(row, change)) return { ...summaryOf(row), definition }
  const version = definition === null ? row.current_version : row.current_version + 1
  const changed = {
    name: change.name ?? row.name,
    slug: change.slug === undefined ? row.slug : change.slug,
    description: change.description ?? row.description,
    protected: change.protected ?? row.protected,
    current_version: version,
    updated_at: tx.now,
  }
  if (changed.slug !== row.slug) await requireFreeSlug(tx, id, changed.slug)
  await tx.trx.updateTable('workflows').set(changed).where('id', '=', id).execute()
  if (definition !== null)
    await deploy(tx, caller, {
      id,
      version,
      definition,
      message: change.message ?? '',
      origin: await originOf(tx.trx, id, { current: row.current_version, definition }),
    })
  const protection = changed.protected === row.protected ? {} : { protected: changed.protected }
  if (definition === null || changed.protected !== row.protected)
    appendWorkflowEvent(tx, caller, id, 'update', protection)
  return { ...summaryOf({ ...row, ...changed }), definition }
}

/** Null without a new version. */
async function definitionAfter(
  tx: ChainTx,
  { id, current_version: current }: Selectable<WorkflowsTable>,
  change: WorkflowChange,
): Promise<WorkflowDefinition | null> {
  const { definition, readers, run_by } = change
  if (definition === undefined && readers === undefined && run_by === undefined) return null
  const before = await readDefinition(tx.trx, id, current)
  const after = withPeople(definition ?? before, change)
  return hashOf(after) === hashOf(before) ? null : after
}

/** A version never changes, so it needs no lock. */
export async function readDefinition(db: Db, id: string, version: number): Promise<WorkflowDefinition> {
  const row = await db
    .selectFrom('workflow_versions')
    .select('definition')
    .where('workflow_id', '=', id)
    .where('version', '=', version)
    .executeTakeFirstOrThrow()
  return JSON.parse(row.definition) as WorkflowDefinition
}

/** For each step whose tool does not work for the caller now, or that asks a group that does not exist. The workflow may still be saved. */
function warningsOf(
  { config }: Pick<Context, 'config'>,
  { policy }: ChainTx,
  { userId }: Caller,
  { steps }: WorkflowDefinition,
): { warnings?: readonly ErrorDetail[] } {
  const warnings = steps.flatMap((step, index) => {
    const tool = step.tool === undefined ? undefined : getTool(step.tool)
    const why =
      tool === undefined ? null : toolStanding(config.tools, policy.connections, tool, userId).unavailable
    return [
      ...(why === null
        ? []
        : [{ path: `steps.${index}.tool`, message: `step \`${step.id}\` would fail: ${why}` }]),
      ...groupsAsked(step.ask).flatMap(([path, group]) =>
        policy.groups.has(group)
          ? []
          : [
              {
                path: `steps.${index}.ask.${path}`,
                message: `step \`${step.id}\` would ask nobody: there is no group \`${group}\``,
              },
            ],
      ),
    ]
  })
  return warnings.length === 0 ? {} : { warnings }
}

/** With the path of each. */
const groupsAsked = (asked: WorkflowDefinition['steps'][number]['ask']): (readonly [string, string])[] =>
  [
    ['to', asked?.to] as const,
    ...(asked?.escalate ?? []).map(({ to }, at) => [`escalate.${at}.to`, to] as const),
  ].flatMap(([path, to]) =>
    typeof to === 'object' && 'group' in to ? [[`${path}.group`, to.group] as const] : [],
  )

/** Runs in progress go on with their frozen version. Throws `conflict` for a template that is not archived. */
export async function deleteWorkflow(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    requireChangeable(await lockWorkflow(tx, id), present)
    await dropWorkflow(tx, present, id)
  })
}

/** The caller has checked the rights. Throws as `deleteWorkflow` does. */
export async function dropWorkflow(tx: ChainTx, caller: Saver, id: string): Promise<void> {
  await requireNoTemplate(tx, id)
  await tx.trx.updateTable('workflows').set({ deleted_at: tx.now }).where('id', '=', id).execute()
  appendWorkflowEvent(tx, caller, id, 'delete')
}

const isSame = (row: Selectable<WorkflowsTable>, change: WorkflowChange): boolean =>
  (['name', 'slug', 'description', 'protected'] as const).every(
    (field) => change[field] === undefined || change[field] === row[field],
  )

/** The organization's lock is held, so nobody takes it meanwhile. Throws `conflict`. */
async function requireFreeSlug(
  { trx, organizationId }: ChainTx,
  id: string,
  slug: string | null,
): Promise<void> {
  if (slug === null) return
  const other = await trx
    .selectFrom('workflows')
    .select('id')
    .where('organization_id', '=', organizationId)
    .where('slug', '=', slug)
    .where('deleted_at', 'is', null)
    .where('id', '<>', id)
    .executeTakeFirst()
  if (other !== undefined)
    throw errorAt(
      'conflict',
      'slug',
      `another workflow has the slug \`${slug}\`: choose another, or change \`${other.id}\``,
    )
}

/** Throws as `requireRights` does, and `conflict` for a workflow that comes from a file. */
export function requireChangeable(
  workflow: Selectable<WorkflowsTable>,
  caller: PresentCaller,
  isProtected?: boolean,
): void {
  requireRights(workflow, caller, isProtected)
  refuseManaged(workflow.organization_id, workflow.managed_by)
}

/** Throws `insufficient_role`: only admins change a protected workflow, only an owner its protection. */
export function requireRights(
  workflow: Pick<Selectable<WorkflowsTable>, 'protected'>,
  { role }: Pick<Caller, 'role'>,
  isProtected = workflow.protected,
): void {
  if (isProtected !== workflow.protected) requireRole(role, 'owner')
  if (workflow.protected) requireRole(role, 'admin')
}

export async function lockWorkflow(tx: ChainTx, id: string): Promise<Selectable<WorkflowsTable>> {
  const row = await tx.trx
    .selectFrom('workflows')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', tx.organizationId)
    .where('deleted_at', 'is', null)
    .forUpdate()
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow', id)
  return row
}

/** The caller's role is the one that was read under the lock. Throws `validation_error` for readers that do not exist. */
export async function deploy(
  tx: ChainTx,
  caller: Saver,
  version: {
    id: string
    version: number
    definition: WorkflowDefinition
    message: string
    rolledBack?: { from: number; to: number }
    /** From which this one takes over text. */
    origin: Origin | null
  },
): Promise<void> {
  const { rolledBack } = version
  refuseUnknownNames(tx, version.definition)
  const digest = hashOf(version.definition)
  const by = { user_id: caller.userId, role: caller.role }
  const { authors, step_authors } = authorsOf(version.definition, by, version.origin)
  await tx.trx
    .insertInto('workflow_versions')
    .values({
      workflow_id: version.id,
      version: version.version,
      definition: JSON.stringify(version.definition),
      digest,
      message: version.message,
      tools: toolsOf(version.definition),
      deployed_by: caller.userId,
      deployed_at: tx.now,
      rolled_back_from: rolledBack?.from ?? null,
      rolled_back_to: rolledBack?.to ?? null,
      authors: JSON.stringify(authors),
      step_authors: JSON.stringify(step_authors),
    })
    .execute()
  appendWorkflowEvent(tx, caller, version.id, 'deploy', {
    version: version.version,
    definition_hash: digest,
    ...(rolledBack === undefined ? {} : { rolled_back_from: rolledBack.from, rolled_back_to: rolledBack.to }),
  })
}

/** Nobody could start it, or read its values. */
function refuseUnknownNames(
  { policy, organizationId }: ChainTx,
  { run_by = [], readers = [] }: WorkflowDefinition,
): void {
  for (const [field, names] of Object.entries({ run_by, readers })) {
    const index = names.findIndex(
      (name) => !(field === 'run_by' && isRoleName(name)) && !policy.groups.has(name),
    )
    if (index < 0) continue
    const what = field === 'run_by' ? 'is no role, and there is no such group' : 'is no group'
    throw errorAt(
      'validation_error',
      `definition.${field}.${index}`,
      `\`${names[index]}\` ${what}: an owner makes it with \`POST /organizations/${organizationId}/groups\``,
    )
  }
}

const workflowEvents = {
  update: 'workflow.updated',
  delete: 'workflow.deleted',
  deploy: 'workflow.deployed',
} as const

function appendWorkflowEvent(
  tx: ChainTx,
  caller: Saver,
  workflowId: string,
  action: keyof typeof workflowEvents,
  metadata: AuditMetadata<'workflow.deployed' | 'workflow.updated'> = {},
): void {
  tx.append({
    eventType: workflowEvents[action],
    action,
    actor: actorOf(caller),
    workflowId,
    metadata: { ...metadata, ...caller.cause },
  })
}

/** Each once. */
export const toolsOf = ({ steps }: WorkflowDefinition): readonly string[] =>
  [...new Set(steps.flatMap(({ tool }) => tool ?? []))].sort()

export function summaryOf(row: Selectable<WorkflowsTable>): WorkflowSummary {
  return {
    id: row.id,
    organization_id: row.organization_id,
    name: row.name,
    slug: row.slug,
    description: row.description,
    version: row.current_version,
    protected: row.protected,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    managed_by: row.managed_by,
  }
}
