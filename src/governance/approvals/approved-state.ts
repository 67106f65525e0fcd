import type { PreviewDiff, PreviewField } from '../../tools/kit/preview.ts'
import type { Unsealing } from '../context.ts'
import { stateBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'

/** What the approvers saw in addition to the parameters. The approval's row has it sealed. */
export interface ApprovedState {
  /** Its id; null if there was none. Is absent if the tool needs no connection. */
  readonly connection?: string | null
  /** As the approvers saw it (`Precondition`). If it is null, any revision is accepted. */
  readonly revision: string | null
  readonly fields: readonly PreviewField[]
  readonly diff?: PreviewDiff
  readonly note?: string
}

export const sealState = (sealer: Sealer, approvalId: string, state: ApprovedState): Promise<Buffer> =>
  sealer.seal(stateBinding(approvalId), JSON.stringify(state))

export async function openState(
  sealer: Sealer,
  approvalId: string,
  sealed: Buffer | null,
): Promise<ApprovedState | null> {
  if (sealed === null) return null
  return JSON.parse(await sealer.open(stateBinding(approvalId), sealed)) as ApprovedState
}

/** Null if the approval has no such state. */
export async function approvedState(context: Unsealing, approvalId: string): Promise<ApprovedState | null> {
  const row = await context.db
    .selectFrom('approvals')
    .select('state_sealed')
    .where('id', '=', approvalId)
    .executeTakeFirstOrThrow()
  return openState(context.sealer, approvalId, row.state_sealed)
}
