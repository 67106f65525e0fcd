import { withFilesAsText, parseParams } from '../../contract/tool-params.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import type { Context, Unsealing, UnsealingRuns } from '../../governance/context.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import type { DefinedCall, Earlier, ResolvedCall } from './call.ts'
import { findEarlier, nothingEarlier, type EarlierAsked } from './earlier.ts'
import { itemsOf } from './items.ts'
import { load, mostParamText, statesIn, type Loaded } from './loading.ts'
import { ResourceExhausted } from '../../governance/runs/values/outputs.ts'
import {
  effectiveParams,
  openParams,
  readSealed,
  sealParams,
  shownItem,
  type SealedParams,
} from '../../governance/runs/values/sealed-params.ts'
import type { Builtins } from '../../policy/builtins.ts'
import { references, resolve, type Resolved, type Scope } from '../../policy/templates.ts'
import { mostLabels, tooManyLabels, unionLabels, type Json, type JsonObject } from '../../policy/types.ts'
import { isWanted, whenParts } from '../../policy/when.ts'
import type { StepRun } from '../../steps/kind.ts'
import { valuesOf } from '../../steps/index.ts'
import type { ResolvedNoCall } from './no-call.ts'
import { prepareQuestion } from './prepare-question.ts'
import { isTooLarge, mostHeapBytes, mostValues } from '../../shared/json-size.ts'
import { outputBinding } from '../../governance/sealing/bindings.ts'
import { sealText } from '../../governance/sealing/sealer.ts'

/**
 * Resolves the templates once. The approval and all later attempts use the same sealed bytes. A call that
 * cannot run gets a `problem`. If it is `stopped`, no values are read. The caller must release `permit`, the
 * memory that the call may use until it ends.
 */
export async function prepareCall(
  context: Context,
  defined: DefinedCall,
  tool: ToolDeclaration,
  signal: AbortSignal,
): Promise<Loaded<ResolvedCall>> {
  const { sealedBytes, stopped } = defined
  if (stopped !== null) return free(await unread(context, defined, tool))
  if (defined.labels.length > mostLabels)
    return free({ ...(await unread(context, defined, tool)), problem: tooMany })
  const make = async (scope: Scope): Promise<ResolvedCall> =>
    sealedBytes === null ? resolved(context, defined, tool, scope) : opened(context, defined, tool)
  try {
    const what = { ...defined, templates: templatesOf(defined) }
    return await load(context, what, signal, make, (op) => copiesInUse * op.sealed.length)
  } catch (error) {
    if (!(error instanceof ResourceExhausted)) throw error
    const problem = { code: 'resource_exhausted', message: error.message }
    return free({ ...(await unread(context, defined, tool)), problem })
  }
}

const tooMany: StepError = {
  code: 'resource_exhausted',
  message: tooManyLabels('the inputs of the call carry'),
}

/**
 * Uses only the run's inputs and the previous step's output (JSON text). Null if another value is needed, or
 * if the call is too large or cannot run. Then the call's own activity prepares it.
 */
export async function prepareNext(
  context: Context,
  defined: DefinedCall,
  tool: ToolDeclaration,
  output: string,
): Promise<ResolvedCall | null> {
  const { run, sources, labels } = defined
  // A run that was made again looks for what the earlier ones have done.
  if (
    run.rerun !== null ||
    run.inputs === null ||
    labels.length > mostLabels ||
    statesIn(templatesOf(defined)).length > 0
  )
    return null
  const named = references(templatesOf(defined)).length * (output.length + run.inputOctets)
  if (named > mostNextCharacters) return null
  const value = sources.length === 0 ? null : (JSON.parse(output) as Json)
  const step = (id: string): Json | undefined => (sources.includes(id) ? value : undefined)
  const { inputs, inputLabels: labelledInputs, builtins } = run
  const scope = { inputs, labelledInputs, builtins, step }
  const op = await resolved(context, defined, tool, scope)
  return op.problem === null && op.sealed.length <= mostNextCharacters ? op : null
}

/** Limits the characters of all values that the templates name, and the bytes of the sealed parameters. */
const mostNextCharacters = 32 * 1024

/** The copies in memory are the opened parameters, the sealed ones, and those that the tool gets. */
const copiesInUse = 3

const free = (value: ResolvedCall): Loaded<ResolvedCall> => ({
  value,
  permit: { release: () => {} },
})

const templatesOf = ({ step }: DefinedCall): Json => {
  const { for_each, when } = step
  return [valuesOf(step), for_each ?? null, ...whenParts(when)] as Json
}

