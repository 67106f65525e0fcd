import type { Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { builtins } from '../../policy/templates.ts'
import type { Builtins } from '../../policy/builtins.ts'
import type { JsonObject } from '../../policy/types.ts'
import { heapBytes, Recent } from '../recent.ts'

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

/** Cached: none of it changes. Throws UnknownRun. */
export async function readFixedRun(db: Kysely<Database>, runId: string): Promise<FixedRun> {
  const cached = cache.get(runId)
  if (cached !== undefined) return cached
  const row = await db
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
    inputs: JSON.parse(row.inputs) as JsonObject,
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
