import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { setQueue } from './governance/task-queue.ts'
import { createTemporalClient } from './temporal.ts'
import { toolEnvironment } from './tool-environment.ts'

/*
 * `npm run set-queue -- ORGANIZATION QUEUE|--default`: runs of the organization that start from now on are carried by the
 * workers of that task queue, or by those that all organizations share.
 */

const [organizationId, queue] = process.argv.slice(2)
if (organizationId === undefined || queue === undefined || (queue.startsWith('-') && queue !== '--default')) {
  process.stderr.write('usage: npm run set-queue -- ORGANIZATION QUEUE|--default\n')
  process.exit(2)
}
// Standard output is the answer alone.
const say = (line: string): void => void process.stderr.write(`${line}\n`)
try {
  const config = readConfig(toolEnvironment(process.env, say))
  const context = createContext(config, 'tool')
  const client = createTemporalClient(config.temporal)
  try {
    const view = await setQueue(context, client, organizationId, queue === '--default' ? null : queue)
    if (view.runs_in_flight > 0)
      say(
        `${view.runs_in_flight} runs in flight stay on the queue where they started: keep its workers until they have ended`,
      )
    process.stdout.write(`${JSON.stringify(view, null, 2)}\n`)
  } finally {
    await client.connection.close()
    await context.close()
  }
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
