import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { LabelSource } from '../../../db/schema/runs.ts'
import { builtinsOf, type Builtins } from '../../../policy/builtins.ts'
import type { JsonObject } from '../../../policy/types.ts'
import { counted, heapBytes, type ByteCache } from '../../../shared/byte-cache.ts'
import { inputsBinding } from '../../sealing/bindings.ts'
import { openKept, type Sealer } from '../../sealing/sealer.ts'

/** The parts of a run that never change after the run was accepted. */
export interface RunSnapshot {
  readonly id: string
  readonly organizationId: string
  readonly workflowId: string
  readonly workflowVersion: number
  readonly requestedBy: string
  readonly requestId: string | null
  /** From the time when the run was accepted. Until the run ends, `me` has this value. */
  readonly requesterEmail: string
  /** Who edits a call if its approvers ask for changes: the requester, or, of a service account, an author. */
  readonly editor: { readonly id: string; readonly email: string; readonly isRequester: boolean } | null
  /** Is null if the inputs are large. Large inputs are read when a call needs them (outputs.ts). */
  readonly inputs: JsonObject | null
  /** Bytes. */
  readonly inputOctets: number
  readonly inputLabels: ReadonlyMap<string, readonly LabelSource[]>
  /** An IANA name. */
  readonly timeZone: string
  /** From the time when the run was accepted; the name of the workflow is from the time when this was read. */
  readonly builtins: Builtins
  /** Null: it is the first run of its chain. */
  readonly rerun: Rerun | null
}

/** The run was made again from an earlier one. */
export interface Rerun {
  readonly of: string
  /** The first run of the chain. */
  readonly chain: string
  /** Ids of steps that take no outcome of an earlier run. */
  readonly anew: ReadonlySet<string>
  /** Whether calls of earlier runs with an unknown outcome count as made. */
  readonly unknownHappened: boolean
}

/** For example because another installation uses the same task queue. */
export class UnknownRun extends Error {
  override readonly name = 'UnknownRun'
  constructor(runId: string) {
    super(`run \`${runId}\` is not in this database: a task queue serves one database`)
  }
}

/** Inputs of at most this many bytes are cached with the run. */
const mostKeptInputs = 64 * 1024

export interface SnapshotReader {
  readonly db: Db
  readonly sealer: Sealer
  readonly runCaches: { readonly snapshots: ByteCache<RunSnapshot> }
}

interface KeptInputs {
  readonly id: string
  readonly inputs_sealed: Buffer | null
}

/** Returns `{}` after the run's data was removed (RETENTION_DAYS). Throws UnsealError. */
export async function openInputsText(
  { sealer }: Pick<SnapshotReader, 'sealer'>,
  run: KeptInputs,
): Promise<string> {
  return (await openKept(sealer, inputsBinding(run.id), run.inputs_sealed)) ?? '{}'
}

/** Returns `{}` after the run's data was removed (RETENTION_DAYS). Throws UnsealError. */
export async function openInputs(
  reader: Pick<SnapshotReader, 'sealer'>,
  run: KeptInputs,
): Promise<JsonObject> {
  return JSON.parse(await openInputsText(reader, run)) as JsonObject
}

/** Throws UnknownRun if the database does not have the run. */
export async function readRunSnapshot(
  { db, sealer, runCaches: { snapshots } }: SnapshotReader,
  runId: string,
): Promise<RunSnapshot> {
  const cached = snapshots.get(runId)
  if (cached !== undefined) return cached
  const octets = sql<number>`coalesce(octet_length(inputs_sealed), 0)`
  const row = await db
    .selectFrom('runs')
    .innerJoin('workflows', 'workflows.id', 'runs.workflow_id')
    .select([
      'runs.id',
      'runs.organization_id',
      'workflows.name',
      'workflow_id',
      'workflow_version',
      'requested_by',
      'request_id',
      'requester_email',
      'input_labels',
      'time_zone',
      'runs.created_at',
      'rerun_of',
      'chain',
      'steps_anew',
      'unknown_happened',
      octets.as('octets'),
      sql<RunSnapshot['editor']>`(
        select json_build_object('id', u.id, 'email', u.email, 'isRequester', u.id = requested_by)
        from users u join memberships m on m.user_id = u.id and m.organization_id = runs.organization_id
        where u.id = any(runs.authors || requested_by) and not exists (select from service_accounts s where s.id = u.id)
        order by u.id = requested_by desc, u.email limit 1)`.as('editor'),
      sql<Buffer | null>`case when ${octets} <= ${mostKeptInputs} then inputs_sealed end`.as('inputs_sealed'),
    ])
    .where('runs.id', '=', runId)
    .executeTakeFirst()
  if (row === undefined) throw new UnknownRun(runId)
  const run: RunSnapshot = {
    id: row.id,
    organizationId: row.organization_id,
    workflowId: row.workflow_id,
    workflowVersion: row.workflow_version,
    requestedBy: row.requested_by,
    requestId: row.request_id,
    requesterEmail: row.requester_email,
    editor: row.editor,
    inputs: row.octets <= mostKeptInputs ? await openInputs({ sealer }, row) : null,
    inputOctets: row.octets,
    inputLabels: new Map(Object.entries(row.input_labels)),
    timeZone: row.time_zone,
    builtins: builtinsOf({
      id: row.id,
      requesterEmail: row.requester_email,
      workflowName: row.name,
      startedAt: row.created_at,
      timeZone: row.time_zone,
    }),
    rerun:
      row.chain === null
        ? null
        : {
            of: row.rerun_of ?? row.chain,
            chain: row.chain,
            anew: new Set(row.steps_anew),
            unknownHappened: row.unknown_happened === true,
          },
  }
  snapshots.set(runId, run, counted(heapBytes(run)))
  return run
}
