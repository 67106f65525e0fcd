import { parseArgs } from 'node:util'
import { setConnection } from '../governance/tools/connections.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run connect-installation -- ORGANIZATION TOOL [--remove]` lets an organization use a tool of the installation,
 * or takes this right: `file_read` (its folder) or `mail_send` (its mail server). It applies at once in every process.
 */

const asked = readArguments()
if (asked === null)
  exitWithUsage('npm run connect-installation -- ORGANIZATION file_read|mail_send [--remove]')
await runOperatorProgram(async (context, say) => {
  const answer = await setConnection(context, asked.organizationId, asked.tool, asked.wanted)
  say(
    'if the service runs with INSTALLATION_TOOLS=all, every organization has these tools, whatever is set here',
  )
  return answer
})

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
