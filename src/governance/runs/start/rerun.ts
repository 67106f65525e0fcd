import { dependencies } from '../../../contract/definition-graph.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import { isObject } from '../../../contract/json.ts'
import { runEnded, type OnRepeat } from '../../../contract/status.ts'
import { filesInput } from '../../../policy/templates.ts'
import type { Json, JsonObject } from '../../../policy/types.ts'
import { requireRole } from '../../access/recheck.ts'
import type { Caller } from '../../access/identity.ts'
import { requireValues } from '../../approvals/sight.ts'
import type { ChangingRuns } from '../../context.ts'
import { DomainError, errorAt, notFound } from '../../errors.ts'
import type { Once } from '../../idempotency.ts'
import { openInputs } from '../values/run-snapshot.ts'
import { readVersion } from '../values/version-cache.ts'
import { acceptRun, type Firing } from './accept.ts'
import type { MadeAgain } from './chain.ts'

/*
 * A run is made again from an ended one. The new run decides each of its calls by today's rules, and looks first for what
 * the earlier runs of its chain have done (calls/runs/earlier.ts).
 */

export interface RerunRequest {
  readonly caller: Caller
  readonly runId: string
  /** `failed`: what is completed and means the same is not made again. `start`: all is. Or ids of steps that are. */
  readonly from: 'failed' | 'start' | readonly string[]
  readonly version: number | 'same' | 'latest'
  /** They replace those of the run. */
  readonly inputs: JsonObject
  readonly onRepeat: OnRepeat
  /** What the person knows about calls of earlier runs whose outcome is unknown. */
  readonly unknownHappened: boolean | null
  readonly idempotencyKey?: string | undefined
  readonly once?: Once | null | undefined
  /** One of many runs that are made again by one request. */
  readonly firing?: Firing | undefined
}

/**
 * Throws `not_found`, `insufficient_role` for a run of another person, `bad_transition` if a run of the chain has not
 * ended or nobody knows what became of one of its calls, and what `acceptRun` throws.
 */
export async function rerun(context: ChangingRuns, request: RerunRequest): Promise<{ runId: string }> {
  const { caller, runId } = request
  const run = await context.db
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', runId)
    .where('organization_id', '=', caller.organizationId)
    .executeTakeFirst()
  if (run === undefined) throw notFound('run', runId)
  if (run.poll_of !== null)
    throw new DomainError(
      'bad_transition',
      'the call of a poll is made again by its trigger: pause and resume it',
    )
  if (run.requested_by !== caller.userId) requireRole(caller.role, 'admin')
  // Without a look at the service, a call must not be made a second time.
  if (request.unknownHappened === false) requireRole(caller.role, 'admin')
  // The new run shows the values of this one to its requester.
  await requireValues(context.db, caller, runId)
  if (!runEnded(run.status))
    throw new DomainError('bad_transition', `the run is \`${run.status}\`: wait for its end, or cancel it`)
  if (run.data_removed_at !== null)
    throw new DomainError('bad_transition', 'the data of the run was removed: start the workflow anew')
  const { current_version: latest, deleted_at: deletedAt } = await context.db
    .selectFrom('workflows')
    .select(['current_version', 'deleted_at'])
    .where('id', '=', run.workflow_id)
    .executeTakeFirstOrThrow()
  if (deletedAt !== null)
    throw new DomainError('bad_transition', 'its workflow was deleted: start the one that took its place')
  const named = { same: run.workflow_version, latest }
  const version = typeof request.version === 'number' ? request.version : named[request.version]
  const { definition } = await readVersion(context, run.workflow_id, version)
  const former = await openInputs(context, run)
  const madeAgain: MadeAgain = {
    of: runId,
    isOthers: run.requested_by !== caller.userId,
    chain: run.chain ?? runId,
    from: request.from,
    anew: stepsAnew(definition, request.from),
    authors: run.authors,
    onRepeat: request.onRepeat,
    unknownHappened: request.unknownHappened,
  }
  return acceptRun(context, {
    caller,
    workflowId: run.workflow_id,
    version,
    timeZone: run.time_zone,
    former: declaredOf(definition, former),
    inputs: request.inputs,
    // Also for an input that is replaced: a value that is typed again must not lose what it carries.
    inputLabels: Object.fromEntries(
      Object.entries(declaredOf(definition, run.input_labels)).map(([name, labels]) => [
        name,
        labels.map(({ label }) => label),
      ]),
    ),
    files: fileIds(former[filesInput]),
    idempotencyKey: request.idempotencyKey,
    once: request.once,
    firing: request.firing,
    madeAgain,
  })
}

/** Another version may have other inputs. */
const declaredOf = <T>(
  { inputs = {} }: Pick<WorkflowDefinition, 'inputs'>,
  given: Readonly<Record<string, T>>,
): Record<string, T> =>
  Object.fromEntries(Object.entries(given).filter(([name]) => Object.hasOwn(inputs, name)))

const fileIds = (files: Json | undefined): string[] =>
  (Array.isArray(files) ? (files as readonly Json[]) : []).flatMap((file) =>
    isObject(file) && typeof file['id'] === 'string' ? [file['id']] : [],
  )

/** The named steps, and those that depend on them. Throws `validation_error` for a step that does not exist. */
function stepsAnew(definition: WorkflowDefinition, from: RerunRequest['from']): string[] {
  if (from === 'failed') return []
  const ids = definition.steps.map(({ id }) => id)
  if (from === 'start') return ids
  const unknown = from.findIndex((id) => !ids.includes(id))
  if (unknown >= 0)
    throw errorAt(
      'validation_error',
      `from.${unknown}`,
      `there is no step \`${from[unknown]}\` in this version`,
    )
  const graph = dependencies(definition)
  const anew = new Set(from)
  for (let before = -1; before !== anew.size;) {
    before = anew.size
    for (const [id, needed] of graph) if (needed.some((each) => anew.has(each))) anew.add(id)
  }
  return [...anew]
}
