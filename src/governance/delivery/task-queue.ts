import type { Client } from '@temporalio/client'
import type { Config } from '../../shared/config.ts'
import type { Context, Configured, Changing } from '../context.ts'
import { DomainError, notFound } from '../errors.ts'

/*
 * Chooses the task queue on which a run starts. An organization can have its own, with its own workers. The others
 * share the default of the API processes (TEMPORAL_TASK_QUEUE). Workers read it from the database, because their own
 * TEMPORAL_TASK_QUEUE may be an organization's.
 */

export async function keepDefaultQueue(context: Configured): Promise<void> {
  const row = { queue: context.config.temporal.taskQueue }
  await context.db
    .insertInto('default_task_queue')
    .values(row)
    .onConflict((conflict) => conflict.column('single').doUpdateSet(row))
    .execute()
}

export const queueOf = (
  config: Config,
  known: { readonly task_queue: string | null; readonly queue: string | null },
): string => known.task_queue ?? known.queue ?? config.temporal.taskQueue

/** A live worker asks Temporal for work within a minute, but a dead one is listed for five minutes. */
const freshPoll = 90_000

/** Temporal's numbers for the types of task queues. */
const kinds = { workflows: 1, activities: 2 } as const

export interface QueueView {
  readonly organization_id: string
  /** null for the default queue. */
  readonly task_queue: string | null
  /** A run stays on the queue on which it started. */
  readonly runs_in_flight: number
}

/** null: the default. Throws `not_found`, `unavailable` (Temporal), and `conflict` if the queue has no workers. */
export async function setQueue(
  context: Changing,
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
      actor: { type: 'system', id: 'set-queue' },
      metadata: { from: before.task_queue, to: queue },
    })
    return { organization_id: organizationId, task_queue: queue, runs_in_flight: count }
  })
}

async function requirePollers(
  { config }: Pick<Context, 'config'>,
  client: Client,
  queue: string,
): Promise<void> {
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
    const now = Date.now()
    const asked = (pollers ?? []).map(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000)
    if (!asked.some((time) => now - time < freshPoll))
      throw new DomainError(
        'conflict',
        `no worker polls the task queue \`${queue}\` for ${what}: start one with TEMPORAL_TASK_QUEUE=${queue} first`,
      )
  }
}
