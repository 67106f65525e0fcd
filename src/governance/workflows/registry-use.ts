import type { Acting } from '../access/recheck.ts'
import { newId } from '../../contract/ids.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireSound } from '../tools/sound-definition.ts'
import { originOfRow, type Origin } from '../runs/values/authors.ts'
import { insertWorkflow, type WorkflowView } from './workflows.ts'
import { entryOf, type EntryRow } from './registry-entry.ts'
import { growAs } from '../limits/storage.ts'

/** A workflow made from a template, with advice about the template. */
export interface UsedTemplate extends WorkflowView {
  readonly template_id: string
  readonly template_version: number
  /** Is present only if the template is deprecated. */
  readonly warning?: string
  readonly replacement_id?: string | null
}

/**
 * Makes a new workflow in the caller's organization from the frozen version of a template. The default name and
 * description are those of the template. Throws `not_found` if the workflow is not a template, `conflict` if the
 * template is archived, and `validation_error` if the definition names something that no longer exists.
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

async function frozenVersion(tx: ChainTx, entry: EntryRow): Promise<Origin> {
  const row = await tx.trx
    .selectFrom('workflow_versions')
    .select(['definition', 'authors', 'step_authors'])
    .where('workflow_id', '=', entry.workflow_id)
    .where('version', '=', entry.version)
    .executeTakeFirstOrThrow()
  return originOfRow(row)
}
