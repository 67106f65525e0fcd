import { dependencies, followers, lastStep } from '../../../contract/definition-graph.ts'
import { workflowDefinition, type WorkflowDefinition } from '../../../contract/definition.ts'
import type { Db } from '../../../db/schema/index.ts'
import { notFound } from '../../errors.ts'
import { counted, heapBytes, type ByteCache } from '../../../shared/byte-cache.ts'

export interface FrozenVersion {
  readonly definition: WorkflowDefinition
  /** The key is a step's id. The value is the list of the steps that this step depends on or references. */
  readonly dependsOn: ReadonlyMap<string, readonly string[]>
  /** The key is a step's id. The value is the first step that waits for this step and for no other step. */
  readonly followers: ReadonlyMap<string, string>
  /** The step that always ends last. Is null if several steps can be the last. */
  readonly last: string | null
}

export interface VersionReader {
  readonly db: Db
  readonly runCaches: { readonly versions: ByteCache<FrozenVersion> }
}

/** Reads a frozen version of a workflow. The version is cached, because it never changes. */
export async function readVersion(
  { db, runCaches: { versions } }: VersionReader,
  workflowId: string,
  version: number,
): Promise<FrozenVersion> {
  const key = `${workflowId}@${version}`
  const cached = versions.get(key)
  if (cached !== undefined) return cached
  const row = await db
    .selectFrom('workflow_versions')
    .select('definition')
    .where('workflow_id', '=', workflowId)
    .where('version', '=', version)
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow version', key)
  const definition = workflowDefinition.parse(JSON.parse(row.definition))
  const dependsOn = dependencies(definition)
  const frozen = { definition, dependsOn, followers: followers(dependsOn), last: lastStep(dependsOn) }
  const graph = heapBytes([...dependsOn]) + heapBytes([...frozen.followers])
  versions.set(key, frozen, counted(heapBytes(definition) + graph))
  return frozen
}
