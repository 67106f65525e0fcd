import { parseArgs } from 'node:util'
import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { setConnection } from './governance/connections.ts'
import { toolEnvironment } from './tool-environment.ts'

/*
 * `npm run connect-installation -- ORGANIZATION TOOL [--remove]`: lets an organization use the installation's folder
 * (`file_read`) or mail server (`mail_send`), or takes that back. It holds at once, in every process.
 */

const usage = 'usage: npm run connect-installation -- ORGANIZATION file_read|mail_send [--remove]\n'
const asked = readArguments()
if (asked === null) {
  process.stderr.write(usage)
  process.exit(2)
}
// Standard output is the answer alone.
const say = (line: string): void => void process.stderr.write(`${line}\n`)
try {
  const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
  try {
    const answer = await setConnection(context, asked.organizationId, asked.tool, asked.wanted)
    if (context.config.tools.installationTools === 'all')
      say(
        'INSTALLATION_TOOLS is `all` here: where the service has that too, every organization has these tools',
      )
    process.stdout.write(`${JSON.stringify(answer, null, 2)}\n`)
  } finally {
    await context.close()
  }
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}

function readArguments(): { organizationId: string; tool: string; wanted: boolean } | null {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { remove: { type: 'boolean', default: false } },
    })
    const [organizationId, tool, ...rest] = positionals
    if (organizationId === undefined || tool === undefined || rest.length > 0) return null
    return { organizationId, tool, wanted: !values.remove }
  } catch {
    return null
  }
}
