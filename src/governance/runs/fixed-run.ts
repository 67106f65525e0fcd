import type { Context } from '../../context.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { builtins } from '../../policy/templates.ts'
import type { Builtins } from '../../policy/builtins.ts'
import type { JsonObject } from '../../policy/types.ts'
import { heapBytes, Recent } from '../recent.ts'
import { inputsPlace } from '../sealing/places.ts'
import { openKept } from '../sealing/sealer.ts'

/** What a run keeps from the moment it was accepted. */
export interface FixedRun {
  readonly id: string
  readonly organizationId: string
  readonly workflowId: string
  readonly workflowVersion: number
  readonly requestedBy: string
  /** The requester's address when the run was accepted: what `me` stands for, however long the run takes. */
  readonly requesterEmail: string
  readonly inputs: JsonObject
  readonly inputLabels: ReadonlyMap<string, readonly LabelSource[]>
  /** `today`, `yesterday` and `now`, fixed at run start in the run's time zone (contract section 3). */
  readonly builtins: Builtins
}

/** A run that this database does not have: of another installation that shares our task queue, or of none. */
export class UnknownRun extends Error {
  override readonly name = 'UnknownRun'
  constructor(runId: string) {
    super(`run \`${runId}\` is not in this database: a task queue serves one database`)
  }
}

/** 64 MiB of them: some thousand with small inputs. Inputs of more than 16 MiB in memory are read again each time. */
const cache = new Recent<FixedRun>(64 * 1024 * 1024)

/** What a run was started with; `{}` once it was removed. Throws UnsealError. */
export async function openInputs(
  { sealer }: Pick<Context, 'sealer'>,
  run: { readonly id: string; readonly inputs: string | null; readonly inputs_sealed: Buffer | null },
): Promise<JsonObject> {
  const kept = { sealed: run.inputs_sealed, plain: run.inputs }
  return JSON.parse((await openKept(sealer, inputsPlace(run.id), kept)) ?? '{}') as JsonObject
}

/** Cached: none of it changes. Throws UnknownRun. */
export async function readFixedRun(
  context: Pick<Context, 'db' | 'sealer'>,
  runId: string,
): Promise<FixedRun> {
  const cached = cache.get(runId)
  if (cached !== undefined) return cached
  const row = await context.db
    .selectFrom('runs')
    .select([
      'id',
      'organization_id',
      'workflow_id',
      'workflow_version',
      'requested_by',
      'requester_email',
      'inputs',
      'input_labels',
      'inputs_sealed',
      'time_zone',
      'created_at',
    ])
    .where('id', '=', runId)
    .executeTakeFirst()
  if (row === undefined) throw new UnknownRun(runId)
  const run: FixedRun = {
    id: row.id,
    organizationId: row.organization_id,
    workflowId: row.workflow_id,
    workflowVersion: row.workflow_version,
    requestedBy: row.requested_by,
    requesterEmail: row.requester_email,
    inputs: await openInputs(context, row),
    inputLabels: new Map(Object.entries(row.input_labels)),
    builtins: builtins(row.created_at, row.time_zone),
  }
  cache.set(runId, run, heapBytes(run))
  return run
}

/** Of a run that has ended: nothing reads it from here again. */
export function forgetFixedRun(runId: string): void {
  cache.delete(runId)
}
