import { sql } from 'kysely'
import { wakeLanes } from '../../db/queries/lanes.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Metrics } from '../../shared/metrics.ts'
import type { Log, SparseLog } from '../../shared/log.ts'
import { clock, type ClockTask } from './lanes.ts'
import type { Rest, Sender } from './runner.ts'

interface Telling {
  readonly log: Log
  readonly metrics: Pick<Metrics, 'tasks' | 'taskSuccess'>
  readonly sparseLog: SparseLog
}

type Work = () => Promise<unknown>

/**
 * Recurring tasks: one lane for each, so one process does a round, for all. A round begins so many seconds after the end
 * of the one before. If its process dies, another one does it again, so a task may be done twice.
 */
export function clockSender(
  context: Telling & { readonly db: Db },
  tasks: Readonly<Partial<Record<ClockTask, Work>>>,
  seconds: Readonly<Record<ClockTask, number>> = clock,
): Sender {
  const ids = Object.keys(tasks) as ClockTask[]
  const rounds = new Map(ids.map((id) => [id, teller(context, id, tasks[id] as Work)]))
  return {
    kind: 'clock',
    ids,
    trouble: 'a periodic task failed',
    prepare: () =>
      wakeLanes(
        sql`select 'clock', id, null, clock_timestamp() from unnest(${ids}::text[]) as task(id)
            where not exists (select from lanes l where l.kind = 'clock' and l.id = task.id)`,
      ).execute(context.db),
    async work({ id }): Promise<Rest> {
      const hasFailed = !(await rounds.get(id as ClockTask)?.())
      return { dueIn: seconds[id as ClockTask], hasFailed }
    },
  }
}

/** What each process does for itself alone. Each round begins `seconds` after the end of the one before. */
export function every(
  context: Telling,
  name: string,
  seconds: number,
  work: Work,
): { stop(): Promise<void> } {
  let isStopped = false
  let timer: NodeJS.Timeout | undefined
  const task = teller(context, name, work)
  let running = Promise.resolve()
  const round = (): void => {
    running = task().then(() => {
      if (!isStopped) timer = setTimeout(round, seconds * 1_000)
    })
  }
  round()
  return {
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await running
    },
  }
}

/** Does a round; false if it has failed. Logs each failure, and the first success after one. */
function teller(context: Telling, task: string, work: Work): () => Promise<boolean> {
  let hadFailed = false
  return async () => {
    try {
      await work()
    } catch (error) {
      hadFailed = true
      context.metrics.tasks.inc({ task, result: 'failure' })
      context.sparseLog.warn(`task ${task}`, { err: error as Error, task }, 'a periodic task failed')
      return false
    }
    if (hadFailed) context.log.info({ task }, 'a periodic task works again')
    hadFailed = false
    context.metrics.tasks.inc({ task, result: 'success' })
    context.metrics.taskSuccess.set({ task }, Date.now() / 1_000)
    return true
  }
}
