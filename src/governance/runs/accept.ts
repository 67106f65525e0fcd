import type { Kysely } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { interpreterVersion } from '../../contract/messages.ts'
import { planOf } from '../../contract/definition.ts'
import { getTool } from '../../catalog/index.ts'
import type { Context } from '../../context.ts'
import type { Database } from '../../db/schema/index.ts'
import type { Risk } from '../../db/schema/runs.ts'
import { analyzePlan } from '../../policy/plan.ts'
import { builtins } from '../../policy/templates.ts'
import { unionLabels, type Label } from '../../policy/types.ts'
import { hashOf } from '../canonical.ts'
import type { ChainTx } from '../chain-tx.ts'
import { violates } from '../database-errors.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import { waitsForSlot } from '../quotas/slots.ts'
import { exceededEntry, quotaExceeded, roomForRun, type Exceeded } from '../quotas/run-quota.ts'
import { covers } from '../scopes.ts'
import { gateOf, type RunGate } from './gate.ts'
import { approvalsOver, storageOver } from '../quotas/storage.ts'
import { givenInputs, refuseReferences, type GivenInputs, type InputsOfRequest } from './given-inputs.ts'
import type { SealedText } from '../sealing/format.ts'
import { inputsPlace } from '../sealing/places.ts'
import { sealText } from '../sealing/sealer.ts'
import { readVersion, type FrozenVersion } from './version-cache.ts'
import { runAs, type PresentCaller } from '../standing.ts'
import { refusePlan, refuseUnconfirmed } from './refusal.ts'

export interface AcceptRequest extends InputsOfRequest {
  readonly caller: Caller
  readonly workflowId: string
  /** IANA name; default UTC. */
  readonly timeZone?: string | undefined
  /** Default: the current version. */
  readonly version?: number | undefined
  /** The same key of the same person names the same run, also when the first answer was lost. */
  readonly idempotencyKey?: string | undefined
  /** Marks the key in the same transaction, so that a later refusal cannot answer for what was accepted. */
  readonly once?: Once | null | undefined
}

interface Prepared extends Omit<AcceptRequest, keyof InputsOfRequest>, GivenInputs {
  /** `inputs` as JSON and sealed, and the hash of `given`: of up to 8 MiB, so made before the lock and once. */
  readonly kept: SealedText
  readonly inputHash: string
  readonly runId: string
  readonly versionNumber: number
  readonly frozen: FrozenVersion
  readonly timeZone: string
}

/**
 * Accepts a run of a frozen version (commit point `run.accept`): the run, its steps, its approval if it needs one, the
 * audit entry and the outbox row commit together. Throws `not_found`, `validation_error` for inputs, `run_denied` when
 * a rule would definitely deny a step, `quota_exceeded`: then an audit entry stays and no run. Without a free slot the
 * run is `queued`, and started by the transaction that frees one.
 */
export async function acceptRun(context: Context, request: AcceptRequest): Promise<{ runId: string }> {
  const { caller } = request
  const workflow = await context.db
    .selectFrom('workflows')
    .select(['current_version'])
    .where('id', '=', request.workflowId)
    .where('organization_id', '=', caller.organizationId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  if (workflow === undefined) throw notFound('workflow', request.workflowId)
  const versionNumber = request.version ?? workflow.current_version
  const frozen = await readVersion(context.db, request.workflowId, versionNumber)
  const given = await givenInputs(context, caller, frozen, request)
  const runId = newId('run')
  const prepared: Prepared = {
    ...request,
    ...given,
    kept: await sealText(context.sealer, inputsPlace(runId), JSON.stringify(given.inputs)),
    inputHash: hashOf(given.given),
    runId,
    versionNumber,
    frozen,
    timeZone: validTimeZone(request.timeZone ?? 'UTC'),
  }
  try {
    const denied = await runAs(context, caller, 'run.accept', async (tx, now) => {
      if (prepared.refersToRuns && !covers((await now()).scopes, 'runs:read'))
        refuseReferences(prepared.given)
      return acceptUnderLock(context, tx, prepared, now)
    })
    if (denied !== null) throw denied
    return { runId: prepared.runId }
  } catch (error) {
    if (error instanceof RunExists || violates(error, 'runs_idempotency'))
      return { runId: await earlierRun(context, prepared) }
    throw error
  }
}

function validTimeZone(timeZone: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone
  } catch {
    const message = `\`${timeZone.slice(0, 100)}\` is no time zone: give an IANA name such as \`Europe/Berlin\``
    throw new DomainError('validation_error', message, [{ path: 'time_zone', message }])
  }
}

