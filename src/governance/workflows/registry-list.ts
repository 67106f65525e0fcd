import type { Db } from '../../db/schema/index.ts'
import { readBounded } from '../bounded-read.ts'
import { pageOf, readCursor, type Page, type PageRequest } from '../page.ts'
import { templateView, type TemplateView } from './registry-entry.ts'

/**
 * Returns one page of the organization's templates. The template that was approved last comes first. Archived templates
 * are included only on request.
 */
export async function listTemplates(
  db: Db,
  organizationId: string,
  includeArchived: boolean,
  page: PageRequest,
): Promise<Page<TemplateView>> {
  const after = readCursor(page.cursor, /^\d{1,9}$/)
  const query = db
    .selectFrom('registry_entries')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .$if(!includeArchived, (query) => query.where('state', '<>', 'archived'))
    .$if(after !== null, (query) => query.where('place', '<', Number(after)))
    .orderBy('place', 'desc')
    .limit(page.limit + 1)
  const { rows } = await readBounded(db, (trx) => trx.executeQuery(query))
  return pageOf(rows, page.limit, (row) => String(row.place), templateView)
}
