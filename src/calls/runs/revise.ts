import { sql } from 'kysely'
import { getTool } from '../../tools/index.ts'
import { parseParams, type ParsedParams } from '../../contract/tool-params.ts'
import { effectId, type EffectKey } from '../../contract/ids.ts'
import { reviseEffect } from '../../db/queries/runs.ts'
import type { CallRevision } from '../../db/schema/runs.ts'
import { unionLabels, type JsonObject, type SideEffect } from '../../policy/types.ts'
import { list, quote } from '../../policy/text.ts'
import { actorOf, type Caller } from '../../governance/access/identity.ts'
import { requireThawed } from '../../governance/access/frozen.ts'
import { runAs } from '../../governance/access/recheck.ts'
import { refuseEnded } from '../../governance/approvals/expire.ts'
import { readVoteRefusal } from '../../governance/approvals/detail.ts'
import { mostRevisions } from '../../governance/approvals/edits.ts'
import { reviseApproval, wakeRun } from '../../governance/approvals/moves.ts'
import { voterRefusal } from '../../governance/approvals/refusals.ts'
import { bestOf, requirementOf } from '../../governance/approvals/requirement.ts'
import { rightsOf } from '../../governance/approvals/rights.ts'
import { withRoles, type ApprovalRecord } from '../../governance/approvals/records.ts'
import type { ChangingRuns, UnsealingRuns } from '../../governance/context.ts'
import { DomainError, errorAt, notFound } from '../../governance/errors.ts'
import type { Once } from '../../governance/idempotency.ts'
import { readRunSnapshot } from '../../governance/runs/values/run-snapshot.ts'
import {
  effectiveParams,
  openParams,
  sealParams,
  type SealedParams,
} from '../../governance/runs/values/sealed-params.ts'
import { canonicalJson, hashOf } from '../../shared/canonical-json.ts'
import { madeBefore } from './earlier.ts'
import { loadLedger, writeLedger } from './ledger-store.ts'
import { toolOf, type LockedCall } from './ledger.ts'
import { isEditable } from './revised.ts'
import { countStoredBytes, fitsRun, runTooLarge } from './storage-limit.ts'

export interface ReviseRequest {
  readonly caller: Caller
  readonly approvalId: string
  /** Whole parameters; those that are left out stay. */
  readonly params: JsonObject
  readonly comment: string
  readonly once?: Once | null
}

/** What the call becomes. It was checked and sealed before the lock. */
interface Revised {
  readonly key: EffectKey
  /** The hash of the parameters before the edit. */
  readonly formerHash: string
  readonly names: readonly string[]
  readonly sealed: Buffer
  readonly paramsHash: string
  readonly repeats: string | null
}

/**
 * Edits the parameters of a held call (commit point `approval.revise`): its requester, if an approver asked for changes,
 * or an approver, if the rule names the parameters in `approver_may_edit`. The run then decides the call anew.
 *
 * Throws `not_found`, `bad_transition` for what is no call of a run, `approval_already_decided`, `approval_expired`,
 * `not_an_approver`, `self_approval`, `conflict`, and `validation_error`.
 */
export async function reviseCall(context: ChangingRuns, request: ReviseRequest): Promise<void> {
  const { caller, approvalId } = request
  const revised = await prepareRevision(context, request)
  const refused = await runAs(context, caller, 'approval.revise', async (tx, now) => {
    const { key } = revised
    const ledger = await loadLedger(tx, [key])
    const [run, effect] = [ledger.runs.get(key.runId), ledger.effects.get(effectId(key))]
    if (run === undefined || effect === undefined) throw notFound('approval', approvalId)
    const ended = await reviseNow(
      { tx, ledger, run, effect },
      { ...request, ...revised, role: (await now()).role },
    )
    if (ended === null) await request.once?.markActed(tx.trx)
    return ended
  })
  // The expiry is committed, so the error is thrown only now.
  if (refused !== null) throw refused
}

