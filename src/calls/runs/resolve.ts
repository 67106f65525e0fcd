import type { ChangingRuns, Unsealing } from '../../governance/context.ts'
import { wakeKey } from '../../contract/messages.ts'
import { mostResolved, runEnded } from '../../contract/status.ts'
import { stepError } from '../../contract/tool-faults.ts'
import { addedLabels, type Call } from '../../policy/decide.ts'
import { unionLabels, type Json, type Label } from '../../policy/types.ts'
import { headlineWithField } from '../../policy/issues.ts'
import { outputIssues } from '../../contract/tool-params.ts'
import { getTool } from '../../tools/index.ts'
import { mayDecide } from '../../governance/approvals/requirement.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { DomainError, notFound } from '../../governance/errors.ts'
import type { Once } from '../../governance/idempotency.ts'
import { actorOf, type Caller } from '../../governance/access/identity.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import { outputBinding } from '../../governance/sealing/bindings.ts'
import { sealText } from '../../governance/sealing/sealer.ts'
import { callId, effectId, type EffectKey } from '../../contract/ids.ts'
import { loadLedger, writeLedger } from './ledger-store.ts'
import { toolOf, type EffectRecord, type Ledger, type LockedCall } from './ledger.ts'
import { settle, type Settlement } from './ledger-moves.ts'
import { effectiveParams, openParams } from '../../governance/runs/values/sealed-params.ts'
import { runAs } from '../../governance/access/recheck.ts'
import type { Db } from '../../db/schema/index.ts'

export interface ResolveRequest {
  readonly caller: Caller
  readonly runId: string
  readonly stepId: string
  /** `all`: items with an unknown outcome, at most `mostResolved`. Null for a step without `for_each`. */
  readonly items: number | readonly number[] | 'all' | null
  /**
   * The person has examined this attempt, and knows nothing about the next one. A named call at another
   * attempt is refused; `all` leaves it out.
   */
  readonly attempt?: number | undefined
  readonly outcome: 'retry' | 'done' | 'fail'
  /** `done` gives this output to each call. If absent, the output is null. */
  readonly output?: Json | undefined
  /** This is marked when the calls are resolved, so a repeated request does not retry a call twice. */
  readonly once?: Once | null
}

/** Each item stores its own copy of the output. This limits all copies together. */
export const mostResolvedBytes = 16 * 1024 ** 2

/**
 * Resolves all of the calls or none (commit point `effect.resolve`). `retry` decides and makes the call
 * again, `done` counts it as completed, and `fail` as failed. Each call gets an audit entry that names the
 * person and the choice.
 *
 * Throws:
 * - `not_found` for an unknown run or step;
 * - `insufficient_role` if the person is not an admin now;
 * - `bad_transition` if a call has no unknown outcome, or if the run has ended;
 * - `conflict` if a call is at another attempt than `attempt`;
 * - `validation_error` if the output is not one of the tool, or is too large for so many calls.
 */
export async function resolveStep(context: ChangingRuns, request: ResolveRequest): Promise<void> {
  const { caller, runId, stepId, outcome } = request
  const calls = await chosenCalls(context, request)
  const keys = calls.map(({ key }) => key)
  await runAs(context, caller, 'effect.resolve', async (tx, now) => {
    const ledger = await loadLedger(tx, keys.length === 0 ? [{ runId, stepId, itemIndex: -1 }] : keys)
    const run = ledger.runs.get(runId)
    if (run === undefined) throw notFound('run', runId)
    if (!mayDecide((await now()).role, 'admin'))
      throw new DomainError('insufficient_role', 'you need the role `admin` to resolve an unknown outcome')
    if (ledger.step(runId, stepId) === undefined) throw notFound('step', stepId)
    const wrong = keys.filter((key) => !isUnresolved(ledger, key))
    if (wrong.length > 0 || keys.length === 0)
      throw new DomainError('bad_transition', await whyNothingToResolve(tx, request, wrong))
    refuseOtherAttempt(ledger, keys, request.attempt)
    if (runEnded(run.status))
      throw new DomainError('bad_transition', `the run has ended: it is \`${run.status}\``)
    const actor = actorOf(caller)
    for (const call of calls) {
      const effect = ledger.effects.get(effectId(call.key)) as EffectRecord
      noteChoice({ tx, ledger, run, effect }, outcome, caller)
      if (outcome === 'retry') retry({ tx, ledger, run, effect })
      else settle({ tx, ledger, run, effect }, { actor, ...settlementOf(tx, effect, call, outcome) })
    }
    writeLedger(tx, ledger)
    await request.once?.markActed(tx.trx)
    const woken = keys.map(({ itemIndex }) => wakeKey(stepId, itemIndex))
    tx.deliver('run.wake', runId, {
      key: woken.length === 1 ? (woken[0] as string) : woken,
      by: caller.userId,
    })
  })
}