async function acceptUnderLock(
  context: Context,
  tx: ChainTx,
  request: Prepared,
  now: () => Promise<PresentCaller>,
): Promise<DomainError | null> {
  const room = await roomForRun(tx)
  const { role, isConfirmed } = await now()
  if (context.config.people.mustBeConfirmed && !isConfirmed) return refuseUnconfirmed(tx, request)
  const over = room.refused ?? storageOver(tx, request.kept.bytes)
  if (over !== null) return overQuota(tx, request, over)
  const plan = planOf(
    request.frozen.definition,
    { get: getTool },
    {
      inputs: request.inputs,
      areInputsComplete: true,
      inputLabels: new Map(
        Object.entries(request.labels).map(([name, sources]) => [name, sources.map(({ label }) => label)]),
      ),
      builtins: builtins(tx.now, request.timeZone),
      requesterEmail: request.caller.email,
    },
  )
  const analysis = analyzePlan(tx.policy.compiled, plan, (tool, sideEffect) =>
    tx.policy.toolAccess.blocks(tool, role, sideEffect),
  )
  if (analysis.definitelyDenied) return refusePlan(tx, request, analysis)
  const gate = gateOf(tx.policy.settings, request.frozen, analysis)
  const { risk } = gate
  const needsApproval = gate.waits !== null
  // A run that waits for its approval has a workflow that waits, and needs a slot only then (enter.ts).
  const slot = needsApproval ? null : room.slot
  if (slot === 'queued' && room.queueIsFull !== null) return overQuota(tx, request, room.queueIsFull)
  const tooManyWait = needsApproval ? approvalsOver(tx) : null
  if (tooManyWait !== null) return overQuota(tx, request, tooManyWait)
  insertRun(tx, request, gate, slot)
  tx.event(
    request.runId,
    'run.queued',
    slot === 'queued' ? { reason: waitsForSlot(tx.policy.limits.concurrent_executions) } : {},
  )
  if (needsApproval) createRunApproval(context, tx, request, risk)
  if (slot !== 'queued') tx.deliver('run.start', request.runId)
  tx.append({
    eventType: 'workflow.execute',
    action: 'execute',
    status: needsApproval ? 'awaiting_approval' : slot === 'queued' ? 'queued' : 'accepted',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    runId: request.runId,
    metadata: {
      input_hash: request.inputHash,
      workflow_version: request.versionNumber,
      risk: risk.level,
      risk_reasons: [...risk.reasons],
    },
  })
  await request.once?.markActed(tx.trx, { runId: request.runId })
  return null
}

function insertRun(tx: ChainTx, request: Prepared, gate: RunGate, slot: 'queued' | 'taken' | null): void {
  const { trx } = tx
  const row = trx.insertInto('runs').values({
    id: request.runId,
    organization_id: tx.organizationId,
    workflow_id: request.workflowId,
    workflow_version: request.versionNumber,
    interpreter_version: interpreterVersion,
    status: gate.waits === null ? 'queued' : 'awaiting_approval',
    status_reason:
      gate.waits ??
      (slot === 'queued'
        ? waitsForSlot(tx.policy.limits.concurrent_executions)
        : 'the run waits for a worker'),
    slot,
    requested_by: request.caller.userId,
    requester_email: request.caller.email,
    api_key_id: request.caller.keyId,
    idempotency_key: request.idempotencyKey ?? null,
    inputs_sealed: request.kept.sealed,
    input_labels: JSON.stringify(request.labels),
    input_hash: request.inputHash,
    time_zone: request.timeZone,
    risk: JSON.stringify(gate.risk),
    created_at: tx.now,
  })
  void tx.send(row)
  const steps = request.frozen.definition.steps.map((step, position) => ({
    run_id: request.runId,
    step_id: step.id,
    position,
    tool: step.tool,
  }))
  void tx.send(trx.insertInto('run_steps').values(steps))
}

/** Every label that its inputs carry. */
const labelsOf = ({ labels }: Prepared): Label[] =>
  unionLabels(Object.values(labels).flatMap((sources) => sources.map(({ label }) => label)))

function createRunApproval(context: Context, tx: ChainTx, request: Prepared, risk: Risk): void {
  const id = newId('approval')
  tx.expects({ approvals: 1 })
  const seconds = context.config.runApprovalSeconds
  const row = tx.trx.insertInto('approvals').values({
    id,
    organization_id: tx.organizationId,
    kind: 'run',
    status: 'pending',
    run_id: request.runId,
    workflow_id: request.workflowId,
    params_hash: request.refersToRuns ? hashOf(request.inputs) : request.inputHash,
    labels: labelsOf(request),
    risk: JSON.stringify(risk),
    requested_by: request.caller.userId,
    approver: 'admin',
    approvals_needed: tx.policy.settings.approval_threshold,
    created_at: tx.now,
    expires_at: seconds === 0 ? null : new Date(tx.now.getTime() + seconds * 1_000),
  })
  void tx.send(row)
  tx.event(request.runId, 'run.awaiting_approval', { approval_id: id })
  tx.event(request.runId, 'approval.created', { approval_id: id })
  tx.append({
    eventType: 'approval.requested',
    action: 'run',
    status: 'pending',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    runId: request.runId,
    metadata: { approval_id: id, risk: risk.level },
  })
}

/**
 * Over a quota: an audit entry stays and no run. A call that is repeated after its answer was lost is answered with the
 * run that it made.
 */
async function overQuota(tx: ChainTx, request: Prepared, over: Exceeded): Promise<DomainError | null> {
  if (request.idempotencyKey !== undefined && (await findEarlierRun(tx.trx, request)) !== undefined)
    throw new RunExists()
  const { workflowId } = request
  tx.append(exceededEntry(over, 'execute', actorOf(request.caller), { workflowId }))
  return quotaExceeded(over)
}

class RunExists extends Error {}

async function earlierRun(context: Context, request: Prepared): Promise<string> {
  const run = await findEarlierRun(context.db, request)
  if (run === undefined) throw notFound('run', request.runId)
  return run.id
}

function findEarlierRun(db: Kysely<Database>, request: Prepared): Promise<{ id: string } | undefined> {
  return db
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', request.workflowId)
    .where('requested_by', '=', request.caller.userId)
    .where('idempotency_key', '=', request.idempotencyKey as string)
    .executeTakeFirst()
}
