import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { testContext, testKey, withPeople, type TestContext } from '../governance/support.ts'
import { programEnv } from '../support/program-env.ts'

const program = fileURLToPath(new URL('../../src/programs/shell.ts', import.meta.url))
let running: TestContext
let organizationId: string

beforeAll(async () => {
  running = await testContext()
  organizationId = (await withPeople(running.context)).identities.organization_id
})
afterAll(() => running.close())

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Opens the shell, types the lines and closes its input. */
async function shell(
  args: readonly string[],
  lines: readonly string[] = [],
  env: NodeJS.ProcessEnv = { ENABLE_DEVELOPER_ROUTES: 'true' },
): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], {
    env: {
      ...programEnv(),
      DATABASE_URL: running.context.config.database.url,
      DATA_ENCRYPTION_KEY: testKey.toString('base64'),
      ...env,
    },
  })
  child.stdin.end(lines.map((line) => `${line}\n`).join(''))
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { code: code as number, stdout, stderr }
}

const openings = async (): Promise<unknown[]> => {
  const { rows } = await running.context.pool.query(
    `select canonical::jsonb->'metadata' as metadata from audit_events
      where organization_id = $1 and event_type = 'DEVELOPER_SHELL_EXECUTED' order by seq`,
    [organizationId],
  )
  return rows.map((row: { metadata: unknown }) => row.metadata)
}

test('the shell has the context, and its entry is in the audit log before the prompt appears', async () => {
  const before = (await openings()).length
  const { code, stdout } = await shell(
    [organizationId],
    [
      'organizationId',
      `(await sql\`select count(*)::int as n from audit_events where event_type = 'DEVELOPER_SHELL_EXECUTED'\`.execute(db)).rows[0].n + 1000`,
    ],
  )
  expect(code).toBe(0)
  expect(stdout).toContain(`'${organizationId}'`)
  expect(stdout).toContain(String(before + 1_001))
  expect((await openings()).at(-1)).toMatchObject({ mode: 'read' })
})

test('writes only with --write', async () => {
  const rename = (name: string): string =>
    `await db.updateTable('organizations').set({ name: '${name}' }).where('id', '=', organizationId).execute()`
  const nameNow = async (): Promise<string> => {
    const row = await running.context.db
      .selectFrom('organizations')
      .select('name')
      .where('id', '=', organizationId)
      .executeTakeFirstOrThrow()
    return row.name
  }
  expect((await shell([organizationId], [rename('Read')])).stdout).toContain('read-only transaction')
  expect(await nameNow()).not.toBe('Read')
  await shell([organizationId, '--write'], [rename('Written')])
  expect(await nameNow()).toBe('Written')
  expect((await openings()).at(-1)).toMatchObject({ mode: 'write' })
})

test.each([
  ['without the setting', () => [organizationId], {}, 1, 'set ENABLE_DEVELOPER_ROUTES=true'],
  ['for an unknown organization', () => ['org_absent'], undefined, 1, 'org_absent'],
  ['without an organization', () => [], undefined, 2, 'usage'],
  ['with an unknown flag', () => [organizationId, '--force'], undefined, 2, 'usage'],
  [
    'in production',
    () => [organizationId],
    { ENABLE_DEVELOPER_ROUTES: 'true', APP_ENV: 'production', SESSION_SECRET_KEY: 's'.repeat(32) },
    1,
    'ENABLE_DEVELOPER_ROUTES must be `false`',
  ],
] as const)('the shell does not open %s', async (_how, args, env, code, said) => {
  const before = await openings()
  const ended = await shell(args(), ['1 + 1'], env)
  expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(said) })
  expect(await openings()).toEqual(before)
})
