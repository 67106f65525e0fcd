import type { Context } from '../../context.ts'
import { wakeKey } from '../../contract/messages.ts'
import { runEnded } from '../../contract/status.ts'
import { addedLabels } from '../../policy/decide.ts'
import { unionLabels, type Json, type Label } from '../../policy/types.ts'
import { getTool } from '../../catalog/index.ts'
import { mayDecide } from '../approvals/requirement.ts'
import { canonicalJson } from '../canonical.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { actorOf, type Caller } from '../identity.ts'
import type { SealedText } from '../sealing/format.ts'
import { outputPlace } from '../sealing/places.ts'
import { sealText } from '../sealing/sealer.ts'
import { effectId, loadLedger, type EffectKey, type EffectRecord } from './ledger.ts'
import { settle, type Settlement } from './ledger-moves.ts'
import { effectiveParams, openParams } from './sealed-params.ts'
import { runAs } from '../standing.ts'

export interface ResolveRequest {
  readonly caller: Caller
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number | null
  readonly outcome: 'retry' | 'done' | 'fail'
  /** With `done`: what the call's output shall be; null if left out. */
  readonly output?: Json | undefined
  /** A second `retry` of one key would send again what nobody asked to send again. */
  readonly once?: Once | null
}

/**
 * A person's word on a call whose outcome nobody knows (contract section 4; commit point `effect.resolve`): `retry`
 * lets it be decided and made again, `done` takes it as completed, `fail` as failed. Throws `not_found`,
 * `insufficient_role` for someone who is not an admin now, `bad_transition` when there is nothing to resolve.
 */
export async function resolveStep(context: Context, request: ResolveRequest): Promise<void> {
  const { caller, runId, stepId, outcome } = request
  const key = { runId, stepId, itemIndex: request.itemIndex ?? -1 }
  const output = await sealText(context.sealer, outputPlace(key), canonicalJson(request.output ?? null))
  await runAs(context, caller, 'effect.resolve', async (tx, now) => {
    const ledger = await loadLedger(tx, [key])
    const run = ledger.runs.get(runId)
    if (run === undefined) throw notFound('run', runId)
    if (!mayDecide((await now()).role, 'admin'))
      throw new DomainError('insufficient_role', 'resolving an unknown outcome needs the role `admin`')
    const step = ledger.step(runId, stepId)
    if (step === undefined) throw notFound('step', stepId)
    const effect = ledger.effects.get(effectId(key))
    if (effect?.state !== 'unknown_outcome' || effect.resolved_outcome !== null)
      throw new DomainError('bad_transition', await whyNothingToResolve(tx, key))
    if (runEnded(run.status))
      throw new DomainError('bad_transition', `the run has ended: it is \`${run.status}\``)
    const actor = actorOf(caller)
    if (outcome === 'retry') {
      effect.resolved_outcome = 'retry'
      ledger.touchEffect(effect)
      tx.append({
        eventType: 'tool_call.resolved',
        action: effect.tool,
        status: 'retry',
        actor,
        workflowId: run.workflow_id,
        runId,
        metadata: { step_id: stepId, item_index: request.itemIndex, outcome },
      })
    } else {
      const labels = outcome === 'done' ? await outputLabels(context, tx, key, effect) : effect.labels
      settle(tx, ledger, run, effect, { actor, ...chosen(request, output, labels) })
    }
    ledger.write(tx)
    await request.once?.markActed(tx.trx)
    tx.deliver('run.wake', runId, { key: wakeKey(stepId, request.itemIndex) })
  })
}

/** Names what could be resolved instead: of a `for_each` step the items. */
async function whyNothingToResolve(tx: ChainTx, { runId, stepId, itemIndex }: EffectKey): Promise<string> {
  const rows = await tx.trx
    .selectFrom('effects')
    .select('item_index')
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .where('item_index', '>=', 0)
    .where('state', '=', 'unknown_outcome')
    .where('resolved_outcome', 'is', null)
    .orderBy('item_index')
    .limit(20)
    .execute()
  const what = itemIndex < 0 ? `step \`${stepId}\`` : `item ${itemIndex} of step \`${stepId}\``
  const others = rows.map((row) => row.item_index).join(', ')
  return `${what} has no unknown outcome to resolve${others === '' ? '' : `: give \`item_index\`, one of ${others}`}`
}

function chosen(request: ResolveRequest, output: SealedText, outputLabels: Label[]): Settlement {
  if (request.outcome === 'done') return { state: 'completed', output, outputLabels }
  return {
    state: 'failed',
    error: { code: 'resolved_as_failed', message: 'a person resolved its unknown outcome as failed' },
    outputLabels,
  }
}

/** The same labels that the output would carry had its answer arrived: the tool's, and those of label rules. */
async function outputLabels(
  context: Context,
  tx: ChainTx,
  key: EffectKey,
  effect: EffectRecord,
): Promise<Label[]> {
  const tool = getTool(effect.tool)
  const { params_sealed: sealed, requester_email } = await tx.trx
    .selectFrom('effects')
    .innerJoin('runs', 'runs.id', 'effects.run_id')
    .select(['params_sealed', 'requester_email'])
    .where('run_id', '=', key.runId)
    .where('step_id', '=', key.stepId)
    .where('item_index', '=', key.itemIndex)
    .executeTakeFirstOrThrow()
  if (tool === undefined || sealed === null) return effect.labels
  const { params, paramLabels } = await openParams(context.sealer, key, sealed)
  const { sideEffect } = tool
  return unionLabels(
    effect.labels,
    tool.outputLabels,
    addedLabels(tx.policy.compiled, {
      source: 'workflows',
      tool: tool.name,
      sideEffect,
      params: effectiveParams(tool, params, requester_email),
      labels: effect.labels,
      paramLabels: new Map(paramLabels),
    }),
  )
}
