import { setQueue } from './governance/task-queue.ts'
import { runOperatorProgram } from './operator-program.ts'
import { createTemporalClient } from './temporal.ts'

/*
 * `npm run set-queue -- ORGANIZATION QUEUE|--default`: runs of the organization that start from now on are carried by the
 * workers of that task queue, or by those that all organizations share.
 */

const [organizationId, queue] = process.argv.slice(2)
if (organizationId === undefined || queue === undefined || (queue.startsWith('-') && queue !== '--default')) {
  process.stderr.write('usage: npm run set-queue -- ORGANIZATION QUEUE|--default\n')
  process.exit(2)
}
await runOperatorProgram(async (context, say) => {
  const client = createTemporalClient(context.config.temporal)
  try {
    const view = await setQueue(context, client, organizationId, queue === '--default' ? null : queue)
    if (view.runs_in_flight > 0)
      say(
        `${view.runs_in_flight} runs in flight stay on the queue where they started: keep its workers until they have ended`,
      )
    return view
  } finally {
    await client.connection.close()
  }
})
