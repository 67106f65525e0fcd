import { z } from 'zod'
import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { createOwner } from './governance/create-owner.ts'
import { toolEnvironment } from './tool-environment.ts'

/*
 * `npm run create-owner -- EMAIL [ORGANIZATION]`: the first owner of an installation that writes no bootstrap.json.
 * Prints the identities once, as JSON; they exist nowhere else.
 */

const [email, organizationName = 'Countersign'] = process.argv.slice(2)
if (!z.email().safeParse(email).success || organizationName.length > 200) {
  process.stderr.write('usage: npm run create-owner -- EMAIL [ORGANIZATION]\n')
  process.exit(2)
}
// Standard output is the answer alone.
const say = (line: string): void => void process.stderr.write(`${line}\n`)
try {
  const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
  try {
    const made = await createOwner(context, { email: email as string, organizationName })
    process.stdout.write(`${JSON.stringify(made, null, 2)}\n`)
  } finally {
    await context.close()
  }
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
