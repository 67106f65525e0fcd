import type { Kysely } from 'kysely'
import { dependencies, workflowDefinition, type WorkflowDefinition } from '../../contract/definition.ts'
import type { Database } from '../../db/schema/index.ts'
import { notFound } from '../errors.ts'
import { heapBytes, Recent } from '../recent.ts'

export interface FrozenVersion {
  readonly definition: WorkflowDefinition
  /** Step → the steps it depends on or references. */
  readonly dependsOn: ReadonlyMap<string, readonly string[]>
}

/** 32 MiB of them: hundreds of ordinary ones, dozens of the largest. */
const cache = new Recent<FrozenVersion>(32 * 1024 * 1024)

/** A frozen version of a workflow. Cached: a version never changes. */
export async function readVersion(
  db: Kysely<Database>,
  workflowId: string,
  version: number,
): Promise<FrozenVersion> {
  const key = `${workflowId}@${version}`
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const row = await db
    .selectFrom('workflow_versions')
    .select('definition')
    .where('workflow_id', '=', workflowId)
    .where('version', '=', version)
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow version', key)
  const definition = workflowDefinition.parse(JSON.parse(row.definition))
  const frozen = { definition, dependsOn: dependencies(definition) }
  cache.set(key, frozen, heapBytes(definition) + heapBytes([...frozen.dependsOn]))
  return frozen
}
