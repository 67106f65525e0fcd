import type { Context, ReadingRuns } from '../context.ts'
import { inOneLine } from '../../policy/text.ts'
import { interpreterVersion, type EngineMessage } from '../../contract/messages.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import type { Rest, Sender } from '../lanes/runner.ts'
import type { WorkflowEngine } from './workflow-engine.ts'
import { cutToBytes, skeletonOf } from './skeleton.ts'
import { queueOf } from './task-queue.ts'
import { readVersion } from '../runs/values/version-cache.ts'

/** Whether the Temporal cluster has our search attributes; asked before each start of a workflow. */
export type AttributesCheck = () => Promise<boolean>

type Relaying = ReadingRuns & Pick<Context, 'metrics' | 'sparseLog'>

/** The name is a search attribute, of which Temporal's databases keep at most 255 characters. */
const mostNameBytes = 250

/**
 * Delivers messages to Temporal. A lane is one message, which leaves with its last turn (commit point `outbox.deliver`).
 * If the process dies before, it is sent again, and receivers ignore repetitions.
 */
export const temporalSender = (
  context: Relaying,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
): Sender => ({
  kind: 'temporal',
  trouble: 'a message to Temporal failed, trying again',
  work: ({ message, failures }) =>
    deliver(context, engine, attributes, message as EngineMessage, failures + 1),
  around: (ended, end) => (ended.some(({ done }) => done) ? atCommitPoint('outbox.deliver', end) : end()),
})

async function deliver(
  context: Relaying,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  message: EngineMessage,
  attempt: number,
): Promise<Rest> {
  const { kind, run_id } = message
  try {
    const isTold = await tellTemporal(context, engine, attributes, message)
    context.metrics.relayed.inc({ kind, result: isTold ? 'delivered' : 'postponed' })
    if (isTold) return { dueIn: null, isDone: true }
    // A wake-up often arrives while its workflow starts.
    return { dueIn: 0, hasFailed: true, error: 'the workflow is not running yet' }
  } catch (error) {
    context.metrics.relayed.inc({ kind, result: 'failed' })
    const about = { err: error, kind, run_id, attempt }
    context.sparseLog.warn(`temporal ${kind}`, about, 'a message to Temporal failed, trying again')
    return { dueIn: 0, hasFailed: true, error: (error as Error).message }
  }
}

/** Returns false if the run has not ended and its workflow does not run: it must be started first. */
async function tellTemporal(
  context: ReadingRuns,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  row: EngineMessage,
): Promise<boolean> {
  if (row.kind === 'run.start') {
    await startRun(context, engine, attributes, row.run_id)
    return true
  }
  const told =
    row.kind === 'run.wake'
      ? await engine.wake(row.run_id, row.payload)
      : await engine.cancel(row.run_id, row.payload.by ?? null)
  if (told) return true
  const run = await context.db
    .selectFrom('runs')
    .select('finished_at')
    .where('id', '=', row.run_id)
    .executeTakeFirst()
  return run?.finished_at !== null
}

/** Does nothing if the run has ended, waits for its first slot, or has a workflow already. */
export async function startRun(
  context: ReadingRuns,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  runId: string,
): Promise<void> {
  const run = await context.db
    .selectFrom('runs as r')
    .innerJoin('workflows as w', 'w.id', 'r.workflow_id')
    .innerJoin('organizations as o', 'o.id', 'r.organization_id')
    .leftJoin('default_task_queue as d', (join) => join.onTrue())
    .select(['r.organization_id', 'r.workflow_id', 'r.workflow_version', 'r.interpreter_version', 'r.risk'])
    .select(['r.status', 'r.slot', 'r.finished_at', 'w.name as workflow_name', 'o.task_queue', 'd.queue'])
    .where('r.id', '=', runId)
    .executeTakeFirst()
  if (run === undefined || run.finished_at !== null || run.slot === 'queued') return
  const version = await readVersion(context, run.workflow_id, run.workflow_version)
  await engine.start({
    taskQueue: queueOf(context.config, run),
    organizationId: run.organization_id,
    workflowId: run.workflow_id,
    workflowName: cutToBytes(inOneLine(run.workflow_name), mostNameBytes),
    version: run.workflow_version,
    risk: run.risk.level,
    input: {
      runId,
      interpreterVersion: Math.min(run.interpreter_version, interpreterVersion),
      steps: skeletonOf(version),
      gated: run.status === 'awaiting_approval',
      heartbeatSeconds: context.config.heartbeatTimeoutSeconds,
      searchAttributes: await attributes(),
    },
  })
}
