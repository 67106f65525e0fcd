import type { ApprovalView } from '../../governance/approvals/read.ts'
import { sentenceOf } from '../parts/approval.ts'
import type { PersonsVisit } from '../visit.ts'

/** Maximum number of waiting calls whose sentences are read. Other waiting calls are named by their step or tool. */
const most = '50'

/**
 * Returns, by the approval's id, the sentence that says what each waiting approval would do. The list of approvals
 * shows the same sentences. `query` filters the approvals.
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
