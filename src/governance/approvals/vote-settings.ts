import type { Db } from '../../db/schema/index.ts'
import { readSettings } from '../../policy/settings.ts'
import { notFound } from '../errors.ts'
import type { VoteSettings } from './requirement.ts'

/** Reads the settings on which votes depend. Throws `not_found` if the organization does not exist. */
export async function readVoteSettings(db: Db, organizationId: string): Promise<VoteSettings> {
  const row = await db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return readSettings(row.settings)
}
