import { integrationNamed } from '../tools/index.ts'
import { serviceOf, type ToolDeclaration } from '../tools/kit/tool.ts'
import { diffOf, fieldsOf, type PreviewField } from '../tools/kit/preview.ts'
import { effectId } from '../contract/effect-key.ts'
import { newId } from '../contract/ids.ts'
import { parseParams } from '../contract/tool-params.ts'
import { sealState, type ApprovedState } from '../governance/approvals/approved-state.ts'
import { liveRow } from '../governance/connections/credential.ts'
import type { Context } from '../governance/context.ts'
import type { Unseen } from '../calls/runs/effect.ts'
import type { Seen, StepOp } from '../calls/runs/step-op.ts'
import type { CallSpec } from '../calls/runs/call-spec.ts'
import type { JsonObject } from '../policy/types.ts'
import { isOutage, raceWithLimit } from './patience.ts'
import {
  invalidParams,
  StateChanged,
  ToolError,
  type State,
  type ToolCall,
  type ToolContext,
} from '../tools/kit/executor.ts'
import { bodiesOf } from '../tools/bodies.ts'
import { createToolServices } from './tool-services.ts'

/*
 * If a call must wait for an approval, Countersign first reads the thing that the call changes. It also reads the
 * connection that the call uses. So the approvers see the thing and the connection. This state is stored together with
 * the approval, in one commit. A crash before the commit leaves no approval, and the next attempt reads the state
 * again.
 */

/** A call of a run, with the values that a worker has for the call. */
export interface CallInHand {
  readonly context: Context
  readonly spec: CallSpec
  readonly tool: ToolDeclaration
  readonly op: StepOp
}

/** `readWith` waits for its read at most this many milliseconds. */
const readMilliseconds = 10_000

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

/**
 * Reads the thing that a call changes, with the credential of the call. Throws ToolError if the thing cannot be read.
 */
export async function readPresent(hand: CallInHand, signal: AbortSignal): Promise<State> {
  const read = (await bodiesOf(hand.tool.name))?.state
  if (read === undefined) throw new Error(`no reader for the precondition of \`${hand.tool.name}\``)
  return readWith(hand, signal, read)
}

/** Throws StateChanged if the thing that the call changes is no longer as the approvers saw it. */
export async function requireRevision(
  hand: CallInHand,
  signal: AbortSignal,
  approved: string | null,
): Promise<void> {
  // If `check` is `before`, the revision is compared here. For every other value, the tool itself compares the
  // revision.
  if (approved === null || hand.tool.precondition?.check !== 'before') return
  const { revision } = await readPresent(hand, signal)
  if (revision !== approved) throw new StateChanged()
}

/** Reads something from the service of a call, with the credential of the call and within 10 seconds. */
export async function readWith<T>(
  hand: CallInHand,
  signal: AbortSignal,
  read: (call: ToolCall<never>, context: Pick<ToolContext, 'signal' | 'tools'>) => Promise<T>,
): Promise<T> {
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
  throw invalidParams("the parameters do not match the tool's schema")
}

/**
 * Asks for a decision. If a person must decide, reads the state that this person sees besides the parameters, and asks
 * again.
 */
export async function askSeeing<Verdict extends { readonly go: boolean } | null>(
  hand: CallInHand,
  signal: AbortSignal,
  ask: (op: StepOp) => Promise<Verdict | Unseen>,
): Promise<Verdict> {
  const verdict = await ask(hand.op)
  if (!isUnseen(verdict)) return verdict
  const again = await ask({ ...hand.op, seen: await seenNow(hand, signal) })
  if (isUnseen(again)) throw new Error('the call was held without what its approvers see')
  return again
}

const isUnseen = (verdict: object | null): verdict is Unseen =>
  verdict !== null && 'state' in verdict && verdict.state === 'unseen'

/**
 * Reads the thing that the call changes and the connection that it uses, and seals this state for the next approval. If
 * the state cannot be read, the preview says so.
 */
export async function seenNow(hand: CallInHand, signal: AbortSignal): Promise<Seen> {
  const approvalId = newId('approval')
  const { fields, host, ...used } = await readUsed(hand)
  const state = await readChanged(hand, host, signal)
  const all = { ...used, ...state, fields: [...fields, ...state.fields] }
  return { approvalId, sealed: await sealState(hand.context.sealer, approvalId, all) }
}

/**
 * Reads the connection that the call would use now. `seenNow` calls this function before it reads the thing that the
 * call changes. Another connection may replace this connection in between. Then the approval does not cover the new
 * connection.
 */
async function readUsed({
  context,
  spec,
  tool,
}: CallInHand): Promise<Pick<ApprovedState, 'connection' | 'fields'> & { readonly host: string | null }> {
  const integration = serviceOf(tool)
  if (integration === null) return { fields: [], host: null }
  const { organizationId, requestedBy: requesterId } = spec.run
  const row = await liveRow(context.db, { organizationId, requesterId, integration })
  if (row === undefined) return { connection: null, fields: [], host: null }
  const whose = row.owner_id === null ? 'the organization' : 'the person who runs the workflow'
  const { title = integration } = integrationNamed(integration) ?? {}
  const host = row.destination
  return {
    connection: row.id,
    fields: [
      ...fieldsOf({ connection: `of ${whose}, to ${title} at ${host}` }),
      ...(row.account === null ? [] : saidBy(host, fieldsOf({ account: row.account }))),
    ],
    host,
  }
}

/** Marks texts that a service has chosen, so that approvers do not take them for Countersign's words. */
const saidBy = (host: string | null, fields: readonly PreviewField[]): readonly PreviewField[] =>
  host === null ? fields : fields.map((field) => ({ ...field, said_by: host }))

async function readChanged(
  hand: CallInHand,
  host: string | null,
  signal: AbortSignal,
): Promise<ApprovedState> {
  if (hand.tool.precondition === undefined) return { revision: null, fields: [] }
  try {
    const { revision, fields = {}, diff, note } = await readPresent(hand, signal)
    return {
      revision,
      fields: saidBy(host, fieldsOf(fields)),
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
    const covered = serviceOf(tool) === null ? 'the parameters' : 'the parameters and the connection'
    const note = `It could not be read what the call changes${why}. The approval covers ${covered} alone.`
    return { revision: null, fields: [], note }
  }
}
