import { createHash } from 'node:crypto'
import pg from 'pg'
import { advisoryLocks } from './advisory-locks.ts'
import { grantStatements } from './migrations/grants.ts'
import { migrations } from './migrations/index.ts'

export interface MigrateOptions {
  /** A role that owns the tables, or may create them. */
  readonly url: string
  /** Created with NOLOGIN if it does not exist, for which the owner must be allowed to create roles. */
  readonly appRole?: string
  readonly log?: (line: string) => void
}

/**
 * Migrates the database to this version, and sets the rights of the application's role. Of several processes, one
 * migrates and the others wait. A migration and its checksum are committed in one transaction. Throws, and changes
 * nothing, if a development version made the database (a migration ran with another text, or the baseline did not run),
 * or if the database has a migration that this version does not know.
 */
export async function migrate(options: MigrateOptions): Promise<{ applied: string[] }> {
  const client = new pg.Client({ connectionString: options.url, application_name: 'countersign-migrate' })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLocks.migration])
    await client.query(
      `create table if not exists schema_migrations
         (name text primary key, checksum text not null, applied_at timestamptz not null default now())`,
    )
    // What waits for a table makes every later request for it wait too. A setting of the role or database goes before.
    await client.query(
      `select set_config('lock_timeout', '10s', false) where current_setting('lock_timeout') = '0'`,
    )
    const done = await appliedBefore(client)
    requireKnown(done)
    const applied: string[] = []
    const began = performance.now()
    for (const migration of migrations) {
      if (done.has(migration.name)) continue
      await inTransaction(client, async () => {
        await client.query(migration.sql)
        await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [
          migration.name,
          checksumOf(migration.sql),
        ])
      }).catch((cause: pg.DatabaseError) => {
        const advice = lockCodes.has(cause.code ?? '') ? `. ${whenLocked}` : ''
        throw new Error(`migration \`${migration.name}\` failed: ${cause.message}${advice}`, { cause })
      })
      applied.push(migration.name)
    }
    await grantTo(client, options.appRole ?? 'countersign_app')
    const seconds = ((performance.now() - began) / 1_000).toFixed(1)
    const count = applied.length === 1 ? '1 migration' : `${applied.length} migrations`
    if (applied.length > 0) options.log?.(`${count} applied (${seconds} s)`)
    return { applied }
  } finally {
    await client.end()
  }
}

/** SQLSTATE of a lock that was not given in time, and of a deadlock. */
const lockCodes: ReadonlySet<string> = new Set(['55P03', '40P01'])
const whenLocked =
  'Other transactions use the table: stop the other processes of Countersign, or end those that stand in `pg_stat_activity` for long, and migrate again. Nothing of this migration was changed.'

async function appliedBefore(client: pg.Client): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ name: string; checksum: string }>('select * from schema_migrations')
  return new Map(rows.map(({ name, checksum }) => [name, checksum]))
}

/** Without this check, a later statement would fail on a missing table or column. */
function requireKnown(done: ReadonlyMap<string, string>): void {
  if (done.size === 0) return
  const edited = migrations.some(({ name, sql }) => done.has(name) && done.get(name) !== checksumOf(sql))
  if (edited || !done.has(migrations[0].name))
    throw new Error(
      'a development version of Countersign made this database, and its tables differ: ' +
        'begin with a new data folder or an empty database',
    )
  const known = new Set(migrations.map(({ name }) => name))
  const unknown = [...done.keys()].filter((name) => !known.has(name))
  if (unknown.length > 0)
    throw new Error(
      `the database was migrated by a newer version (\`${unknown.join('`, `')}\`): update this one`,
    )
}

function checksumOf(statements: string): string {
  return createHash('sha256').update(statements).digest('hex')
}

async function grantTo(client: pg.Client, appRole: string): Promise<void> {
  const role = client.escapeIdentifier(appRole)
  const { rowCount } = await client.query('select 1 from pg_roles where rolname = $1', [appRole])
  if (rowCount === 0) {
    await client.query(`create role ${role} nologin`).catch((error: pg.DatabaseError) => {
      if (error.code === '42710' || error.code === '23505') return // the migration of another database just created it
      throw error
    })
    // The owner can then switch to the application's role, so the service can use the owner's connection string.
    await client.query(`grant ${role} to current_user`)
  }
  await inTransaction(client, async () => {
    for (const statement of grantStatements(role)) await client.query(statement)
  })
}

async function inTransaction(client: pg.Client, work: () => Promise<void>): Promise<void> {
  await client.query('begin')
  try {
    await work()
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
