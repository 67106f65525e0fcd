import { parseParams } from '../contract/definition.ts'
import type { ToolDeclaration } from '../catalog/tool.ts'
import type { Context } from '../context.ts'
import type { StepError } from '../db/schema/runs.ts'
import { hashOf } from '../governance/canonical.ts'
import { toolNotAvailable } from '../governance/connections.ts'
import type { StepOp } from '../governance/runs/effect.ts'
import type { Frame } from '../governance/runs/frame.ts'
import { itemsOf } from '../governance/runs/items.ts'
import { load, mostParamText, type Loaded } from '../governance/runs/loading.ts'
import { ResourceExhausted } from '../governance/runs/outputs.ts'
import {
  effectiveParams,
  openParams,
  readSealed,
  sealParams,
  type SealedParams,
} from '../governance/runs/sealed-params.ts'
import { resolve, type Scope } from '../policy/templates.ts'
import { mostLabels, tooManyLabels, unionLabels, type Json, type JsonObject } from '../policy/types.ts'
import { holds } from '../policy/when.ts'
import { executors } from './tools/index.ts'

/** A call that is ready to be decided, and the room in memory that it takes until it has ended. */
export type Prepared = Loaded<StepOp>

/**
 * Makes a call ready to be decided: `when` evaluated, templates resolved once and sealed. Later attempts open the same
 * bytes; the approval and every attempt use them. What cannot be called becomes the operation's `problem`. Of a call that
 * can only end nothing is read. The caller releases `permit`.
 */
export async function prepareCall(
  context: Context,
  frame: Frame,
  tool: ToolDeclaration,
  signal: AbortSignal,
): Promise<Prepared> {
  const { sealedBytes, stopped } = frame
  if (stopped === 'over' || (stopped === 'frozen' && sealedBytes === null))
    return free({ ...(await unread(context, frame, tool)), isUnread: true })
  if (frame.labels.length > mostLabels)
    return free({ ...(await unread(context, frame, tool)), problem: tooMany })
  const make = async (scope: Scope): Promise<StepOp> =>
    sealedBytes === null ? resolved(context, frame, tool, scope) : opened(context, frame, tool)
  try {
    const what = { ...frame, templates: templatesOf(frame) }
    return await load(context, what, signal, make, (op) => copiesInUse * op.sealed.length)
  } catch (error) {
    if (!(error instanceof ResourceExhausted)) throw error
    const problem = { code: 'resource_exhausted', message: error.message }
    return free({ ...(await unread(context, frame, tool)), problem })
  }
}

const tooMany: StepError = {
  code: 'resource_exhausted',
  message: tooManyLabels('the inputs of the call carry'),
}

/** The parameters of a call while it is made: opened, sealed, and as its tool has them. */
const copiesInUse = 3

const free = (value: StepOp): Prepared => ({ value, permit: { release: () => {} } })

/** Everything of a call that is resolved together. */
const templatesOf = ({ step }: Frame): Json => {
  const { params, for_each, when } = step
  return [params, for_each ?? null, when?.value ?? null, when?.compare ?? null] as Json
}

async function opened(context: Context, frame: Frame, tool: ToolDeclaration): Promise<StepOp> {
  const sealed = await readSealed(context, frame.key)
  const stored = await openParams(context.sealer, frame.key, sealed)
  return operation(context, frame, tool, stored, sealed, true, null)
}

async function resolved(
  context: Context,
  frame: Frame,
  tool: ToolDeclaration,
  named: Scope,
): Promise<StepOp> {
  let wanted = true
  let problem: StepError | null = null
  let stored = nothing
  try {
    const scope = scopeOf(frame, named)
    wanted = isWanted(frame, scope)
    if (wanted) stored = resolveParams(frame, scope)
  } catch (error) {
    problem = { code: 'template_unresolved', message: (error as Error).message }
  }
  if (wanted) problem ??= whyNotCallable(tool, effectiveParams(tool, stored.params, frame.run.requesterEmail))
  // What cannot be called is not kept: it may be there only to fill a disk.
  if (problem !== null) stored = nothing
  const sealed = await sealParams(context.sealer, frame.key, stored)
  return operation(context, frame, tool, stored, sealed, wanted, problem)
}

function operation(
  context: Context,
  frame: Frame,
  tool: ToolDeclaration,
  stored: SealedParams,
  sealed: Buffer,
  wanted: boolean,
  problem: StepError | null,
): StepOp {
  return {
    key: frame.key,
    tool,
    wanted,
    problem,
    params: effectiveParams(tool, stored.params, frame.run.requesterEmail),
    paramsHash: hashOf({ tool: tool.name, params: stored.params }),
    paramLabels: new Map(stored.paramLabels),
    sealed,
    labels: frame.labels,
    labelSources: frame.labelSources,
    installation: context.config.tools,
    mustBeConfirmed: context.config.people.mustBeConfirmed,
    approvalSeconds: context.config.runApprovalSeconds,
  }
}

const nothing: SealedParams = { params: {}, paramLabels: [] }

/** For a call that could not even be prepared; its outcome is `failed`. */
export async function brokenCall(context: Context, frame: Frame, tool: ToolDeclaration): Promise<StepOp> {
  const problem = { code: 'not_prepared', message: 'the parameters could not be prepared or opened' }
  return { ...(await unread(context, frame, tool)), problem }
}

async function unread(context: Context, frame: Frame, tool: ToolDeclaration): Promise<StepOp> {
  const sealed = await sealParams(context.sealer, frame.key, nothing)
  return operation(context, frame, tool, nothing, sealed, true, null)
}

/** `{{item}}` and `{{index}}` are this item's; what the list was built from comes along with each item. */
function scopeOf(frame: Frame, named: Scope): Scope {
  if (frame.key.itemIndex < 0) return named
  const items = itemsOf(frame, named)
  if (frame.key.itemIndex >= items.length) throw new RangeError(`there is no item ${frame.key.itemIndex}`)
  const { sources } = resolve(frame.step.for_each as Json, named)
  return {
    ...named,
    item: items[frame.key.itemIndex],
    index: frame.key.itemIndex,
    itemSources: [...new Set([...sources.values()].flat())],
  }
}

function isWanted(frame: Frame, scope: Scope): boolean {
  const { when } = frame.step
  if (when === undefined) return true
  const compare = when.compare === undefined ? undefined : resolve(when.compare, scope).value
  return holds(when.operator, resolve(when.value, scope).value, compare)
}

function resolveParams(frame: Frame, scope: Scope): SealedParams {
  const { value, sources } = resolve(frame.step.params, scope, mostParamText)
  return {
    params: value as JsonObject,
    paramLabels: [...sources].map(([path, steps]) => [
      path,
      unionLabels(...steps.map((id) => frame.labelsOf(id))),
    ]),
  }
}

function whyNotCallable(tool: ToolDeclaration, params: JsonObject): StepError | null {
  if (!Object.hasOwn(executors, tool.name))
    return { code: toolNotAvailable, message: `\`${tool.name}\` has no executor in this installation` }
  try {
    const parsed = parseParams(tool, params)
    if (parsed.ok) return null
    return { code: 'invalid_params', message: parsed.issues.map((issue) => issue.message).join('; ') }
  } catch {
    return { code: 'invalid_params', message: 'the parameters are too large to be checked' }
  }
}
