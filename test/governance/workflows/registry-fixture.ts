import { workflowDefinition, type WorkflowDefinition } from '../../../src/contract/definition.ts'
import type { Context } from '../../../src/governance/context.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { approveTemplate, deprecateTemplate } from '../../../src/governance/workflows/registry-lifecycle.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'

export const reading = (path: string): WorkflowDefinition =>
  workflowDefinition.parse({ steps: [{ id: 'read', tool: 'file_read', params: { path } }] })

export async function aWorkflow(context: Context, caller: Caller, path = 'a.md'): Promise<string> {
  const input = { name: 'Report', description: 'of a quarter', definition: reading(path) }
  return (await createWorkflow(context, caller, input)).id
}

export const asTemplate = { templateName: 'Reports', description: 'for everyone', tags: ['finance'] }

/** Creates a workflow that is a template in the state `state`. */
export async function aTemplate(
  context: Context,
  owner: Caller,
  state: 'active' | 'deprecated' = 'active',
  replacementId: string | null = null,
): Promise<string> {
  const id = await aWorkflow(context, owner)
  await approveTemplate(context, owner, id, asTemplate)
  if (state === 'deprecated') await deprecateTemplate(context, owner, id, { reason: 'old', replacementId })
  return id
}

/** The answer, or the error code if the request is refused. */
export const outcome = <T>(work: Promise<T>): Promise<T | string> =>
  work.catch((error: { code?: string }) => error.code ?? String(error))
