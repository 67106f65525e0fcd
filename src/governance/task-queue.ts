import type { Client } from '@temporalio/client'
import type { Context } from '../context.ts'
import { DomainError, notFound } from './errors.ts'

/*
 * Where runs start. An organization can have a task queue, and with it workers, of its own; all others share the queue that
 * the API processes name (TEMPORAL_TASK_QUEUE). A worker of another queue tells Temporal the same: it reads the default from
 * the database, and does not take its own queue for it.
 */

/** Keeps what this API process was told is the queue of all organizations without one of their own. */
export async function keepDefaultQueue(context: Context): Promise<void> {
  const row = { queue: context.config.temporal.taskQueue }
  await context.db
    .insertInto('default_task_queue')
    .values(row)
    .onConflict((conflict) => conflict.column('single').doUpdateSet(row))
    .execute()
}

/** The queue that a new workflow of the organization starts on. */
export async function queueOf(context: Context, organizationId: string): Promise<string> {
  const row = await context.db
    .selectFrom('organizations as o')
    .leftJoin('default_task_queue as d', (join) => join.onTrue())
    .select(['o.task_queue', 'd.queue'])
    .where('o.id', '=', organizationId)
    .executeTakeFirst()
  return row?.task_queue ?? row?.queue ?? context.config.temporal.taskQueue
}

/** Kinds of pollers, as Temporal numbers them. */
const kinds = { workflows: 1, activities: 2 } as const

export interface QueueView {
  readonly organization_id: string
  /** null: the one that all share. */
  readonly task_queue: string | null
  /** Runs that have not ended and were accepted before: they stay where they started. */
  readonly runs_in_flight: number
}

/**
 * Runs of the organization that start from now on go to this queue, or with null to the one that all share (commit point
 * `org.change`). Throws `not_found`, `conflict` for a queue that no worker polls, because its runs would stand
 * still, and `unavailable` if Temporal cannot be asked about workers.
 */
export async function setQueue(
  context: Context,
  client: Client,
  organizationId: string,
  queue: string | null,
): Promise<QueueView> {
  const known = await context.db
    .selectFrom('organizations')
    .select('id')
    .where('id', '=', organizationId)
    .executeTakeFirst()
  if (known === undefined) throw notFound('organization', organizationId)
  if (queue !== null) await requirePollers(context, client, queue)
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const before = await tx.trx
      .selectFrom('organizations')
      .select('task_queue')
      .where('id', '=', organizationId)
      .executeTakeFirstOrThrow()
    await tx.trx
      .updateTable('organizations')
      .set({ task_queue: queue })
      .where('id', '=', organizationId)
      .execute()
    const { count } = await tx.trx
      .selectFrom('runs')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('organization_id', '=', organizationId)
      .where('finished_at', 'is', null)
      .executeTakeFirstOrThrow()
    tx.append({
      eventType: 'organization.queue_changed',
      action: 'update',
      status: 'success',
      actor: { type: 'system', id: 'set-queue' },
      metadata: { from: before.task_queue, to: queue },
    })
    return { organization_id: organizationId, task_queue: queue, runs_in_flight: count }
  })
}

async function requirePollers({ config }: Context, client: Client, queue: string): Promise<void> {
  try {
    await client.connection.ensureConnected()
  } catch {
    throw new DomainError(
      'unavailable',
      `Temporal cannot be reached at \`${config.temporal.address}\`: check that it runs, and TEMPORAL_ADDRESS`,
    )
  }
  for (const [what, taskQueueType] of Object.entries(kinds)) {
    const { pollers } = await client.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: queue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that only tests have
      taskQueueType,
    })
    if ((pollers?.length ?? 0) === 0)
      throw new DomainError(
        'conflict',
        `no worker polls the task queue \`${queue}\` for ${what}: start one with TEMPORAL_TASK_QUEUE=${queue} first`,
      )
  }
}
