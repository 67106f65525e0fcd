import { readChangeOf, readCurrentVersion } from '../../../db/queries/workflows.ts'
import type { Db } from '../../../db/schema/index.ts'
import { notFound } from '../../errors.ts'

/* After another person's change, the preview, the first run and its refusal name it and its author. */

export interface VersionChange {
  readonly version: number
  /** Mail address. */
  readonly author: string
  /** Mail addresses of the others who wrote text of the version, without the requester. */
  readonly others: readonly string[]
  readonly deployed_at: string
  /** What the person wrote about the version. */
  readonly message: string
}

/** `changedIn`: the newest one by another person that the caller has not run, or null. Throws `not_found`. */
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
): Promise<{ readonly current: number; readonly changedIn: number | null; readonly workflowName: string }> {
  const { organizationId, userId } = caller
  const wanted = { workflowId, organizationId, userId, version: version ?? null }
  const { rows } = await readCurrentVersion(wanted).execute(db)
  const [row] = rows
  if (row === undefined) throw notFound('workflow', workflowId)
  return { current: row.current_version, changedIn: row.changed_in, workflowName: row.name }
}

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

export const changeSentence = ({ version, author, others, deployed_at }: VersionChange): string =>
  `\`${author}\` changed the workflow, and you have not run the change yet: version ${version} of ${deployed_at}${withTextOf(others.map((each) => `\`${each}\``))}`

const withTextOf = (others: readonly string[]): string =>
  others.length === 0 ? '' : `, with text of ${others.join(', ')}`