async function opened(
  context: Unsealing,
  defined: DefinedCall,
  tool: ToolDeclaration,
): Promise<ResolvedCall> {
  const sealed = await readSealed(context.db, defined.key)
  const stored = await openParams(context.sealer, defined.key, sealed)
  return withValues(context, defined, tool, { stored, sealed })
}

async function resolved(
  context: UnsealingRuns,
  defined: DefinedCall,
  tool: ToolDeclaration,
  named: Scope,
): Promise<ResolvedCall> {
  let wanted = true
  let problem: StepError | null = null
  let stored = noParams
  let item: Pick<SealedParams, 'item'> = {}
  try {
    const scope = scopeOf(defined, named)
    if (scope.item !== undefined) item = { item: shownItem(scope.item) }
    wanted = isToRun(defined, scope)
    if (wanted) stored = resolveParams(defined, scope)
  } catch (error) {
    const code = error instanceof ResourceExhausted ? 'resource_exhausted' : 'template_unresolved'
    problem = { code, message: (error as Error).message }
  }
  let parsed: JsonObject | undefined
  if (wanted && problem === null) {
    const checked = checkParams(tool, effectiveParams(tool, stored.params, defined.run.requesterEmail))
    if (checked.ok) parsed = checked.params
    else problem = { code: 'invalid_params', message: checked.message }
  }
  const earlier = wanted && problem === null ? await earlierOf(context, defined, tool, named) : nothingEarlier
  // Parameters of a call that cannot run are not stored. Otherwise somebody could fill the disk with them.
  if (problem !== null) stored = noParams
  const sealed = await sealParams(context.sealer, defined.key, {
    ...stored,
    ...item,
  })
  return withValues(context, defined, tool, {
    stored,
    sealed,
    wanted,
    problem,
    parsed,
    earlier,
  })
}

const earlierOf = (
  context: UnsealingRuns,
  defined: DefinedCall,
  tool: ToolDeclaration,
  named: Scope,
): Promise<Earlier> =>
  findEarlier(context, defined, {
    templates: templatesOf(defined),
    hashUnder: (builtins) =>
      paramsHashOf(tool, resolveParams(defined, scopeOf(defined, { ...named, builtins })).params),
    acts: tool.sideEffect === 'read' ? null : tool.name,
  })

const paramsHashOf = ({ name: tool }: ToolDeclaration, params: JsonObject): string => hashOf({ tool, params })

const isToRun = ({ step: { when }, isPassedOver }: DefinedCall, scope: Scope): boolean =>
  !isPassedOver && (when === undefined || isWanted(when, scope))

interface Made extends Partial<Pick<ResolvedCall, 'wanted' | 'problem' | 'parsed' | 'earlier'>> {
  readonly stored: SealedParams
  readonly sealed: Buffer
}

function withValues(
  context: Pick<Context, 'config'>,
  defined: DefinedCall,
  tool: ToolDeclaration,
  { stored, sealed, wanted = true, problem = null, parsed, earlier = nothingEarlier }: Made,
): ResolvedCall {
  return {
    ...defined,
    tool,
    wanted,
    problem,
    params: effectiveParams(tool, stored.params, defined.run.requesterEmail),
    parsed,
    paramsHash: paramsHashOf(tool, stored.params),
    paramLabels: new Map(stored.paramLabels),
    sealed,
    installation: context.config.tools,
    mustBeConfirmed: context.config.people.mustBeConfirmed,
    approvalSeconds: context.config.runApprovalSeconds,
    earlier,
  }
}

const noParams: SealedParams = { params: {}, paramLabels: [] }

