import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { setPlan } from './governance/quotas/quota.ts'
import { toolEnvironment } from './tool-environment.ts'

/*
 * `npm run set-plan -- ORGANIZATION PLAN`: moves an organization to the plan `free`, `pro` or `enterprise`. It holds at
 * once, in every process.
 */

const [organizationId, plan] = process.argv.slice(2)
if (organizationId === undefined || plan === undefined) {
  process.stderr.write('usage: npm run set-plan -- ORGANIZATION free|pro|enterprise\n')
  process.exit(2)
}
// Standard output is the answer alone.
const say = (line: string): void => void process.stderr.write(`${line}\n`)
try {
  const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
  try {
    process.stdout.write(`${JSON.stringify(await setPlan(context, organizationId, plan), null, 2)}\n`)
  } finally {
    await context.close()
  }
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