async function prepareRevision(context: UnsealingRuns, request: ReviseRequest): Promise<Revised> {
  const row = await context.db
    .selectFrom('approvals')
    .select([
      'run_id',
      'step_id',
      'item_index',
      'session_id',
      'tool',
      'params_sealed',
      'params_hash',
      'status',
    ])
    .where('id', '=', request.approvalId)
    .where('organization_id', '=', request.caller.organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('approval', request.approvalId)
  const tool = getTool(row.tool ?? '')
  if (row.session_id !== null)
    throw new DomainError(
      'bad_transition',
      'a call of an agent is not edited: reject it with a comment, which the agent reads',
    )
  if (row.run_id === null || row.step_id === null || tool === undefined)
    throw new DomainError('bad_transition', 'only a held call of a run has parameters that can be edited')
  if (row.params_sealed === null || row.params_hash === null)
    throw new DomainError('approval_already_decided', `the approval is already \`${row.status}\``)
  // Before any value is opened, so that no answer tells a stranger what the values are.
  const refusal = await readVoteRefusal(context.db, request.caller, request.approvalId)
  if (refusal !== null) throw refusal
  const key = { runId: row.run_id, stepId: row.step_id, itemIndex: row.item_index ?? -1 }
  const run = await readRunSnapshot(context, key.runId)
  const former = await openParams(context.sealer, key, row.params_sealed)
  const read = (params: JsonObject): ParsedParams =>
    parseParams(tool, effectiveParams(tool, params, run.requesterEmail))
  const names = changedNames(
    read(former.params),
    read({ ...former.params, ...request.params }),
    request.params,
  )
  const next = withTyped(former, names, request.params)
  const paramsHash = hashOf({ tool: tool.name, params: next.params })
  return {
    key,
    formerHash: row.params_hash,
    names,
    sealed: await sealParams(context.sealer, key, next),
    paramsHash,
    repeats: tool.sideEffect === 'read' ? null : await madeBefore(context, run, tool.name, [paramsHash]),
  }
}

/** For those given, the parameters that mean something else for the tool. Throws if the tool does not take them. */
function changedNames(former: ParsedParams, next: ParsedParams, given: JsonObject): string[] {
  if (!next.ok) {
    const issues = next.issues.map(({ path, message }) => ({ path: `params.${path}`, message }))
    throw new DomainError('validation_error', 'the parameters do not fit the tool', issues)
  }
  const names = Object.keys(given).filter((name) => !former.ok || !isSame(name, former.params, next.params))
  if (names.length === 0)
    throw errorAt('validation_error', 'params', 'are as they were: change a value, or cancel the run')
  return names
}

const isSame = (name: string, one: JsonObject, other: JsonObject): boolean =>
  Object.hasOwn(one, name) === Object.hasOwn(other, name) &&
  canonicalJson(one[name] ?? null) === canonicalJson(other[name] ?? null)

/** What a person types is untrusted, and keeps the labels of what it replaces. */
function withTyped(
  { params, paramLabels, ...rest }: SealedParams,
  names: readonly string[],
  given: JsonObject,
) {
  const isOf = (path: string, name: string): boolean => path === name || path.startsWith(`${name}.`)
  const kept = paramLabels.filter(([path]) => !names.some((name) => isOf(path, name)))
  const typed = names.map((name) => {
    const replaced = paramLabels.flatMap(([path, labels]) => (isOf(path, name) || path === '' ? labels : []))
    return [name, unionLabels(replaced, typedLabels)] as const
  })
  const changed = Object.fromEntries(names.map((name) => [name, given[name] ?? null]))
  return { ...rest, params: { ...params, ...changed }, paramLabels: [...kept, ...typed] }
}

const typedLabels = ['untrusted']

interface Revising extends ReviseRequest, Revised {
  readonly role: Parameters<typeof rightsOf>[2]['role']
}

async function reviseNow(call: LockedCall, given: Revising): Promise<DomainError | null> {
  const { tx, ledger, run, effect } = call
  const { caller, role, names, comment, sealed, paramsHash } = given
  const approval = ledger.approvals.get(effect.approval_id ?? '')
  if (approval?.id !== given.approvalId)
    throw new DomainError(
      'approval_already_decided',
      'another approval has replaced this one: open the newest one',
    )
  const expired = refuseEnded(tx, approval)
  if (expired !== null) return expired
  const asked = { ...approval, votes: withRoles(approval, ledger) }
  const required = requirementOf(approval, tx.policy.settings)
  const rights = await rightsOf(tx.trx, tx.organizationId, { userId: caller.userId, role }, sql`${tx.now}`)
  const own = bestOf(rights, asked, required)
  const refusal = await voterRefusal(tx.trx, tx.organizationId, own, asked, required)
  if (refusal !== null) throw refusal
  if (approval.kind === 'edit' && caller.userId === approval.requested_by)
    throw new DomainError(
      'self_approval',
      'you asked for this call, so you do not edit it as an approver: reject it with `request_changes`, then edit it',
    )
  if (approval.kind !== 'revision') refuseLocked(call, approval, given)
  requireThawed(tx)
  refuseUneditable(call, given)
  const revision: CallRevision = {
    count: (effect.revision?.count ?? 0) + 1,
    written: effect.revision?.written ?? given.formerHash,
    typed: { ...effect.revision?.typed, ...Object.fromEntries(names.map((name) => [name, caller.userId])) },
    labels: unionLabels(effect.revision?.labels ?? [], typedLabels),
    by: caller.email,
    editor: approval.kind === 'revision' ? null : { id: caller.userId, for: own.for_user },
  }
  tx.expects({ bytes: sealed.length })
  countStoredBytes(call, sealed.length)
  const edit = {
    actor: actorOf(caller),
    forUser: own.for_user,
    revision: { params: names, comment },
    paramsHash,
  }
  reviseApproval(call, approval, edit)
  // An earlier run has made the call as it was: the service may know it.
  const repeats = effect.repeats ?? given.repeats
  void tx.send(reviseEffect({ ...given.key, sealed, paramsHash, revision, repeats }))
  run.status_reason = `step \`${effect.step_id}\` was edited by ${quote(caller.email)}`
  writeLedger(tx, ledger)
  wakeRun(tx, approval, caller.userId)
  return null
}

const sideEffects: readonly SideEffect[] = ['read', 'write', 'egress']

/** For an approver: the rules that held the call name the parameters, and the deciding one still does. */
function refuseLocked(
  { tx, effect }: LockedCall,
  { may_edit, rule_name }: ApprovalRecord,
  { names }: Revising,
) {
  const rulesFor = (sideEffect: SideEffect) =>
    tx.policy.compiled.rulesFor(toolOf(effect), sideEffect, 'workflows')
  const present = sideEffects.flatMap(rulesFor).find(({ name, isShadow }) => name === rule_name && !isShadow)
  const isOpen = (name: string): boolean =>
    may_edit.includes(name) && present?.mayEdit.includes(name) === true
  const locked = names.filter((name) => !isOpen(name))
  if (locked.length === 0) return
  const open = may_edit.filter(isOpen)
  throw new DomainError(
    'not_an_approver',
    `an approver may not edit ${list(locked.map(quote), 'or')} here${open.length === 0 ? '' : `, but ${list(open.map(quote), 'and')}`}: reject it with \`request_changes\`, or ask who writes the rules for \`approver_may_edit\``,
  )
}

function refuseUneditable({ run, effect }: LockedCall, { formerHash, sealed }: Revising): void {
  const conflict = (message: string): DomainError => new DomainError('conflict', message)
  if (run.cancel_requested_at !== null || run.finished_at !== null)
    throw conflict('the run is cancelled or has ended')
  if (!isEditable(effect)) throw conflict('the call has begun, so it is not edited any more')
  if (effect.params_hash !== formerHash)
    throw conflict('somebody has edited the call meanwhile: open it again')
  if ((effect.revision?.count ?? 0) >= mostRevisions)
    throw conflict(
      `the call was edited ${mostRevisions} times: cancel the run and start it with other inputs`,
    )
  if (!fitsRun(run, sealed.length)) throw conflict(runTooLarge.message)
}
