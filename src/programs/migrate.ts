import { isConnectionError } from '../db/errors.ts'
import { migrate } from '../db/migrate.ts'

/*
 * `npm run migrate` migrates the database to this version and sets the rights of the application's role.
 * DATABASE_OWNER_URL names the role that owns the tables. If that is the application's role, DATABASE_URL is enough.
 */

const url = process.env['DATABASE_OWNER_URL'] || process.env['DATABASE_URL']
const appRole = process.env['DATABASE_APP_ROLE']

if (!url) {
  process.stderr.write('error: set DATABASE_OWNER_URL or DATABASE_URL to the database to migrate\n')
  process.exit(1)
}
try {
  const print = (line: string): void => void process.stdout.write(`${line}\n`)
  const { applied } = await migrate({ url, log: print, ...(appRole ? { appRole } : {}) })
  if (applied.length === 0) print('the database is up to date')
} catch (error) {
  const { message } = error as Error
  const name = process.env['DATABASE_OWNER_URL'] ? 'DATABASE_OWNER_URL' : 'DATABASE_URL'
  const unreachable = `the database cannot be reached: check ${name} (${message})`
  process.stderr.write(`error: ${isConnectionError(error) ? unreachable : message}\n`)
  process.exit(1)
}
