import { sql, type Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { RegistryState, WorkflowsTable } from '../../db/schema/workflows.ts'
import type { Json } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { lockWorkflow } from '../workflows.ts'
import { entryOf, templateView, type EntryRow, type TemplateView } from './entry.ts'
import { growAs, type Growth } from '../quotas/storage.ts'
import { requireRole, runAs } from '../standing.ts'

/** What an owner says when approving (specification, "Registry entry (template)"). */
export interface TemplateInput {
  readonly templateName: string
  readonly description: string
  readonly tags: readonly string[]
  /** The version to freeze; default: the current one. */
  readonly version?: number | undefined
}
export interface Deprecation {
  readonly reason: string
  /** A workflow to take instead. */
  readonly replacementId: string | null
}
type Move = 'approve' | 'deprecate' | 'archive'

/** From which state each move leads where; everything else is `bad_transition`. */
const moves = {
  approve: { from: 'draft', to: 'active' },
  deprecate: { from: 'active', to: 'deprecated' },
  archive: { from: 'deprecated', to: 'archived' },
} as const satisfies Record<Move, { from: RegistryState | 'draft'; to: RegistryState }>

/**
 * Makes a version of the workflow a template. `personal_workflow` in a personal organization, `bad_transition` unless it
 * is a draft, `validation_error` for a version that there is not.
 */
export function approveTemplate(
  context: Context,
  caller: Caller,
  workflowId: string,
  input: TemplateInput,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(context, caller, workflowId, 'approve', once, async (tx, { current_version: current }) => {
    await requireOrganization(tx)
    const { version, digest } = await requireVersion(tx, workflowId, input.version ?? current)
    await tx.trx
      .insertInto('registry_entries')
      .values({
        workflow_id: workflowId,
        organization_id: tx.organizationId,
        template_name: input.templateName,
        description: input.description,
        tags: [...input.tags],
        version,
        approved_by: caller.userId,
        approved_at: tx.now,
      })
      .execute()
    return { template_name: input.templateName, version, definition_hash: digest }
  })
}

/** Warns everyone who uses it from now on. `validation_error` for a replacement that nobody could use. */
export function deprecateTemplate(
  context: Context,
  caller: Caller,
  workflowId: string,
  { reason, replacementId }: Deprecation,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(context, caller, workflowId, 'deprecate', once, async (tx) => {
    if (replacementId !== null) await requireReplacement(tx, workflowId, replacementId)
    await update(tx, workflowId, {
      state: 'deprecated',
      deprecated_by: caller.userId,
      deprecated_at: tx.now,
      reason,
      replacement_id: replacementId,
    })
    return replacementId === null ? {} : { replacement_id: replacementId }
  })
}

/** Ends a template for good: nobody uses it from now on. */
export function archiveTemplate(
  context: Context,
  caller: Caller,
  workflowId: string,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(context, caller, workflowId, 'archive', once, async (tx) => {
    await update(tx, workflowId, { state: 'archived', archived_by: caller.userId, archived_at: tx.now })
    return {}
  })
}

/** One move under the chain's lock, audited. `work` writes the entry and answers what is to be recorded beside it. */
async function move(
  context: Context,
  caller: Caller,
  workflowId: string,
  name: Move,
  once: Once | null,
  work: (tx: ChainTx, workflow: Selectable<WorkflowsTable>) => Promise<Record<string, Json>>,
): Promise<TemplateView> {
  const inTransaction: Growth<TemplateView>['work'] = async (tx, now) => {
    requireRole((await now()).role, 'owner')
    const workflow = await lockWorkflow(tx, workflowId)
    requireState(await entryOf(tx, workflowId), name)
    const metadata = await work(tx, workflow)
    tx.append({
      eventType: `template.${moves[name].to === 'active' ? 'approved' : moves[name].to}`,
      action: name,
      status: 'success',
      actor: actorOf(caller),
      workflowId,
      metadata,
    })
    const view = templateView((await entryOf(tx, workflowId)) as EntryRow)
    await once?.markActed(tx.trx, view)
    return view
  }
  // Approving keeps another text; to deprecate or archive is always possible.
  return name === 'approve'
    ? growAs(context, caller, 'org.change', { action: name, work: inTransaction })
    : runAs(context, caller, 'org.change', inTransaction)
}

function requireState(entry: EntryRow | undefined, name: Move): void {
  const state = entry?.state ?? 'draft'
  const { from } = moves[name]
  if (state === from) return
  throw new DomainError('bad_transition', refusals[name][state])
}

/** What is wrong and what to do instead, by move and present state. */
const refusals: Readonly<Record<Move, Readonly<Record<RegistryState | 'draft', string>>>> = {
  approve: {
    draft: '',
    active:
      'the workflow is a template already: to change one, approve another workflow and deprecate this one',
    deprecated:
      'the template is deprecated, and its way leads to the archive alone: approve another workflow',
    archived: 'the template is archived, which is final: approve another workflow',
  },
  deprecate: {
    draft: 'the workflow is no template: only an active one can be deprecated',
    active: '',
    deprecated: 'the template is deprecated already: archive it to end its use',
    archived: 'the template is archived, which is final',
  },
  archive: {
    draft: 'the workflow is no template: only a deprecated one can be archived',
    active: 'the template is active: deprecate it first, so that its users are warned',
    deprecated: '',
    archived: 'the template is archived already',
  },
}

async function requireOrganization(tx: ChainTx): Promise<void> {
  const { personal } = await tx.trx
    .selectFrom('organizations')
    .select('personal')
    .where('id', '=', tx.organizationId)
    .executeTakeFirstOrThrow()
  if (!personal) return
  throw new DomainError(
    'personal_workflow',
    'the workflow is a personal one: save it in an organization to make it a template',
  )
}

async function requireVersion(tx: ChainTx, workflowId: string, version: number) {
  const row = await tx.trx
    .selectFrom('workflow_versions')
    .select(['version', 'digest'])
    .where('workflow_id', '=', workflowId)
    .where('version', '=', version)
    .executeTakeFirst()
  if (row !== undefined) return row
  throw invalid('version', `there is no version \`${version}\` of the workflow: GET its versions lists them`)
}

/** A workflow of the organization that is not archived and does not lead back to the one it is to replace. */
async function requireReplacement(tx: ChainTx, workflowId: string, replacementId: string): Promise<void> {
  const path = 'replacement_id'
  if (replacementId === workflowId)
    throw invalid(path, 'a template cannot replace itself: name another workflow')
  const row = await tx.trx
    .selectFrom('workflows as w')
    .leftJoin('registry_entries as e', 'e.workflow_id', 'w.id')
    .select('e.state')
    .where('w.id', '=', replacementId)
    .where('w.organization_id', '=', tx.organizationId)
    .where('w.deleted_at', 'is', null)
    .executeTakeFirst()
  if (row === undefined) throw invalid(path, `no workflow \`${replacementId}\` in the organization`)
  if (row.state === 'archived')
    throw invalid(path, `\`${replacementId}\` is archived and cannot be used: name another workflow`)
  const { rows } = await sql`
    with recursive chain(id) as (
      select ${replacementId}::text
      union
      select e.replacement_id from registry_entries e join chain on e.workflow_id = chain.id
    )
    select 1 from chain where id = ${workflowId}`.execute(tx.trx)
  if (rows.length > 0)
    throw invalid(path, `\`${replacementId}\` is itself replaced by this template: name another workflow`)
}

function invalid(path: string, message: string): DomainError {
  return new DomainError('validation_error', message, [{ path, message }])
}

async function update(tx: ChainTx, workflowId: string, change: Partial<EntryRow>): Promise<void> {
  await tx.trx.updateTable('registry_entries').set(change).where('workflow_id', '=', workflowId).execute()
}
