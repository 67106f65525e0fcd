import { sql } from 'kysely'
import { isPause, kindOf } from '../../../steps/index.ts'
import { newId } from '../../../contract/ids.ts'
import { interpreterVersion } from '../../../contract/messages.ts'
import type { Context, ChangingRuns } from '../../context.ts'
import type { Risk } from '../../../db/schema/runs.ts'
import type { Db } from '../../../db/schema/index.ts'
import { builtinsOf } from '../../../policy/builtins.ts'
import { unionLabels, type Label } from '../../../policy/types.ts'
import { hashOf } from '../../../shared/canonical-json.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { violates } from '../../../db/errors.ts'
import { DomainError, notFound } from '../../errors.ts'
import type { Once } from '../../idempotency.ts'
import { actorOf, type Caller } from '../../access/identity.ts'
import { waitsForSlot } from '../../limits/slots.ts'
import {
  exceededEntry,
  quotaExceeded,
  runCapacity,
  waitsOver,
  type Exceeded,
} from '../../limits/run-quota.ts'
import { refusedToRun, whyMayNotRun } from '../../access/groups.ts'
import { covers } from '../../access/scopes.ts'
import { pendingApproval, requirementNow, insertApprovals } from '../../approvals/records.ts'
import { noteUse } from '../../files/run-files.ts'
import { announceRequest } from '../../approvals/moves.ts'
import type { ApprovalTerms, RunGate } from './gate.ts'
import { approvalsOver, storageOver } from '../../limits/storage.ts'
import { givenInputs, refuseReferences, type GivenInputs, type InputsOfRequest } from './given-inputs.ts'
import type { SealedText } from '../../sealing/format.ts'
import { inputsBinding } from '../../sealing/bindings.ts'
import { sealText } from '../../sealing/sealer.ts'
import { readVersion, type FrozenVersion } from '../values/version-cache.ts'
import { requireRole, runAs, type PresentCaller } from '../../access/recheck.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import { findVersion, readChange } from '../values/version-change.ts'
import { requireEndedChain, type MadeAgain } from './chain.ts'
import { planRun } from './plan-run.ts'
import { refusePlan, refuseUnconfirmed } from './refusal.ts'

export interface AcceptRequest extends InputsOfRequest {
  readonly caller: Caller
  readonly workflowId: string
  /** An IANA name. The default is UTC. */
  readonly timeZone?: string | undefined
  /** The default is the current version. */
  readonly version?: number | undefined
  /** A repetition with the same key by the same person gets the same run. */
  readonly idempotencyKey?: string | undefined
  /** Marked in the accepting transaction, so a repetition gets this run even if it would now be refused. */
  readonly once?: Once | null | undefined
  /** What starts the run in place of a person. */
  readonly firing?: Firing | undefined
  /** The run is made again from an ended one. */
  readonly madeAgain?: MadeAgain | undefined
}

/** Both are called under the lock, in the accepting transaction. */
export interface Firing {
  /** Its run is the call of this trigger. */
  readonly pollOf?: string
  /** The run that it has started already, or null. Throws if it must start none. */
  earlierRun(tx: ChainTx): Promise<string | null>
  /** `denied`: why there is no run. */
  keep(tx: ChainTx, runId: string, denied: DomainError | null): Promise<void>
}

interface Prepared extends Omit<AcceptRequest, 'inputs' | 'inputLabels'>, GivenInputs {
  /** The inputs can have 8 MiB, so both are computed before the lock. `inputHash` is of `given`. */
  readonly kept: SealedText
  readonly inputHash: string
  readonly runId: string
  readonly versionNumber: number
  readonly workflowName: string
  /** The version of another person's change that the caller has not run before; null if there is none. */
  readonly changedIn: number | null
  readonly frozen: FrozenVersion
  /** `run_by` of this version and of the current one: an older version is no way around it. */
  readonly runBy: readonly WorkflowDefinition['run_by'][]
  readonly timeZone: string
}

/**
 * Commit point `run.accept`: one transaction saves the run, its steps, the audit entry, the outbox row and,
 * if needed, the approval. Without a free slot the run is `queued`, and the transaction that frees a slot
 * starts it. Throws `not_found`, `validation_error`, `run_denied` (also if the address is not confirmed) and
 * `quota_exceeded`. The last two leave an audit entry but no run.
 */
