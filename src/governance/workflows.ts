import type { Selectable } from 'kysely'
import { getTool } from '../catalog/index.ts'
import type { Context } from '../context.ts'
import { checkDefinition, type WorkflowDefinition } from '../contract/definition.ts'
import { newId } from '../contract/ids.ts'
import type { WorkflowsTable } from '../db/schema/workflows.ts'
import { hashOf } from './canonical.ts'
import type { ChainTx } from './chain-tx.ts'
import { headline } from '../policy/issues.ts'
import { toolStanding } from './connections.ts'
import { DomainError, notFound, type ErrorDetail } from './errors.ts'
import type { Once } from './idempotency.ts'
import { actorOf, type Caller } from './identity.ts'
import { readPage, viewPage, type Page, type PageRequest } from './page.ts'
import { requireNoTemplate } from './registry/entry.ts'
import { growAs } from './quotas/storage.ts'
import { runAs } from './standing.ts'

/** A workflow as listed. */
export interface WorkflowSummary {
  readonly id: string
  readonly organization_id: string
  readonly name: string
  readonly description: string
  /** The version that the next run freezes. */
  readonly version: number
  readonly created_by: string
  readonly created_at: string
  readonly updated_at: string
}
export interface WorkflowView extends WorkflowSummary {
  readonly definition: WorkflowDefinition
  /** Only in the answer to who saves a definition, and only where there is something to say. */
  readonly warnings?: readonly ErrorDetail[]
}

export interface WorkflowInput {
  readonly name: string
  readonly description: string
  readonly definition: WorkflowDefinition
}
export interface WorkflowChange {
  readonly name?: string | undefined
  readonly description?: string | undefined
  readonly definition?: WorkflowDefinition | undefined
  readonly message?: string | undefined
}

/** Saves a workflow and deploys its first version. `validation_error` names the steps that are wrong. */
export async function createWorkflow(
  context: Context,
  caller: Caller,
  input: WorkflowInput,
  once: Once | null = null,
): Promise<WorkflowView> {
  requireSound(input.definition)
  const id = newId('workflow')
  return growAs(context, caller, 'org.change', {
    action: 'create',
    bytes: JSON.stringify(input.definition).length,
    async work(tx) {
      const saved = await insertWorkflow(tx, caller, id, input)
      const view = { ...saved, ...warningsOf(context, tx, input.definition) }
      await once?.markActed(tx.trx, view)
      return view
    },
  })
}

/** Inserts a workflow with its first version. `message` says where that came from. */
export async function insertWorkflow(
  tx: ChainTx,
  caller: Caller,
  id: string,
  input: WorkflowInput,
  message = '',
): Promise<WorkflowView> {
  const row = {
    id,
    organization_id: caller.organizationId,
    name: input.name,
    description: input.description,
    current_version: 1,
    created_by: caller.userId,
    created_at: tx.now,
    updated_at: tx.now,
    deleted_at: null,
  }
  await tx.trx.insertInto('workflows').values(row).execute()
  await deploy(tx, caller, { id, version: 1, definition: input.definition, message })
  return { ...summaryOf(row), definition: input.definition }
}

/** Newest first. */
export async function listWorkflows(
  context: Context,
  organizationId: string,
  page: PageRequest,
): Promise<Page<WorkflowSummary>> {
  const query = context.db
    .selectFrom('workflows')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('deleted_at', 'is', null)
  return viewPage(await readPage(context.db, query, 'id', page, (row) => row.id), summaryOf)
}

export async function readWorkflow(context: Context, id: string): Promise<WorkflowView> {
  const row = await context.db
    .selectFrom('workflows as w')
    .innerJoin('workflow_versions as v', (join) =>
      join.onRef('v.workflow_id', '=', 'w.id').onRef('v.version', '=', 'w.current_version'),
    )
    .selectAll('w')
    .select('v.definition')
    .where('w.id', '=', id)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow', id)
  return { ...summaryOf(row), definition: JSON.parse(row.definition) as WorkflowDefinition }
}

