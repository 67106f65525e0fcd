import { sql } from 'kysely'
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
  /** null: they are many, and read when a call needs them (outputs.ts). */
  readonly inputs: JsonObject | null
  /** Bytes of the inputs as PostgreSQL counts them. */
  readonly inputOctets: number
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

/** Inputs of more bytes are not kept with the run. */
const mostKeptInputs = 64 * 1024

/** 16 MiB of them: some thousand with small inputs. */
const cache = new Recent<FixedRun>(16 * 1024 * 1024)

interface KeptInputs {
  readonly id: string
  readonly inputs: string | null
  readonly inputs_sealed: Buffer | null
}

/** The text of what a run was started with; `{}` once it was removed. Throws UnsealError. */
export async function openInputsText({ sealer }: Pick<Context, 'sealer'>, run: KeptInputs): Promise<string> {
  const kept = { sealed: run.inputs_sealed, plain: run.inputs }
  return (await openKept(sealer, inputsPlace(run.id), kept)) ?? '{}'
}

/** What a run was started with; `{}` once it was removed. Throws UnsealError. */
export async function openInputs(context: Pick<Context, 'sealer'>, run: KeptInputs): Promise<JsonObject> {
  return JSON.parse(await openInputsText(context, run)) as JsonObject
}

/** Cached: none of it changes. Throws UnknownRun. */
export async function readFixedRun(
  context: Pick<Context, 'db' | 'sealer'>,
  runId: string,
): Promise<FixedRun> {
  const cached = cache.get(runId)
  if (cached !== undefined) return cached
  const octets = sql<number>`coalesce(octet_length(inputs_sealed), octet_length(inputs), 0)`
  const row = await context.db
    .selectFrom('runs')
    .select([
      'id',
      'organization_id',
      'workflow_id',
      'workflow_version',
      'requested_by',
      'requester_email',
      'input_labels',
      'time_zone',
      'created_at',
      octets.as('octets'),
      sql<string | null>`case when ${octets} <= ${mostKeptInputs} then inputs end`.as('inputs'),
      sql<Buffer | null>`case when ${octets} <= ${mostKeptInputs} then inputs_sealed end`.as('inputs_sealed'),
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
    inputs: row.octets <= mostKeptInputs ? await openInputs(context, row) : null,
    inputOctets: row.octets,
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
