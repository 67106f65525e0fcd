import type { Selectable } from 'kysely'
import { dependencies, followers, lastStep } from '../../../contract/definition-graph.ts'
import { workflowDefinition, type WorkflowDefinition } from '../../../contract/definition.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { Author, WorkflowVersionsTable } from '../../../db/schema/workflows.ts'
import type { Role } from '../../../policy/types.ts'
import { notFound } from '../../errors.ts'
import { counted, heapBytes, type ByteCache } from '../../../shared/byte-cache.ts'

export interface FrozenVersion {
  readonly definition: WorkflowDefinition
  /** By the id of a step: the steps that it depends on or references. */
  readonly dependsOn: ReadonlyMap<string, readonly string[]>
  /** By the id of a step: the first step that waits for this step and for no other step. */
  readonly followers: ReadonlyMap<string, string>
  /** Always ends last. Is null if several steps can be the last. */
  readonly last: string | null
  readonly authors: readonly Author[]
  /** By the id of a step, from the time when its authors saved it. */
  readonly rolesOf: ReadonlyMap<string, readonly Role[]>
}

export interface VersionReader {
  readonly db: Db
  readonly runCaches: { readonly versions: ByteCache<FrozenVersion> }
}

/** Cached, because a frozen version never changes. */
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
    .select(['definition', 'authors', 'step_authors'])
    .where('workflow_id', '=', workflowId)
    .where('version', '=', version)
    .executeTakeFirst()
  if (row === undefined) throw notFound('workflow version', key)
  const definition = workflowDefinition.parse(JSON.parse(row.definition))
  const dependsOn = dependencies(definition)
  const frozen = {
    definition,
    dependsOn,
    followers: followers(dependsOn),
    last: lastStep(dependsOn),
    authors: row.authors,
    rolesOf: rolesOfSteps(definition, row),
  }
  const graph = heapBytes([...dependsOn]) + heapBytes([...frozen.followers]) + heapBytes([...frozen.rolesOf])
  versions.set(key, frozen, counted(heapBytes(definition) + graph))
  return frozen
}

export function rolesOfSteps(
  { steps }: WorkflowDefinition,
  { authors, step_authors }: Pick<Selectable<WorkflowVersionsTable>, 'authors' | 'step_authors'>,
): Map<string, readonly Role[]> {
  const roles = authors.map(({ role }) => role)
  return new Map(
    steps.map(({ id }, at) => {
      const own = (step_authors[at] ?? []).flatMap((index) => roles[index] ?? [])
      return [id, [...new Set(own)]]
    }),
  )
}