/** Changes what is named. A definition, even an equal one, deploys a new version (specification, "Versioning" 3). */
export async function changeWorkflow(
  context: Context,
  caller: Caller,
  id: string,
  change: WorkflowChange,
): Promise<WorkflowView> {
  if (change.definition !== undefined) requireSound(change.definition)
  const said = await growAs(context, caller, 'org.change', {
    action: 'update',
    bytes: JSON.stringify(change).length,
    async work(tx) {
      const row = await lockWorkflow(tx, id)
      const version = change.definition === undefined ? row.current_version : row.current_version + 1
      await tx.trx
        .updateTable('workflows')
        .set({
          name: change.name ?? row.name,
          description: change.description ?? row.description,
          current_version: version,
          updated_at: tx.now,
        })
        .where('id', '=', id)
        .execute()
      if (change.definition !== undefined)
        await deploy(tx, caller, {
          id,
          version,
          definition: change.definition,
          message: change.message ?? '',
        })
      else record(tx, caller, id, 'workflow.updated', 'update', {})
      return change.definition === undefined ? {} : warningsOf(context, tx, change.definition)
    },
  })
  return { ...(await readWorkflow(context, id)), ...said }
}

/** Steps whose tool does not work in the organization as it is now: they would fail. Saving them is no error. */
function warningsOf(
  { config }: Context,
  { policy }: ChainTx,
  { steps }: WorkflowDefinition,
): { warnings?: readonly ErrorDetail[] } {
  const warnings = steps.flatMap((step, index) => {
    const tool = getTool(step.tool)
    const why = tool === undefined ? null : toolStanding(config.tools, policy.connections, tool).unavailable
    return why === null
      ? []
      : [{ path: `steps.${index}.tool`, message: `step \`${step.id}\` would fail: ${why}` }]
  })
  return warnings.length === 0 ? {} : { warnings }
}

/** Runs in flight go on: they hold a frozen version. `conflict` while it is a template that can be used. */
export async function deleteWorkflow(context: Context, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    await lockWorkflow(tx, id)
    await requireNoTemplate(tx, id)
    await tx.trx.updateTable('workflows').set({ deleted_at: tx.now }).where('id', '=', id).execute()
    record(tx, caller, id, 'workflow.deleted', 'delete', {})
  })
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

/** Inserts a frozen version and its audit entry. */
export async function deploy(
  tx: ChainTx,
  caller: Caller,
  version: {
    id: string
    version: number
    definition: WorkflowDefinition
    message: string
    rolledBack?: { from: number; to: number }
  },
): Promise<void> {
  const { rolledBack } = version
  const digest = hashOf(version.definition)
  await tx.trx
    .insertInto('workflow_versions')
    .values({
      workflow_id: version.id,
      version: version.version,
      definition: JSON.stringify(version.definition),
      digest,
      message: version.message,
      deployed_by: caller.userId,
      deployed_at: tx.now,
      rolled_back_from: rolledBack?.from ?? null,
      rolled_back_to: rolledBack?.to ?? null,
    })
    .execute()
  record(tx, caller, version.id, 'workflow.deployed', 'deploy', {
    version: version.version,
    definition_hash: digest,
    ...(rolledBack === undefined ? {} : { rolled_back_from: rolledBack.from, rolled_back_to: rolledBack.to }),
  })
}

function record(
  tx: ChainTx,
  caller: Caller,
  workflowId: string,
  eventType: string,
  action: string,
  metadata: Record<string, string | number>,
): void {
  tx.append({ eventType, action, status: 'success', actor: actorOf(caller), workflowId, metadata })
}

/** Unknown tools, references, cycles and the like (contract section 3). */
export function requireSound(definition: WorkflowDefinition): void {
  const issues = checkDefinition(definition, { get: getTool })
  if (issues.length === 0) return
  throw new DomainError(
    'validation_error',
    headline('the definition is not valid', issues),
    issues.map((issue) => ({ path: `definition.${issue.path}`, message: issue.message })),
  )
}

function summaryOf(row: Selectable<WorkflowsTable>): WorkflowSummary {
  return {
    id: row.id,
    organization_id: row.organization_id,
    name: row.name,
    description: row.description,
    version: row.current_version,
    created_by: row.created_by,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}
