import type { PreviewDiff, PreviewField } from '../../catalog/preview.ts'
import type { Context } from '../context.ts'
import { statePlace } from '../sealing/places.ts'
import type { Sealer } from '../sealing/sealer.ts'

/** The state that a call would change, and its connection, as the approvers saw them. Sealed beside the parameters. */
export interface ApprovedState {
  /** Id of the call's connection; null: none. Absent for tools without a service, and in older approvals. */
  readonly connection?: string | null
  /** The revision that approvers saw. null: it could not be read, so the call is made at any later revision. */
  readonly revision: string | null
  readonly fields: readonly PreviewField[]
  readonly diff?: PreviewDiff
  readonly note?: string
}

export const sealState = (sealer: Sealer, approvalId: string, state: ApprovedState): Promise<Buffer> =>
  sealer.seal(statePlace(approvalId), JSON.stringify(state))

export async function openState(
  sealer: Sealer,
  approvalId: string,
  sealed: Buffer | null,
): Promise<ApprovedState | null> {
  if (sealed === null) return null
  return JSON.parse(await sealer.open(statePlace(approvalId), sealed)) as ApprovedState
}

/** The state that an approval covers besides the parameters; null for an approval without such a state. */
export async function approvedState(
  context: Pick<Context, 'db' | 'sealer'>,
  approvalId: string,
): Promise<ApprovedState | null> {
  const row = await context.db
    .selectFrom('approvals')
    .select('state_sealed')
    .where('id', '=', approvalId)
    .executeTakeFirstOrThrow()
  return openState(context.sealer, approvalId, row.state_sealed)
}
