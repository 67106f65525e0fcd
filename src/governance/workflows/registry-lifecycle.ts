import type { Selectable } from 'kysely'
import { isReplacedBy } from '../../db/queries/workflows.ts'
import type { RegistryState, WorkflowsTable } from '../../db/schema/workflows.ts'
import type { AuditMetadata } from '../../contract/audit-events.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { lockWorkflow, insertWorkflow, type WorkflowView } from './workflows.ts'
import { entryOf, templateView, type EntryRow, type TemplateView } from './registry-entry.ts'
import { growAs, type Growth } from '../limits/storage.ts'
import { requireRole, runAs, type Acting } from '../access/recheck.ts'
import { newId } from '../../contract/ids.ts'
import { requireSound } from '../tools/connections.ts'
import { originOfRow, type Origin } from '../runs/values/authors.ts'

export interface TemplateInput {
  readonly templateName: string
  readonly description: string
  readonly tags: readonly string[]
  /** The default is the current version. */
  readonly version?: number | undefined
}
export interface Deprecation {
  readonly reason: string
  /** A workflow to use instead. */
  readonly replacementId: string | null
}
type Move = 'approve' | 'deprecate' | 'archive'

/** Any other move is refused with `bad_transition`. */
const moves = {
  approve: { from: 'draft', to: 'active' },
  deprecate: { from: 'active', to: 'deprecated' },
  archive: { from: 'deprecated', to: 'archived' },
} as const satisfies Record<Move, { from: RegistryState | 'draft'; to: RegistryState }>

/** Throws `personal_workflow`, `bad_transition` if it is no draft, and `validation_error` for an unknown version. */
export function approveTemplate(
  context: Acting,
  caller: Caller,
  workflowId: string,
  input: TemplateInput,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(
    context,
    caller,
    workflowId,
    { name: 'approve', once },
    async (tx, { current_version: current }) => {
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
    },
  )
}