const isUnresolved = (ledger: Ledger, key: EffectKey): boolean => {
  const effect = ledger.effects.get(effectId(key))
  return effect?.state === 'unknown_outcome' && effect.resolved_outcome === null
}

/** The error (`conflict`) names the first call at another attempt than `attempt`. */
function refuseOtherAttempt(ledger: Ledger, keys: readonly EffectKey[], attempt: number | undefined): void {
  if (attempt === undefined) return
  for (const key of keys) {
    const present = ledger.effects.get(effectId(key))?.attempt
    if (present === attempt) continue
    const of = key.itemIndex < 0 ? '' : `item ${key.itemIndex} of `
    throw new DomainError(
      'conflict',
      `the unknown outcome of ${of}step \`${key.stepId}\` is that of attempt ${present}, not of attempt ${attempt}: look for that call, then choose again`,
      [{ path: 'attempt', message: `is not the present attempt, ${present}` }],
    )
  }
}

/** If the choice ends the call, `settle` writes a second entry. */
function noteChoice(
  { tx, run, effect }: LockedCall,
  outcome: ResolveRequest['outcome'],
  caller: Caller,
): void {
  void tx.send(
    tx.trx.insertInto('resolutions').values({
      run_id: run.id,
      step_id: effect.step_id,
      item_index: effect.item_index,
      attempt: effect.attempt,
      organization_id: tx.organizationId,
      outcome,
      resolved_by: caller.userId,
      email: caller.email,
      at: tx.now,
    }),
  )
  tx.append({
    eventType: 'tool_call.resolved',
    action: toolOf(effect),
    status: outcome,
    actor: actorOf(caller),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: {
      step_id: effect.step_id,
      item_index: effect.item_index < 0 ? null : effect.item_index,
      attempt: effect.attempt,
      decision_id: effect.decision_id,
      outcome,
    },
  })
}

function retry({ tx, ledger, effect }: LockedCall): void {
  effect.resolved_outcome = 'retry'
  tx.notice('call', callId(effect))
  ledger.touchEffect(effect)
}

/** The call is opened and sealed before the organization's lock is taken. */
interface ChosenCall {
  readonly key: EffectKey
  readonly output: SealedText | undefined
  /** Label rules read this. If null, the output gets only the call's labels. */
  readonly call: Call | null
}

async function chosenCalls(context: Unsealing, request: ResolveRequest): Promise<readonly ChosenCall[]> {
  const { runId, stepId, items, outcome } = request
  const indexes =
    items === 'all'
      ? await unresolvedItems(context.db, request, mostResolved)
      : items === null
        ? [-1]
        : [...new Set([items].flat())]
  const keys = indexes.map((itemIndex) => ({ runId, stepId, itemIndex }))
  if (outcome !== 'done') return keys.map((key) => ({ key, output: undefined, call: null }))
  const text = canonicalJson(request.output ?? null)
  if (text.length * keys.length > mostResolvedBytes && keys.length > 1)
    throw new DomainError(
      'validation_error',
      '`output` is too large for so many items: resolve fewer at once',
      [{ path: 'output', message: 'is too large for so many items' }],
    )
  const calls = await readCalls(context, request, indexes)
  if (request.output !== undefined) for (const call of calls.values()) refuseOtherOutput(call, request.output)
  const chosen: ChosenCall[] = []
  for (const key of keys)
    chosen.push({
      key,
      output: await sealText(context.sealer, outputBinding(key), text),
      call: calls.get(key.itemIndex) ?? null,
    })
  return chosen
}

/** Later steps read its fields as those of the tool. null: nobody knows them. */
function refuseOtherOutput({ tool: name }: Call, output: Json): void {
  const tool = getTool(name)
  const issues = tool === undefined ? [] : outputIssues(tool, output, 'output')
  if (issues.length === 0) return
  throw new DomainError(
    'validation_error',
    headlineWithField(`this is not what \`${name}\` returns`, issues),
    issues,
  )
}

