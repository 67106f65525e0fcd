import { userInfo } from 'node:os'
import { start } from 'node:repl'
import { sql } from 'kysely'
import { DomainError } from '../governance/errors.ts'
import { readConfig } from '../shared/config.ts'
import { createContext } from './create-context.ts'
import { orFail, failStart } from './fail.ts'
import { exitWithUsage, toolEnvironment } from './operator-program.ts'

/*
 * `npm run shell -- ORGANIZATION [--write]` opens a Node prompt for developers of Countersign, with `context`, `db`,
 * `sql` and `organizationId`; read-only without `--write`. Only if ENABLE_DEVELOPER_ROUTES is set, and after the
 * organization's audit log has an entry about it.
 */

const say = (line: string): void => void process.stderr.write(`${line}\n`)
const [organizationId, ...flags] = process.argv.slice(2)
const mayWrite = flags.includes('--write')
if (organizationId === undefined || flags.some((flag) => flag !== '--write'))
  exitWithUsage('npm run shell -- ORGANIZATION [--write]')

const config = orFail(() => readConfig(toolEnvironment(process.env, say)))
if (!config.http.developerRoutes)
  failStart(
    new Error('the developer shell is off: set ENABLE_DEVELOPER_ROUTES=true (production does not allow it)'),
  )

await recordOpening().catch(failStart)
const context = createContext(config, 'tool', undefined, { readOnly: !mayWrite })
const prompt = start({ prompt: `${organizationId}${mayWrite ? ' (write)' : ''}> ` })
Object.assign(prompt.context, { context, db: context.db, sql, organizationId })
prompt.once('exit', () => void context.close())

/**
 * In a context of its own, because that of the prompt may be read-only. Throws `not_found` for an unknown organization.
 */
async function recordOpening(): Promise<void> {
  const recording = createContext(config, 'tool')
  try {
    await recording.combiner.run(String(organizationId), 'org.change', async (tx) => {
      const known = await tx.trx
        .selectFrom('organizations')
        .select('id')
        .where('id', '=', tx.organizationId)
        .executeTakeFirst()
      if (known === undefined) throw new DomainError('not_found', `no organization \`${organizationId}\``)
      tx.append({
        eventType: 'DEVELOPER_SHELL_EXECUTED',
        action: 'open',
        status: 'success',
        actor: { type: 'system', id: 'shell' },
        metadata: { mode: mayWrite ? 'write' : 'read', system_user: userInfo().username },
      })
    })
  } finally {
    await recording.close()
  }
}
