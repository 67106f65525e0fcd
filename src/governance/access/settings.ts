import type { Db } from '../../db/schema/index.ts'
import { readSettings, type GovernanceSettings } from '../../policy/settings.ts'
import { notFound } from '../errors.ts'

/** Reads an organization's settings. Fills in the defaults. Throws `not_found` if the organization does not exist. */
export async function readGovernance(db: Db, organizationId: string): Promise<GovernanceSettings> {
  const row = await db
    .selectFrom('organizations')
    .select('settings')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('organization', organizationId)
  return readSettings(row.settings)
}
