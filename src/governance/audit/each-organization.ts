import type { SparseLog } from '../../shared/sparse-log.ts'

interface OfOrganization {
  readonly organization_id: string
}

/**
 * Groups the rows by organization and calls `work` once for each organization. These calls run at the same time. An
 * organization's rows stay together, because their transactions wait for the same chain. `task` names the work in the
 * log.
 *
 * If `work` fails for some organizations, the errors are only logged. So one broken chain does not stop the work for
 * other organizations. If `work` fails for all organizations, throws the first error, because the cause is probably an
 * outage.
 */
export async function eachOrganization<Row extends OfOrganization>(
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
