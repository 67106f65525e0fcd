import type { Selectable } from 'kysely'
import type { RunsTable } from '../../../db/schema/runs.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { quoted } from '../../approvals/votes.ts'

/** Returns a part of a sentence, for example: by `ann@example.com` with the reason `wrong month`. */
export const byWhom = ({ by, reason }: { readonly by: string; readonly reason: string | null }): string =>
  `by \`${by}\`${reason === null ? '' : ` with the reason ${quoted(reason)}`}`

/** If no person is stored, the run was cancelled in Temporal. */
export async function whyCancelled(
  tx: ChainTx,
  {
    cancel_requested_by,
    cancel_reason,
  }: Pick<Selectable<RunsTable>, 'cancel_requested_by' | 'cancel_reason'>,
): Promise<string> {
  if (cancel_requested_by === null) return 'the run was cancelled in Temporal'
  const person = await tx.trx
    .selectFrom('users')
    .select('email')
    .where('id', '=', cancel_requested_by)
    .executeTakeFirst()
  return `the run was cancelled ${byWhom({ by: person?.email ?? cancel_requested_by, reason: cancel_reason })}`
}
