import { randomUUID } from 'node:crypto'
import type { Db } from '../../db/schema/index.ts'
import type { Config } from '../../shared/config.ts'
import { DomainError, notFound } from '../errors.ts'
import { CheckpointFolder, WrongFile } from './checkpoint-folder.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Combiner } from './combiner.ts'

export interface Acceptance {
  readonly folder_id: string
  /** Whether the folder had no mark before. */
  readonly is_new_folder: boolean
  /** The organizations whose audit log goes on without its earlier checkpoint in this folder. */
  readonly accepted: readonly string[]
  /** The organizations whose audit log cannot get an entry, or whose folder cannot be read. They stay in alarm. */
  readonly refused: readonly { readonly organization_id: string; readonly reason: string }[]
}

interface Accepting {
  readonly combiner: Combiner
  readonly config: Pick<Config, 'checkpointFolder'>
  readonly db: Db
  readonly checkpoints: Checkpoints
}

/**
 * Accepts that the folder has lost the checkpoint of this organization, or of all (null). Each accepted log gets an
 * entry and a new checkpoint of its present end. A checkpoint that the folder still has stays. After a crash, the next
 * call does the rest. A refused organization does not stop the others.
 *
 * Throws `not_found`. Throws `conflict` if there is no folder, if it still has the organization's checkpoint, or if it
 * is new and only one organization is named.
 */
export async function acceptCheckpoints(
  context: Accepting,
  organizationId: string | null,
): Promise<Acceptance> {
  const path = context.config.checkpointFolder
  if (path === null)
    throw new DomainError('conflict', 'AUDIT_CHECKPOINT_DIR is not set: set it as for the service')
  const folder = new CheckpointFolder(path)
  const ids = await folder.ids()
  const accepted: string[] = []
  const refused: Acceptance['refused'][number][] = []
  if (organizationId === null)
    await eachKept(context, ids, async (each) => {
      try {
        if (await hasFile(folder, each)) return
        await acceptOne(context, each, ids)
        accepted.push(each)
      } catch (error) {
        if (!(error instanceof DomainError)) throw error
        refused.push({ organization_id: each, reason: error.message })
      }
    })
  else {
    await requireLost(context, folder, ids, organizationId)
    await acceptOne(context, organizationId, ids)
    accepted.push(organizationId)
  }
  // The mark comes last. Before it, the service says that the folder is lost.
  const folderId = ids[0] ?? (await markNew(context.db, folder, refused))
  await context.checkpoints.keep()
  return { folder_id: folderId, is_new_folder: ids.length === 0, accepted, refused }
}

/** A new folder has lost the checkpoints of the refused organizations. */
async function markNew(db: Db, folder: CheckpointFolder, refused: Acceptance['refused']): Promise<string> {
  const id = randomUUID()
  if (refused.length > 0)
    await db
      .insertInto('checkpoint_folders')
      .values(refused.map(({ organization_id }) => ({ organization_id, folder_id: id })))
      .execute()
  return folder.mark(id)
}

async function requireLost(
  { db }: Accepting,
  folder: CheckpointFolder,
  ids: readonly string[],
  organizationId: string,
): Promise<void> {
  const known = await db
    .selectFrom('organizations')
    .select('id')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (known === undefined) throw notFound('organization', organizationId)
  if (ids.length === 0)
    throw new DomainError('conflict', 'the whole folder of checkpoints is new: accept it with `--all`')
  if (await hasFile(folder, organizationId))
    throw new DomainError(
      'conflict',
      `the folder has a checkpoint of \`${organizationId}\`: move its folder to another place first, and keep it`,
    )
}

/** A checkpoint that cannot be used counts too. */
async function hasFile(folder: CheckpointFolder, organizationId: string): Promise<boolean> {
  try {
    return (await folder.newest(organizationId)) !== null
  } catch (error) {
    if (error instanceof WrongFile) return true
    throw error
  }
}

/** Visits who has had a checkpoint: in this folder, or in any folder if this one is new. */
async function eachKept(
  { db }: Accepting,
  ids: readonly string[],
  work: (organizationId: string) => Promise<unknown>,
): Promise<void> {
  for (let after = ''; ;) {
    const rows = await db
      .selectFrom('checkpoint_folders')
      .select('organization_id')
      .distinct()
      .where('organization_id', '>', after)
      .$if(ids.length > 0, (query) => query.where('folder_id', 'in', ids))
      .orderBy('organization_id')
      .limit(500)
      .execute()
    for (const { organization_id } of rows) await work(organization_id)
    const last = rows.at(-1)
    if (last === undefined) return
    after = last.organization_id
  }
}

function acceptOne({ combiner }: Accepting, organizationId: string, ids: readonly string[]): Promise<void> {
  return combiner.run(organizationId, 'org.change', async (tx) => {
    if (ids.length > 0)
      await tx.trx
        .deleteFrom('checkpoint_folders')
        .where('organization_id', '=', organizationId)
        .where('folder_id', 'in', ids)
        .execute()
    tx.append({
      eventType: 'organization.checkpoint_accepted',
      action: 'update',
      actor: { type: 'system', id: 'accept-checkpoints' },
      metadata: { folder_id: ids[0] ?? null },
    })
  })
}