/** The values of a step without a tool. */
export async function prepareNoCall(
  context: Context,
  defined: DefinedCall,
  run: Exclude<StepRun, { as: 'call' }>,
  signal: AbortSignal,
): Promise<ResolvedNoCall> {
  const { key, labels, stopped } = defined
  const empty = { ...noValues(defined), isUnread: stopped !== null }
  if (stopped !== null) return empty
  if (labels.length > mostLabels) return { ...empty, problem: tooMany }
  const failed = (code: string, error: unknown): ResolvedNoCall => ({
    ...empty,
    problem: { code, message: (error as Error).message },
  })
  const make = (
    named: Scope,
  ): ResolvedNoCall | { readonly values: JsonObject; readonly asked: EarlierAsked } => {
    try {
      const scope = scopeOf(defined, named)
      if (!isToRun(defined, scope)) return { ...empty, wanted: false }
      const valuesUnder = (builtins: Builtins): JsonObject =>
        resolve(valuesOf(defined.step), scopeOf(defined, { ...named, builtins }), mostParamText)
          .value as JsonObject
      const hashUnder = (builtins: Builtins) => hashOf(valuesUnder(builtins))
      const asked = { templates: templatesOf(defined), hashUnder, acts: null }
      return { values: valuesUnder(named.builtins), asked }
    } catch (error) {
      return failed('template_unresolved', error)
    }
  }
  try {
    const what = { ...defined, templates: templatesOf(defined) }
    const { value, permit } = await load(context, what, signal, make)
    try {
      if (!('values' in value)) return value
      const { values, asked } = value
      const known = {
        valuesHash: hashOf(values),
        reused: (await findEarlier(context, defined, asked)).reused,
      }
      if (run.as === 'pause')
        return { ...empty, ...known, does: { until: (now) => run.until(values, now, defined.run.timeZone) } }
      if (run.as === 'ask')
        return { ...empty, ...known, does: await prepareQuestion(context, defined, values) }
      const text = JSON.stringify(values)
      if (isTooLarge(text)) return failed('output_too_large', new Error(tooLarge))
      return {
        ...empty,
        ...known,
        does: { output: await sealText(context.sealer, outputBinding(key), text) },
      }
    } finally {
      permit.release()
    }
  } catch (error) {
    if (error instanceof ResourceExhausted) return failed('resource_exhausted', error)
    throw error
  }
}

const tooLarge = `the values are more than ${mostValues}, or take more than ${mostHeapBytes / 1024 / 1024} MiB in memory: compute fewer`

const notPrepared: StepError = {
  code: 'not_prepared',
  message: 'the parameters could not be prepared or opened',
}

const noValues = ({ key, labels }: DefinedCall): ResolvedNoCall => ({
  key,
  labels,
  wanted: true,
  isUnread: false,
  problem: null,
  does: null,
  valuesHash: null,
  reused: null,
})

/** The outcome will be `failed`, unless the step has begun to wait. */
export const brokenNoCall = (defined: DefinedCall): ResolvedNoCall => ({
  ...noValues(defined),
  problem: notPrepared,
})

/** The outcome will be `failed`. */
export async function brokenCall(
  context: Unsealing,
  defined: DefinedCall,
  tool: ToolDeclaration,
): Promise<ResolvedCall> {
  return { ...(await unread(context, defined, tool)), problem: notPrepared }
}

async function unread(
  context: Unsealing,
  defined: DefinedCall,
  tool: ToolDeclaration,
): Promise<ResolvedCall> {
  const sealed = await sealParams(context.sealer, defined.key, noParams)
  return withValues(context, defined, tool, { stored: noParams, sealed })
}

/** The item has the same sources as the list. */
function scopeOf(defined: DefinedCall, named: Scope): Scope {
  if (defined.key.itemIndex < 0) return named
  const items = itemsOf(defined, named)
  if (defined.key.itemIndex >= items.length)
    throw new RangeError(`item ${defined.key.itemIndex} does not exist`)
  const { sources } = resolve(defined.step.for_each as Json, named)
  return {
    ...named,
    item: items[defined.key.itemIndex],
    index: defined.key.itemIndex,
    itemSources: [...new Set([...sources.values()].flat())],
  }
}

/** Labels are counted for each source of a value. The rules read them under the organization's lock. */
const mostParamLabels = 100_000

function labelsOfParams(defined: DefinedCall, sources: Resolved['sources']): SealedParams['paramLabels'] {
  let left = mostParamLabels
  return [...sources].map(([path, ids]) => {
    const labels = ids.map((id) => defined.labelsOf(id))
    for (const each of labels) left -= each.length
    if (left < 0)
      throw new ResourceExhausted(
        `the parameters carry more than ${mostParamLabels} labels together: use fewer templates`,
      )
    return [path, unionLabels(...labels)]
  })
}

function resolveParams(defined: DefinedCall, scope: Scope): SealedParams {
  const written = valuesOf(defined.step)
  const params = defined.tool === undefined ? written : withFilesAsText(defined.tool, written)
  const { value, sources } = resolve(params, scope, mostParamText)
  return {
    params: value as JsonObject,
    paramLabels: labelsOfParams(defined, sources),
  }
}

function checkParams(
  tool: ToolDeclaration,
  params: JsonObject,
): { readonly ok: true; readonly params: JsonObject } | { readonly ok: false; readonly message: string } {
  try {
    const parsed = parseParams(tool, params)
    if (parsed.ok) return parsed
    return {
      ok: false,
      message: parsed.issues.map((issue) => issue.message).join('; '),
    }
  } catch {
    return { ok: false, message: 'the parameters are too large to be checked' }
  }
}