export async function acceptRun(context: ChangingRuns, request: AcceptRequest): Promise<{ runId: string }> {
  const { caller } = request
  const { current, changedIn, workflowName } = await findVersion(context.db, request)
  const versionNumber = request.version ?? current
  const frozen = await readVersion(context, request.workflowId, versionNumber)
  const given = await givenInputs(context, caller, frozen, request)
  const runId = newId('run')
  const prepared: Prepared = {
    ...request,
    ...given,
    kept: await sealText(context.sealer, inputsBinding(runId), JSON.stringify(given.inputs)),
    inputHash: hashOf(given.given),
    runId,
    versionNumber,
    workflowName,
    changedIn,
    frozen,
    runBy: [
      frozen.definition.run_by,
      ...(versionNumber === current
        ? []
        : [(await readVersion(context, request.workflowId, current)).definition.run_by]),
    ],
    timeZone: validTimeZone(request.timeZone ?? 'UTC'),
  }
  let earlier: string | null = null
  try {
    const denied = await runAs(context, caller, 'run.accept', async (tx, now) => {
      if (prepared.refersToRuns && !covers((await now()).scopes, 'runs:read'))
        refuseReferences(prepared.given)
      earlier = (await request.firing?.earlierRun(tx)) ?? null
      if (earlier !== null) return null
      const refused = await acceptUnderLock(context, tx, prepared, now)
      await request.firing?.keep(tx, runId, refused)
      return refused
    })
    if (denied !== null) throw denied
    return { runId: earlier ?? runId }
  } catch (error) {
    if (error instanceof RunExists || violates(error, 'runs_idempotency'))
      return { runId: await earlierRun(context.db, prepared) }
    throw error
  }
}

async function acceptUnderLock(
  context: Pick<Context, 'config'>,
  tx: ChainTx,
  request: Prepared,
  now: () => Promise<PresentCaller>,
): Promise<DomainError | null> {
  const { madeAgain } = request
  const readers = madeAgain === undefined ? null : await requireEndedChain(tx, madeAgain)
  const capacity = await runCapacity(tx)
  const { role, isConfirmed } = await now()
  if (context.config.people.mustBeConfirmed && !isConfirmed) return refuseUnconfirmed(tx, request)
  if (madeAgain?.isOthers === true) requireRole(role, 'admin')
  for (const runBy of request.runBy) {
    const why = await whyMayNotRun(tx.trx, { ...request.caller, role }, runBy)
    if (why !== null) throw refusedToRun(why)
  }
  const over =
    capacity.refused ??
    storageOver(tx, request.kept.bytes) ??
    (request.frozen.definition.steps.some(isPause) ? await waitsOver(tx) : null)
  if (over !== null) return overQuota(tx, request, over)
  const wanted = {
    definition: request.frozen.definition,
    inputs: request.inputs,
    areInputsComplete: true,
    labels: request.labels,
    requester: { userId: request.caller.userId, role, email: request.caller.email },
    authorRoles: request.frozen.rolesOf,
    builtins: builtinsOf({
      id: request.runId,
      requesterEmail: request.caller.email,
      workflowName: request.workflowName,
      startedAt: tx.now,
      timeZone: request.timeZone,
    }),
  }
  const planned = planRun(tx.policy, context.config.tools, wanted)
  if (planned.analysis.definitelyDenied)
    return refusePlan(
      tx,
      request,
      planned,
      await readChange(tx.trx, request.workflowId, request.changedIn, request.caller.userId),
    )
  const { gate } = planned
  const { risk } = gate
  const needsApproval = gate.waits !== null
  // A run that waits for its approval takes a slot only after the approval (enter.ts).
  const slot = needsApproval ? null : capacity.slot
  if (slot === 'queued' && capacity.queueIsFull !== null)
    return overQuota(tx, request, capacity.queueIsFull, risk)
  const tooManyWait = needsApproval ? approvalsOver(tx) : null
  if (tooManyWait !== null) return overQuota(tx, request, tooManyWait, risk)
  insertRun(tx, request, { gate, slot, readers })
  tx.event(
    request.runId,
    'run.queued',
    slot === 'queued' ? { reason: waitsForSlot(tx.policy.limits.concurrent_executions) } : {},
  )
  if (needsApproval) createRunApproval(context, tx, request, gate)
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
      ...triggerOf(request.caller),
      ...(request.madeAgain === undefined ? {} : rerunFields(request.madeAgain)),
    },
  })
  await noteUse(tx, request.files ?? [])
  await request.once?.markActed(tx.trx, { runId: request.runId })
  return null
}

const rerunFields = ({ of, from, onRepeat, unknownHappened }: MadeAgain) => ({
  rerun_of: of,
  from: typeof from === 'string' ? from : from.join(', ').slice(0, 1_000),
  on_repeat: onRepeat,
  ...(unknownHappened === null ? {} : { unknown_outcomes: unknownHappened ? 'happened' : 'did_not_happen' }),
})

const triggerOf = ({ trigger }: Caller) => (trigger === undefined ? {} : { trigger_id: trigger.id })

interface Inserted {
  readonly gate: RunGate
  readonly slot: 'queued' | 'taken' | null
  /** The groups that read all earlier runs, whose values this one may take. Null: there are none. */
  readonly readers: readonly string[] | null
}