function settlementOf(
  tx: ChainTx,
  effect: EffectRecord,
  { output, call }: ChosenCall,
  outcome: 'done' | 'fail',
): Settlement {
  if (outcome === 'done') return { state: 'completed', output, outputLabels: outputLabels(tx, effect, call) }
  return {
    state: 'failed',
    error: stepError({
      code: 'resolved_as_failed',
      message: 'a person resolved its unknown outcome as failed',
    }),
    outputLabels: effect.labels,
  }
}

/** The labels of label rules are added if `call` is not null. */
function outputLabels(tx: ChainTx, effect: EffectRecord, call: Call | null): Label[] {
  const tool = getTool(toolOf(effect))
  if (tool === undefined) return effect.labels
  const added = call === null ? [] : addedLabels(tx.policy.compiled, { ...call, labels: effect.labels })
  return unionLabels(effect.labels, tool.outputLabels, added)
}

/** The key is the item index. Read without the lock, because stored parameters never change. */
async function readCalls(
  context: Unsealing,
  { caller, runId, stepId }: ResolveRequest,
  items: readonly number[],
): Promise<ReadonlyMap<number, Call>> {
  const rows = await context.db
    .selectFrom('effects')
    .innerJoin('runs', 'runs.id', 'effects.run_id')
    .leftJoin('decisions', 'decisions.id', 'effects.decision_id')
    .select(['effects.item_index', 'effects.tool', 'params_sealed', 'requester_email', 'destination'])
    .where('runs.organization_id', '=', caller.organizationId)
    .where('effects.run_id', '=', runId)
    .where('effects.step_id', '=', stepId)
    .where('effects.item_index', 'in', items.length === 0 ? [-1] : [...items])
    .where('state', '=', 'unknown_outcome')
    .execute()
  const calls = new Map<number, Call>()
  for (const { item_index, params_sealed: sealed, requester_email, ...row } of rows) {
    const tool = getTool(toolOf(row))
    if (tool === undefined || sealed === null) continue
    const key = { runId, stepId, itemIndex: item_index }
    const { params, paramLabels } = await openParams(context.sealer, key, sealed)
    calls.set(item_index, {
      source: 'workflows',
      tool: tool.name,
      sideEffect: tool.sideEffect,
      params: effectiveParams(tool, params, requester_email),
      destination: row.destination,
      labels: [],
      paramLabels: new Map(paramLabels),
    })
  }
  return calls
}

/** `attempt` is the one that the person has examined. */
interface AskedStep {
  readonly caller: Caller
  readonly runId: string
  readonly stepId: string
  readonly attempt?: number | undefined
}

/** The order is ascending. Resolved items are left out. A step without items has the index -1. */
async function unresolvedItems(
  db: Db,
  { caller, runId, stepId, attempt }: AskedStep,
  limit: number,
): Promise<number[]> {
  let query = db
    .selectFrom('effects')
    .select('item_index')
    .where('organization_id', '=', caller.organizationId)
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .where('state', '=', 'unknown_outcome')
    .where('resolved_outcome', 'is', null)
  if (attempt !== undefined) query = query.where('attempt', '=', attempt)
  const rows = await query.orderBy('item_index').limit(limit).execute()
  return rows.map((row) => row.item_index)
}

async function whyNothingToResolve(
  tx: ChainTx,
  request: AskedStep,
  wrong: readonly EffectKey[],
): Promise<string> {
  const step = `step \`${request.stepId}\``
  const items = wrong.filter(({ itemIndex }) => itemIndex >= 0).map(({ itemIndex }) => itemIndex)
  const named = items.slice(0, mostNamed).join(', ')
  const which = items.length === 1 ? `item ${named}` : `items ${named}`
  const what = items.length === 0 ? step : `${which}${items.length > mostNamed ? ' and more' : ''} of ${step}`
  const others = (await unresolvedItems(tx.trx, { ...request, attempt: undefined }, mostNamed))
    .filter((item) => item >= 0)
    .join(', ')
  const have = items.length > 1 ? 'have' : 'has'
  return `${what} ${have} no unknown outcome to resolve${others === '' ? '' : `: give \`item_index\`, one of ${others}`}`
}

const mostNamed = 20
