import type { ToolDeclaration } from '../catalog/tool.ts'
import { diffOf, fieldsOf } from '../catalog/preview.ts'
import { effectId } from '../contract/effect-key.ts'
import { newId } from '../contract/ids.ts'
import { parseParams } from '../contract/tool-params.ts'
import { sealState, type ApprovedState } from '../governance/approvals/approved-state.ts'
import type { Context } from '../governance/context.ts'
import type { Unseen } from '../governance/runs/effects/effect.ts'
import type { Seen, StepOp } from '../governance/runs/effects/step-op.ts'
import type { CallSpec } from '../governance/runs/values/call-spec.ts'
import type { JsonObject } from '../policy/types.ts'
import { isOutage, raceWithLimit } from './patience.ts'
import { ToolError, type State, type StateReader, type ToolCall } from './tools/executor.ts'
import { stateReaders } from './tools/index.ts'
import { createToolServices } from './tools/services.ts'

/*
 * What a call changes is read when the call is held, so that its approvers see it. The approval is stored together with
 * what was read, in one commit. A crash before that leaves no approval, and the next attempt reads again.
 */

/** A call of a run, as a worker has it. */
export interface CallInHand {
  readonly context: Context
  readonly spec: CallSpec
  readonly tool: ToolDeclaration
  readonly op: StepOp
}

/** The longest time to read what a call changes. */
const readMilliseconds = 10_000

/** Looked up at each call, because tests replace readers. */
const readerOf = (name: string): StateReader<never> | undefined =>
  Object.hasOwn(stateReaders, name)
    ? (stateReaders as Readonly<Record<string, StateReader<never>>>)[name]
    : undefined

export function toolCallOf(
  { spec, op }: CallInHand,
  params: JsonObject,
  revision: string | null,
): ToolCall<unknown> {
  return {
    params,
    organizationId: spec.run.organizationId,
    runId: spec.run.id,
    stepId: spec.key.stepId,
    itemIndex: spec.key.itemIndex < 0 ? null : spec.key.itemIndex,
    requester: { userId: spec.run.requestedBy },
    idempotencyKey: effectId(spec.key),
    labels: op.labels,
    revision,
  }
}

/** Reads what a call changes, with the credential of the call. Throws ToolError if that is not possible. */
export async function readPresent(hand: CallInHand, signal: AbortSignal): Promise<State> {
  const read = readerOf(hand.tool.name)
  if (read === undefined) throw new Error(`no reader for the precondition of \`${hand.tool.name}\``)
  const parsed = hand.op.parsed ?? parsedParams(hand)
  const limit = AbortSignal.timeout(readMilliseconds)
  const tools = createToolServices(hand.context)
  const reading = read(toolCallOf(hand, parsed, null) as ToolCall<never>, {
    signal: AbortSignal.any([signal, limit]),
    tools,
  })
  return raceWithLimit(reading, limit, () => false)
}

function parsedParams({ tool, op }: CallInHand): JsonObject {
  const parsed = parseParams(tool, op.params)
  if (parsed.ok) return parsed.params
  throw new ToolError('invalid_params', 'the parameters do not fit', { retryable: false })
}

/** Asks for a decision. If a person must decide, what the call changes is read, and the question asked again. */
export async function askSeeing<Verdict extends { readonly go: boolean } | null>(
  hand: CallInHand,
  signal: AbortSignal,
  ask: (op: StepOp) => Promise<Verdict | Unseen>,
): Promise<Verdict> {
  const verdict = await ask(hand.op)
  if (!isUnseen(verdict)) return verdict
  const again = await ask({ ...hand.op, seen: await seenNow(hand, signal) })
  if (isUnseen(again)) throw new Error('the call was held without what it changes')
  return again
}

const isUnseen = (verdict: object | null): verdict is Unseen =>
  verdict !== null && 'state' in verdict && verdict.state === 'unseen'

/** What the call changes, sealed for its next approval. If it cannot be read, the preview says so. */
export async function seenNow(hand: CallInHand, signal: AbortSignal): Promise<Seen> {
  const approvalId = newId('approval')
  const state = await readForApprovers(hand, signal)
  return { approvalId, sealed: await sealState(hand.context.sealer, approvalId, state) }
}

async function readForApprovers(hand: CallInHand, signal: AbortSignal): Promise<ApprovedState> {
  try {
    const { revision, fields = {}, diff, note } = await readPresent(hand, signal)
    return {
      revision,
      fields: fieldsOf(fields),
      ...(diff === undefined ? {} : { diff: diffOf(diff.before, diff.after) }),
      ...(note === undefined ? {} : { note }),
    }
  } catch (error) {
    if (signal.aborted || isOutage(error)) throw error
    const why = error instanceof ToolError ? ` (\`${error.code}\`)` : ''
    const { context, spec, tool } = hand
    context.log.warn(
      { err: error, tool: tool.name, run_id: spec.run.id, step_id: spec.key.stepId },
      'what a held call changes could not be read',
    )
    const note = `It could not be read what the call changes${why}. The approval covers the parameters alone.`
    return { revision: null, fields: [], note }
  }
}
