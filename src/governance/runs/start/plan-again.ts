import type { ChainTx } from '../../audit/chain-tx.ts'
import { noticeRequest } from '../../approvals/moves.ts'
import { requirementFor, type ApprovalRecord } from '../../approvals/records.ts'
import { requirementOf, storedSeats, termsToStore, type Requirement } from '../../approvals/requirement.ts'
import { coverSeats, peopleFor, strictest } from '../../../policy/seats.ts'
import type { JsonObject } from '../../../policy/types.ts'
import type { UnsealingRuns } from '../../context.ts'
import type { Installation } from '../../tools/connections.ts'
import { readInputs, ResourceExhausted } from '../values/outputs.ts'
import { readRunSnapshot, type RunSnapshot } from '../values/run-snapshot.ts'
import { readVersion, type FrozenVersion } from '../values/version-cache.ts'
import type { ApprovalTerms } from './gate.ts'
import { planRun, type PlannedRun } from './plan-run.ts'

/* A run that waited for its own approval is judged again before it starts: rules may have been saved meanwhile. */

type Reader = UnsealingRuns

/** These three never change, so they are read before the lock is taken. */
export interface AcceptedRun {
  readonly run: RunSnapshot
  readonly frozen: FrozenVersion
  /** Is null if the inputs are too large to read now. The inputs then count as unknown. */
  readonly inputs: JsonObject | null
}

export async function readAccepted(reader: Reader, runId: string): Promise<AcceptedRun> {
  const run = await readRunSnapshot(reader, runId)
  const frozen = await readVersion(reader, run.workflowId, run.workflowVersion)
  return { run, frozen, inputs: run.inputs ?? (await inputsOf(reader, runId)) }
}

async function inputsOf(reader: Reader, runId: string): Promise<JsonObject | null> {
  try {
    return await readInputs(reader, runId)
  } catch (error) {
    if (error instanceof ResourceExhausted) return null
    throw error
  }
}

export async function planAgain(
  tx: ChainTx,
  installation: Pick<Installation, 'smtpUrl'>,
  { run, frozen, inputs }: AcceptedRun,
): Promise<PlannedRun> {
  const member = await tx.trx
    .selectFrom('memberships')
    .select('role')
    .where('organization_id', '=', tx.organizationId)
    .where('user_id', '=', run.requestedBy)
    .executeTakeFirst()
  return planRun(tx.policy, installation, {
    definition: frozen.definition,
    inputs: inputs ?? {},
    areInputsComplete: inputs !== null,
    labels: Object.fromEntries(run.inputLabels),
    // A person who has left is planned as `viewer`: all their calls are denied when they are made.
    requester: { userId: run.requestedBy, role: member?.role ?? 'viewer', email: run.requesterEmail },
    authorRoles: frozen.rolesOf,
    builtins: run.builtins,
  })
}

/** The stored requirement, or a stricter one if rules or settings are stricter now. */
export function requiredNow(
  approval: ApprovalRecord,
  terms: ApprovalTerms,
  policy: ChainTx['policy'],
): Requirement {
  const stored = requirementOf(approval, policy.settings)
  const now = requirementFor(terms.seats, policy, new Date(approval.created_at))
  const seats = strictest([...stored.seats, ...now.seats])
  return { ...stored, seats, needed: Math.max(stored.needed, terms.needed, peopleFor(seats)) }
}

/** Saves stricter terms in the row, so that votes, lists and messages follow them. */
export async function tighten(
  tx: ChainTx,
  approval: ApprovalRecord,
  required: Requirement,
): Promise<ApprovalRecord> {
  const isTight = coverSeats(storedSeats(approval), required.seats)
  if (isTight && approval.approvals_needed >= required.needed) return approval
  const { seats, ...terms } = termsToStore(required)
  const set = { ...terms, seats: seats === null ? null : JSON.stringify(seats) }
  await tx.trx.updateTable('approvals').set(set).where('id', '=', approval.id).execute()
  const tightened = { ...approval, ...terms, seats }
  noticeRequest(tx, tightened)
  return tightened
}