function insertRun(tx: ChainTx, request: Prepared, { gate, slot, readers }: Inserted): void {
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
    authors: authorIds(request),
    readers: readersOf(tx, request.frozen).filter((each) => readers?.includes(each) !== false),
    changed_in_version: request.changedIn,
    api_key_id: request.caller.keyId,
    request_id: request.caller.requestId ?? null,
    idempotency_key: request.idempotencyKey ?? null,
    inputs_sealed: request.kept.sealed,
    input_labels: JSON.stringify(request.labels),
    input_hash: request.inputHash,
    time_zone: request.timeZone,
    poll_of: request.firing?.pollOf ?? null,
    risk: JSON.stringify(gate.risk),
    created_at: tx.now,
    ...(request.madeAgain === undefined ? {} : columnsOf(request.madeAgain)),
  })
  void tx.send(row)
  const steps = request.frozen.definition.steps.map((step, position) => ({
    run_id: request.runId,
    step_id: step.id,
    position,
    kind: kindOf(step).name,
    tool: step.tool ?? null,
    summary: step.summary || null,
    author_roles: [...(request.frozen.rolesOf.get(step.id) ?? [])],
  }))
  void tx.send(trx.insertInto('run_steps').values(steps))
}

const columnsOf = ({ of, chain, anew, onRepeat, unknownHappened }: MadeAgain) => ({
  rerun_of: of,
  chain,
  steps_anew: [...anew],
  on_repeat: onRepeat,
  unknown_happened: unknownHappened,
})

/** The ids of the groups that exist now: one that is made later under the same name is another. */
const readersOf = ({ policy }: ChainTx, { definition: { readers = [] } }: FrozenVersion): string[] =>
  readers.flatMap((name) => policy.groups.get(name) ?? [])

/** Who made the key of a service account or armed a trigger counts too: they could start what they may not decide. */
const authorIds = ({ frozen, madeAgain, caller: { keyMadeBy, trigger } }: Prepared): string[] => [
  ...new Set([
    ...frozen.authors.map(({ user_id }) => user_id),
    ...(typeof keyMadeBy === 'string' ? [keyMadeBy] : []),
    ...(trigger?.armedBy ?? []),
    ...(madeAgain?.authors ?? []),
  ]),
]

const labelsOf = ({ labels }: Prepared): Label[] =>
  unionLabels(Object.values(labels).flatMap((sources) => sources.map(({ label }) => label)))

function createRunApproval(
  context: Pick<Context, 'config'>,
  tx: ChainTx,
  request: Prepared,
  { risk, terms }: RunGate,
): void {
  tx.expects({ approvals: 1 })
  const record = pendingApproval(
    tx,
    {
      kind: 'run',
      run_id: request.runId,
      workflow_id: request.workflowId,
      step_id: null,
      item_index: null,
      session_id: null,
      requested_by: request.caller.userId,
      authors: authorIds(request),
      params_hash: request.refersToRuns ? hashOf(request.inputs) : request.inputHash,
      labels: labelsOf(request),
      rule_name: null,
      decision_id: null,
    },
    requirementNow(tx, terms),
    { ...terms, expiresAfterSeconds: expiryOf(terms, context.config.runApprovalSeconds) },
  )
  const approval = {
    record,
    sealed: null,
    state: null,
    tool: null,
    side_effect: null,
    destination: null,
    rule_id: null,
    risk,
  }
  void tx.send(sql`with ${insertApprovals(tx, [approval])} select 1`)
  tx.event(request.runId, 'run.awaiting_approval', { approval_id: record.id })
  announceRequest(tx, approval, {
    actor: actorOf(request.caller),
    runId: request.runId,
  })
}

/** In seconds. The shorter time counts, and 0 means that the approval never expires. */
const expiryOf = ({ expiresAfterSeconds: seconds }: ApprovalTerms, usual: number): number =>
  seconds === null || usual === 0 ? (seconds ?? usual) : Math.min(seconds, usual)

/** Leaves an audit entry but no run. Throws `RunExists` if a request with this key has started a run. */
async function overQuota(
  tx: ChainTx,
  request: Prepared,
  over: Exceeded,
  risk?: Risk,
): Promise<DomainError | null> {
  if (request.idempotencyKey !== undefined && (await findEarlierRun(tx.trx, request)) !== undefined)
    throw new RunExists()
  const { workflowId } = request
  const entry = exceededEntry(over, 'execute', actorOf(request.caller), { workflowId })
  const known = risk === undefined ? {} : { risk: risk.level, risk_reasons: [...risk.reasons] }
  tx.append({ ...entry, metadata: { ...entry.metadata, ...known } })
  return quotaExceeded(over)
}

class RunExists extends Error {}

async function earlierRun(db: Db, request: Prepared): Promise<string> {
  const run = await findEarlierRun(db, request)
  if (run === undefined) throw notFound('run', request.runId)
  return run.id
}

function findEarlierRun(db: Db, request: Prepared): Promise<{ id: string } | undefined> {
  return db
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', request.workflowId)
    .where('requested_by', '=', request.caller.userId)
    .where('idempotency_key', '=', request.idempotencyKey as string)
    .executeTakeFirst()
}

/** Returns the canonical name. Throws `validation_error` for text that names no time zone. */
export function validTimeZone(timeZone: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone
  } catch {
    const message = `\`${timeZone.slice(0, 100)}\` is no time zone: give an IANA name such as \`Europe/Berlin\``
    throw new DomainError('validation_error', message, [{ path: 'time_zone', message }])
  }
}
