import { readConfig } from '../shared/config.ts'
import { createContext } from './create-context.ts'
import type { Context } from '../governance/context.ts'
import { isConnectionError } from '../db/errors.ts'
import { toolEnvironment } from './tool-environment.ts'

/** Prints a line to standard error. Standard output is only for the result. */
export type Say = (line: string) => void

/**
 * Runs an operator's command in the environment of `toolEnvironment`, and prints the result of `work` as JSON. If an
 * error is thrown or the database cannot be reached, prints one line to standard error and sets exit code 1.
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
