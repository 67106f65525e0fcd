import type { SparseLog } from '../../shared/log.ts'

/**
 * Calls `work` once for each organization, at the same time. Rows of one organization stay together, because their
 * transactions wait for the same chain. `task` names the work in the log.
 *
 * If it fails for some, the errors are logged, so that a broken chain does not stop the others. If it fails for all,
 * throws the first error: it is probably an outage.
 */
export async function eachOrganization<Row extends { readonly organization_id: string }>(
  sparseLog: SparseLog,
  task: string,
  rows: readonly Row[],
  work: (rows: readonly Row[], organizationId: string) => Promise<unknown>,
): Promise<void> {
  const organizations = [...Map.groupBy(rows, (row) => row.organization_id)]
  const results = await Promise.allSettled(organizations.map(([id, own]) => work(own, id)))
  const failed = results.flatMap((result, index) =>
    result.status === 'rejected' ? [{ error: result.reason as Error, id: organizations[index]?.[0] }] : [],
  )
  const [first] = failed
  if (first !== undefined && failed.length === organizations.length) throw first.error
  for (const { error, id } of failed)
    sparseLog.warn(
      `${task} ${id}`,
      { err: error, task, organization_id: id },
      'a periodic task failed for one organization',
    )
}
