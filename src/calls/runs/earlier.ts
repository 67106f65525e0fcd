import { callId, type EffectKey } from '../../contract/ids.ts'
import type { WorkflowStep } from '../../contract/definition.ts'
import { readCompletedBefore, readMadeBefore, readRunsOfChain } from '../../db/queries/reruns.ts'
import { isBuiltin, type Builtins } from '../../policy/builtins.ts'
import { references } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import type { Unsealing, UnsealingRuns } from '../../governance/context.ts'
import { readRunSnapshot, type RunSnapshot } from '../../governance/runs/values/run-snapshot.ts'
import { readOutputText } from '../../governance/runs/values/outputs.ts'
import { readVersion } from '../../governance/runs/values/version-cache.ts'
import { outputBinding } from '../../governance/sealing/bindings.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import { sealText } from '../../governance/sealing/sealer.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { nextTurn } from '../../shared/time-slices.ts'
import type { DefinedCall, Earlier, Reused } from './call.ts'

/*
 * What the earlier runs of a chain have done (governance/runs/start/rerun.ts). A completed step is not made again if it
 * means the same: its definition is equal, and what it reads is. Dates and the id of the run may differ, so its values
 * are resolved once more as of the run that made it, and compared by their hash.
 */

/** The reason of a call that no rule holds, and that an earlier run has made. */
export const alreadyMade = 'already made'

export const nothingEarlier: Earlier = { reused: null, repeats: null }

export interface EarlierAsked {
  /** The templates of the values; only names in them are read. */
  readonly templates: Json
  /** The hash of the values as of a run. Throws if they cannot be computed so. */
  readonly hashUnder: (builtins: Builtins) => string
  /** The tool if it writes or sends; null for a call that may be repeated. */
  readonly acts: string | null
}

/** As many completed calls are compared as a chain has runs. */
const mostCompared = 20

export async function findEarlier(
  context: UnsealingRuns,
  defined: DefinedCall,
  asked: EarlierAsked,
): Promise<Earlier> {
  const { run, key } = defined
  if (run.rerun === null) return nothingEarlier
  const reused = run.rerun.anew.has(key.stepId) ? null : await findReused(context, defined, asked)
  if (reused !== null || asked.acts === null) return { reused, repeats: null }
  return { reused: null, repeats: await findRepeated(context, run, asked, asked.acts) }
}

async function findReused(
  context: UnsealingRuns,
  { run, key, step }: DefinedCall,
  asked: EarlierAsked,
): Promise<Reused | null> {
  const of = run.rerun?.of ?? run.id
  const given = {
    ...ofChain(run),
    of,
    requester: run.requestedBy,
    stepId: key.stepId,
    itemIndex: key.itemIndex,
    most: mostCompared,
  }
  const { rows } = await readCompletedBefore(given).execute(context.db)
  for (const { run_id, made_by, params_hash, output_labels } of rows) {
    await nextTurn()
    const maker = await readRunSnapshot(context, made_by)
    const { definition } = await readVersion(context, maker.workflowId, maker.workflowVersion)
    const former = definition.steps.find(({ id }) => id === key.stepId)
    if (former === undefined || meaningOf(former) !== meaningOf(step)) continue
    if (hashOrNull(asked, maker.builtins) !== params_hash) continue
    const output = await copyOutput(context, { ...key, runId: run_id }, key)
    return { from: made_by, paramsHash: params_hash, output, labels: output_labels }
  }
  return null
}

/** With other dates, an expression may have no value. */
function hashOrNull({ hashUnder }: EarlierAsked, builtins: Builtins): string | null {
  try {
    return hashUnder(builtins)
  } catch {
    return null
  }
}

/** What a step does, without its place in the graph and words about it. */
const meaningOf = ({ depends_on: _depends, summary: _summary, ...rest }: WorkflowStep): string =>
  canonicalJson(rest)

async function copyOutput(context: Unsealing, from: EffectKey, to: EffectKey): Promise<SealedText | null> {
  const text = await readOutputText(context, from)
  return text === null ? null : sealText(context.sealer, outputBinding(to), text)
}

async function findRepeated(
  context: UnsealingRuns,
  run: RunSnapshot,
  asked: EarlierAsked,
  tool: string,
): Promise<string | null> {
  const hashes = new Set([hashOrNull(asked, run.builtins)])
  if (references(asked.templates).some(({ kind }) => isBuiltin(kind))) {
    const { chain } = ofChain(run)
    for (const { id } of (await readRunsOfChain(chain).execute(context.db)).rows) {
      await nextTurn()
      hashes.add(hashOrNull(asked, (await readRunSnapshot(context, id)).builtins))
    }
  }
  return madeBefore(
    context,
    run,
    tool,
    [...hashes].filter((each) => each !== null),
  )
}

/** The newest call with one of these hashes that an earlier run of the chain has made, as `RUN/STEP/ITEM`. */
export async function madeBefore(
  context: Pick<UnsealingRuns, 'db'>,
  run: RunSnapshot,
  tool: string,
  hashes: readonly string[],
): Promise<string | null> {
  if (run.rerun === null) return null
  const { unknownHappened } = run.rerun
  const given = { ...ofChain(run), tool, hashes, unknownHappened }
  const [made] = (await readMadeBefore(given).execute(context.db)).rows
  return made === undefined ? null : callId(made)
}

const ofChain = ({ id, rerun }: RunSnapshot) => ({ chain: rerun?.chain ?? id, except: id })
