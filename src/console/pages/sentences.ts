import type { ApprovalView } from '../../governance/approvals/read.ts'
import { sentenceOf } from '../parts/approval.ts'
import type { PersonsVisit } from '../visit.ts'

/**
 * The sentences of at most this many waiting approvals are read. For each further approval, the page names the step,
 * the tool or the run.
 */
const most = '50'

/**
 * Returns a sentence for each waiting approval. The key is the id of the approval. The sentence says what the request
 * would do, and the list of approvals shows the same sentence. `query` filters the approvals.
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
