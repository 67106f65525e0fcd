import type { Db } from '../../db/schema/index.ts'
import type { Combiner } from './combiner.ts'
import { loadPolicy, type LoadedPolicy } from './policy-cache.ts'

/**
 * Returns the present policy, read from one snapshot without the chain's lock. Use it for previews and tests of rules,
 * but not to decide a call.
 */
export function policySnapshot(
  { db, combiner }: { readonly db: Db; readonly combiner: Combiner },
  organizationId: string,
): Promise<LoadedPolicy> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      const head = await trx
        .selectFrom('chain_head')
        .select(['policy_version', 'frozen'])
        .where('organization_id', '=', organizationId)
        .executeTakeFirstOrThrow()
      return combiner.policy(organizationId, head, (former) => loadPolicy(trx, organizationId, head, former))
    })
}
