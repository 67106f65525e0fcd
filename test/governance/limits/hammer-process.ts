import { setTimeout as delay } from 'node:timers/promises'
import { readConfig } from '../../../src/shared/config.ts'
import { createContext } from '../../../src/programs/create-context.ts'
import type { Caller } from '../../../src/governance/access/identity.ts'
import type { Limits } from '../../../src/contract/plan-limits.ts'
import { acceptRun } from '../../../src/governance/runs/start/accept.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'

/*
 * A separate process that asks for more than the limits allow. `url requests ORGANIZATION LIMITS` takes requests until
 * one is refused. `url runs CALLER WORKFLOW` accepts 30 runs, and ends those of its own runs that have a slot. The
 * process prints a line immediately after each success, so the successes are known even after a kill.
 */

const [url = '', kind, subject = '', detail = ''] = process.argv.slice(2)
const context = createContext(
  readConfig({
    APP_ENV: 'test',
    DATABASE_URL: url,
    DATA_ENCRYPTION_KEY: process.env['DATA_ENCRYPTION_KEY'],
    LOG_LEVEL: 'silent',
  }),
  'api',
)
const say = (line: string): void => void process.stdout.write(`${line}\n`)

async function takeRequests(): Promise<void> {
  const limits = JSON.parse(detail) as Limits
  const lane = async (): Promise<void> => {
    for (let refused = 0; refused < 5;) {
      const taken = await context.rates.take(subject, limits, 'requests')
      if (taken.allowed) say(String(taken.resetAt))
      else refused += 1
      // Lets the other processes run.
      await delay(1)
    }
  }
  await Promise.all(Array.from({ length: 8 }, lane))
}

async function makeRuns(): Promise<void> {
  const caller = JSON.parse(subject) as Caller
  const mine: string[] = []
  const accept = async (): Promise<void> => {
    try {
      const { runId } = await acceptRun(context, { caller, workflowId: detail, inputs: {} })
      mine.push(runId)
      say(runId)
    } catch (error) {
      if ((error as { code?: string }).code !== 'quota_exceeded') throw error
      say('refused')
    }
  }
  const accepting = Promise.all(Array.from({ length: 30 }, accept))
  await accepting
  while (mine.length > 0) {
    const rows = await context.db
      .selectFrom('runs')
      .select(['id', 'finished_at'])
      .where('id', 'in', mine)
      .where((eb) => eb.or([eb('slot', '=', 'taken'), eb('finished_at', 'is not', null)]))
      .execute()
    for (const { id, finished_at: endedAt } of rows) {
      // The test may take a run that this process has not printed yet for one of the dead process, and end it.
      if (endedAt === null) await finishRun(context, { runId: id, status: 'failed' })
      mine.splice(mine.indexOf(id), 1)
    }
    if (rows.length === 0) await delay(10)
  }
}

await (kind === 'requests' ? takeRequests() : makeRuns())
await context.close()