/** Every later use returns a warning. Throws `validation_error` for a replacement that cannot be used. */
export function deprecateTemplate(
  context: Acting,
  caller: Caller,
  workflowId: string,
  { reason, replacementId }: Deprecation,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(context, caller, workflowId, { name: 'deprecate', once }, async (tx) => {
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

/** For good. Nobody can use it after the commit. */
export function archiveTemplate(
  context: Acting,
  caller: Caller,
  workflowId: string,
  once: Once | null = null,
): Promise<TemplateView> {
  return move(context, caller, workflowId, { name: 'archive', once }, async (tx) => {
    await update(tx, workflowId, { state: 'archived', archived_by: caller.userId, archived_at: tx.now })
    return {}
  })
}

/** `work` changes the entry and returns metadata for the audit entry. */
async function move(
  context: Acting,
  caller: Caller,
  workflowId: string,
  { name, once }: { readonly name: Move; readonly once: Once | null },
  work: (
    tx: ChainTx,
    workflow: Selectable<WorkflowsTable>,
  ) => Promise<AuditMetadata<'template.approved' | 'template.deprecated'>>,
): Promise<TemplateView> {
  const inTransaction: Growth<TemplateView>['work'] = async (tx, now) => {
    requireRole((await now()).role, 'owner')
    const workflow = await lockWorkflow(tx, workflowId)
    requireState(await entryOf(tx, workflowId), name)
    const metadata = await work(tx, workflow)
    tx.append({
      eventType: `template.${moves[name].to === 'active' ? 'approved' : moves[name].to}`,
      action: name,
      actor: actorOf(caller),
      workflowId,
      metadata,
    })
    return keepMade(once, tx, templateView((await entryOf(tx, workflowId)) as EntryRow))
  }
  // Approving stores more text. Deprecating and archiving work even over the storage limit.
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

/** For each refused move, by the current state. */
const refusals: Readonly<Record<Move, Readonly<Record<RegistryState | 'draft', string>>>> = {
  approve: {
    draft: '',
    active:
      'the workflow is already a template: to replace it, approve another workflow and deprecate this one',
    deprecated: 'a deprecated template can only be archived: approve another workflow',
    archived: 'an archived template cannot change: approve another workflow',
  },
  deprecate: {
    draft: 'the workflow is not a template: only an active template can be deprecated',
    active: '',
    deprecated: 'the template is already deprecated: archive it to end its use',
    archived: 'an archived template cannot change',
  },
  archive: {
    draft: 'the workflow is not a template: only a deprecated template can be archived',
    active: 'the template is active: deprecate it first, so that its users are warned',
    deprecated: '',
    archived: 'the template is already archived',
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
    'a personal workflow cannot be a template: save it in another organization first',
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
  throw invalid('version', `the workflow has no version \`${version}\`: GET its versions lists them`)
}

/** Throws `validation_error` for itself, an unknown or archived one, and one that this replaces, even indirectly. */
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
  const { rows } = await isReplacedBy(workflowId, replacementId).execute(tx.trx)
  if (rows.length > 0)
    throw invalid(path, `\`${replacementId}\` is itself replaced by this template: name another workflow`)
}

function invalid(path: string, message: string): DomainError {
  return new DomainError('validation_error', message, [{ path, message }])
}

async function update(tx: ChainTx, workflowId: string, change: Partial<EntryRow>): Promise<void> {
  await tx.trx.updateTable('registry_entries').set(change).where('workflow_id', '=', workflowId).execute()
}

/** With advice about the template. */
export interface UsedTemplate extends WorkflowView {
  readonly template_id: string
  readonly template_version: number
  /** Only if the template is deprecated. */
  readonly warning?: string
  readonly replacement_id?: string | null
}

/**
 * Makes a workflow from the frozen version, by default with the name and description of the template. Throws
 * `not_found`, `conflict` if it is archived, and `validation_error` if the definition names something that no longer
 * exists.
 */
export async function useTemplate(
  context: Acting,
  caller: Caller,
  templateId: string,
  input: { readonly name?: string | undefined; readonly description?: string | undefined },
  once: Once | null = null,
): Promise<UsedTemplate> {
  const id = newId('workflow')
  return growAs(context, caller, 'org.change', {
    action: 'use',
    async work(tx, now) {
      const entry = await usableEntry(tx, templateId)
      const from = await frozenVersion(tx, entry)
      const { definition } = from
      requireSound(definition)
      const { name = entry.template_name, description = entry.description } = input
      const message = `from the template \`${templateId}\`, version ${entry.version}`
      const workflow = await insertWorkflow(
        tx,
        await now(),
        id,
        { name, description, definition },
        { message, from },
      )
      tx.append({
        eventType: 'template.used',
        action: 'use',
        actor: actorOf(caller),
        workflowId: templateId,
        metadata: { made_workflow_id: id, version: entry.version, state: entry.state },
      })
      return keepMade(once, tx, {
        ...workflow,
        template_id: templateId,
        template_version: entry.version,
        ...cautions(entry),
      })
    },
  })
}

async function usableEntry(tx: ChainTx, id: string): Promise<EntryRow> {
  const entry = await entryOf(tx, id)
  if (entry === undefined) throw notFound('template', id)
  if (entry.state === 'archived')
    throw new DomainError('conflict', `the template is archived and can no longer be used${insteadOf(entry)}`)
  return entry
}

function cautions(entry: EntryRow): Pick<UsedTemplate, 'warning' | 'replacement_id'> {
  if (entry.state !== 'deprecated') return {}
  return {
    warning: `the template is deprecated (${entry.reason})${insteadOf(entry)}`,
    replacement_id: entry.replacement_id,
  }
}

const insteadOf = ({ replacement_id: id }: EntryRow): string => (id === null ? '' : `: use \`${id}\` instead`)

async function frozenVersion(tx: ChainTx, entry: EntryRow): Promise<Origin> {
  const row = await tx.trx
    .selectFrom('workflow_versions')
    .select(['definition', 'authors', 'step_authors'])
    .where('workflow_id', '=', entry.workflow_id)
    .where('version', '=', entry.version)
    .executeTakeFirstOrThrow()
  return originOfRow(row)
}
