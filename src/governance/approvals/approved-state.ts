import type { PreviewDiff, PreviewField } from '../../catalog/preview.ts'
import type { Context } from '../context.ts'
import { statePlace } from '../sealing/places.ts'
import type { Sealer } from '../sealing/sealer.ts'

/** What a call changes, as the approvers of one approval saw it. It is sealed beside the parameters. */
export interface ApprovedState {
  /** null: it could not be read, and the call is made whatever it is then. */
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

/** The revision that an approval covers; null for an approval without one. */
export async function approvedRevision(
  context: Pick<Context, 'db' | 'sealer'>,
  approvalId: string,
): Promise<string | null> {
  const row = await context.db
    .selectFrom('approvals')
    .select('state_sealed')
    .where('id', '=', approvalId)
    .executeTakeFirstOrThrow()
  return (await openState(context.sealer, approvalId, row.state_sealed))?.revision ?? null
}
