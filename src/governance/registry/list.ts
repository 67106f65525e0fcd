import type { Context } from '../../context.ts'
import { readBounded } from '../bounded-read.ts'
import { pageOf, readCursor, type Page, type PageRequest } from '../page.ts'
import { templateView, type TemplateView } from './entry.ts'

/** The organization's templates, the one approved last first; archived ones only when asked for. */
export async function listTemplates(
  context: Context,
  organizationId: string,
  includeArchived: boolean,
  page: PageRequest,
): Promise<Page<TemplateView>> {
  const after = placeIn(readCursor(page.cursor))
  const query = context.db
    .selectFrom('registry_entries')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .$if(!includeArchived, (query) => query.where('state', '<>', 'archived'))
    .$if(after !== null, (query) => query.where('place', '<', after as number))
    .orderBy('place', 'desc')
    .limit(page.limit + 1)
  const { rows } = await readBounded(context.db, (trx) => trx.executeQuery(query))
  return pageOf(rows, page.limit, (row) => String(row.place), templateView)
}

/** A cursor of another list names no place of this one: nothing comes after it. */
function placeIn(cursor: string | null): number | null {
  if (cursor === null) return null
  return /^\d{1,9}$/.test(cursor) ? Number(cursor) : 0
}
