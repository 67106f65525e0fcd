import { readConfig } from './config.ts'
import { createContext, type Context } from './context.ts'
import { isConnectionError } from './governance/database-errors.ts'
import { toolEnvironment } from './tool-environment.ts'

/** Standard output is the answer alone: everything else goes to standard error. */
export type Say = (line: string) => void

/**
 * Runs what an operator's command does, with the environment of `toolEnvironment`. `work` gives the answer, which is printed
 * as JSON. Any error is one line on standard error and exit code 1, also a database that does not answer.
 */
export async function runOperatorProgram(
  work: (context: Context, say: Say) => Promise<unknown>,
): Promise<void> {
  const say: Say = (line) => void process.stderr.write(`${line}\n`)
  try {
    const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
    try {
      await context.pool.query('select 1')
      process.stdout.write(`${JSON.stringify(await work(context, say), null, 2)}\n`)
    } finally {
      await context.close()
    }
  } catch (error) {
    say(`error: ${isConnectionError(error) ? unreachable() : (error as Error).message}`)
    process.exitCode = 1
  }
}

function unreachable(): string {
  const advice = process.env['DATABASE_URL'] ? 'check DATABASE_URL' : 'is `npm start` running?'
  return `the database cannot be reached: ${advice}`
}
