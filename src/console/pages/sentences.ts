import type { ApprovalView } from '../../governance/approvals/read.ts'
import { sentenceOf } from '../parts/approval.ts'
import type { PersonsVisit } from '../visit.ts'

/** Maximum number of waiting calls whose sentences are read. Other waiting calls are named by their step or tool. */
const most = '50'

/**
 * Returns one sentence for each waiting approval, by the approval's id. The sentence says what the approval would do,
 * as in the list of approvals. `query` filters the approvals.
 */
export async function sentencesOf(
  { api }: PersonsVisit,
  query: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, string>> {
  const found = await api.call<{ readonly data: readonly ApprovalView[] }>('GET /approvals', {
    query: { status: 'pending', limit: most, ...query },
  })
  return new Map(found.ok ? found.body.data.map((approval) => [approval.id, sentenceOf(approval)]) : [])
}
