import type { Context } from '../../context.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { newId } from '../../contract/ids.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { insertWorkflow, requireSound, type WorkflowView } from '../workflows.ts'
import { entryOf, type EntryRow } from './entry.ts'
import { growAs } from '../quotas/storage.ts'

/** A workflow made out of a template, and what to know about that. */
export interface UsedTemplate extends WorkflowView {
  readonly template_id: string
  readonly template_version: number
  /** Of a deprecated template. */
  readonly warning?: string
  readonly replacement_id?: string | null
}

/**
 * Makes a new workflow out of a template's frozen version, the caller's own to change. `not_found` for a workflow that
 * is no template, `conflict` for an archived one, `validation_error` when the definition names what has gone since.
 * Name and description are the template's unless given.
 */
export async function useTemplate(
  context: Context,
  caller: Caller,
  templateId: string,
  input: { readonly name?: string | undefined; readonly description?: string | undefined },
  once: Once | null = null,
): Promise<UsedTemplate> {
  const id = newId('workflow')
  return growAs(context, caller, 'org.change', {
    action: 'use',
    async work(tx) {
      const entry = await usableEntry(tx, templateId)
      const definition = await frozenDefinition(tx, entry)
      requireSound(definition)
      const { name = entry.template_name, description = entry.description } = input
      const from = `from the template \`${templateId}\`, version ${entry.version}`
      const workflow = await insertWorkflow(tx, caller, id, { name, description, definition }, from)
      tx.append({
        eventType: 'template.used',
        action: 'use',
        status: 'success',
        actor: actorOf(caller),
        workflowId: templateId,
        metadata: { made_workflow_id: id, version: entry.version, state: entry.state },
      })
      const used = {
        ...workflow,
        template_id: templateId,
        template_version: entry.version,
        ...cautions(entry),
      }
      await once?.markActed(tx.trx, used)
      return used
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

async function frozenDefinition(tx: ChainTx, entry: EntryRow): Promise<WorkflowDefinition> {
  const { definition } = await tx.trx
    .selectFrom('workflow_versions')
    .select('definition')
    .where('workflow_id', '=', entry.workflow_id)
    .where('version', '=', entry.version)
    .executeTakeFirstOrThrow()
  return JSON.parse(definition) as WorkflowDefinition
}
