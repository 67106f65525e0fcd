import { readChangeOf, readCurrentVersion } from '../../../db/queries/workflows.ts'
import type { Db } from '../../../db/schema/index.ts'
import { notFound } from '../../errors.ts'

/*
 * A person who starts a workflow learns that another person has changed it since their last run. The preview, the first
 * run after the change, and a refusal of this run name the change and its author.
 */

/** A version that another person saved. */
export interface VersionChange {
  readonly version: number
  /** The person's mail address. */
  readonly author: string
  /**
   * The mail addresses of the other people who wrote text of the version, without the requester. Their changes may be new
   * to the requester too.
   */
  readonly others: readonly string[]
  readonly deployed_at: string
  /** What the person wrote about the version. */
  readonly message: string
}

/**
 * Finds the current version of the caller's workflow. `changedIn` is the newest version up to the wanted one that another
 * person saved, and that the caller has not run yet; null if there is none. Throws `not_found`.
 */
export async function findVersion(
  db: Db,
  {
    caller,
    workflowId,
    version,
  }: {
    readonly caller: { readonly organizationId: string; readonly userId: string }
    readonly workflowId: string
    readonly version?: number | undefined
  },
): Promise<{ readonly current: number; readonly changedIn: number | null }> {
  const { organizationId, userId } = caller
  const wanted = { workflowId, organizationId, userId, version: version ?? null }
  const { rows } = await readCurrentVersion(wanted).execute(db)
  const [row] = rows
  if (row === undefined) throw notFound('workflow', workflowId)
  return { current: row.current_version, changedIn: row.changed_in }
}

/** Reads a change by the number of its version, for the requester `userId`. Returns null for null. */
export async function readChange(
  db: Db,
  workflowId: string,
  version: number | null,
  userId: string,
): Promise<VersionChange | null> {
  if (version === null) return null
  const { rows } = await readChangeOf(workflowId, version, userId).execute(db)
  const [row] = rows
  return row === undefined ? null : { ...row, deployed_at: row.deployed_at.toISOString() }
}

/** Names a change in one sentence. */
export const changeSentence = ({ version, author, others, deployed_at }: VersionChange): string =>
  `\`${author}\` changed the workflow, and you have not run the change yet: version ${version} of ${deployed_at}${withTextOf(others.map((each) => `\`${each}\``))}`

/** Returns the end of a sentence about a change, with the other people who wrote text of the version. */
const withTextOf = (others: readonly string[]): string =>
  others.length === 0 ? '' : `, with text of ${others.join(', ')}`
