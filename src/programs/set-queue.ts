import { setQueue } from '../governance/delivery/task-queue.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'
import { createTemporalClient } from '../shared/temporal.ts'

/*
 * `npm run set-queue -- ORGANIZATION QUEUE|--default` sets the task queue on which new runs of an organization start,
 * for its own workers. `--default` is the queue of the shared workers.
 */

const [organizationId, queue] = process.argv.slice(2)
if (organizationId === undefined || queue === undefined || (queue.startsWith('-') && queue !== '--default'))
  exitWithUsage('npm run set-queue -- ORGANIZATION QUEUE|--default')
await runOperatorProgram(async (context, say) => {
  const client = createTemporalClient(context.config.temporal)
  try {
    const view = await setQueue(context, client, organizationId, queue === '--default' ? null : queue)
    if (view.runs_in_flight > 0)
      say(
        `${view.runs_in_flight} runs in flight stay on their old queue: keep its workers until those runs have ended`,
      )
    return view
  } finally {
    await client.connection.close()
  }
})
