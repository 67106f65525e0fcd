import type { ReceiptsProps } from '../parts/receipts.ts'
import type { PersonsVisit } from '../visit.ts'

/** Number of decisions on one page. */
const perPage = '20'

/**
 * Reads one page of a run's receipt (the list of its decisions). The parameter `receipts` in the page's address is the
 * cursor.
 */
export async function receiptOf(
  visit: PersonsVisit,
  runId: string,
  order: 'oldest' | 'newest' = 'oldest',
): Promise<ReceiptsProps['receipt']> {
  const cursor = visit.query.get('receipts')
  const found = await visit.api.call<Exclude<ReceiptsProps['receipt'], { status: number }>>(
    'GET /runs/{id}/authorization',
    {
      params: { id: runId },
      query: { limit: perPage, order, ...(cursor === null ? {} : { cursor }) },
      only: ['decisions', 'next_cursor'],
    },
  )
  return found.ok ? found.body : found
}
