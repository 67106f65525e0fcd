import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { newId } from '../../src/contract/ids.ts'
import { newApiKey } from '../../src/governance/access/key-format.ts'
import { v8Flags } from '../../src/stack/server.ts'
import { createOrganization, withClient, type BenchPostgres } from './postgres.ts'

export const organizationId = newId('organization')
export const rules = 1_000
const userId = newId('user')
/** All servers on one database must have the same encryption key. */
export const encryptionKey = randomBytes(32).toString('base64')
const profile = process.env['BENCH_PROFILE']

export interface Ports {
  readonly ours: number
  readonly theirs: number
}

/** Creates an organization with a person, an API key, and rules for the tools of fifty MCP servers. Returns the key. */
export async function prepareOrganization({ adminUrl }: BenchPostgres): Promise<string> {
  const key = newApiKey()
  await withClient(adminUrl, async (client) => {
    await createOrganization(client, organizationId)
    await client.query(
      `update organizations set plan = 'enterprise', settings = '{"approvals_enabled": true}',
         quota_overrides = '{"authorize_per_minute": 6000000}' where id = $1`,
      [organizationId],
    )
    await client.query("insert into users (id, email, email_verified) values ($1, 'b@acme.test', true)", [
      userId,
    ])
    await client.query("insert into memberships (organization_id, user_id, role) values ($1, $2, 'member')", [
      organizationId,
      userId,
    ])
    await client.query(
      `insert into api_keys (id, organization_id, user_id, name, hash, last4, scopes)
       values ($1, $2, $3, 'bench', $4, $5, '{agents:authorize}')`,
      [newId('key'), organizationId, userId, key.hash, key.last4],
    )
    for (let n = 0; n < rules; n += 1) {
      const body = ruleOf(n)
      await client.query(
        'insert into rules (id, organization_id, name, body, created_by) values ($1, $2, $3, $4, $5)',
        [newId('rule'), organizationId, body.name, JSON.stringify(body), userId],
      )
    }
    await client.query(
      'create table bench_calls (id bigint generated always as identity primary key, user_id text, body jsonb)',
    )
    await client.query('grant insert, select on bench_calls to countersign_app')
  })
  return key.secret
}

/**
 * Only rules 0 and 1 can match a call. The other rules cover the same tools, so they are evaluated. But their condition
 * is never true.
 */
function ruleOf(n: number) {
  if (n === 0) return { name: 'deny', verdict: 'deny', status: 'active', tools: ['mcp__*__denied'] }
  if (n === 1) return { name: 'hold', verdict: 'require_approval', status: 'active', tools: ['mcp__*__held'] }
  return {
    name: `rule ${n}`,
    verdict: 'deny',
    status: 'active',
    tools: [`mcp__server${n % 50}__*`],
    params: [{ param: 'path', operator: 'startswith', value: `/secret/${n}` }],
  }
}

/**
 * Starts API processes with the same V8 flags as an installation. Each process also contains the other side of the
 * benchmark (authorize-server.ts).
 */
export async function withServers(
  postgres: BenchPostgres,
  processes: number,
  work: (ports: readonly Ports[]) => Promise<void>,
): Promise<void> {
  const env = {
    ...process.env,
    DATABASE_URL: postgres.appUrl,
    DATA_ENCRYPTION_KEY: encryptionKey,
    LOG_LEVEL: 'error',
  }
  const children: ChildProcess[] = Array.from({ length: processes }, () =>
    fork(new URL('./authorize-server.ts', import.meta.url), {
      env,
      // BENCH_PROFILE is a folder for the server's CPU profile.
      execArgv: [
        ...v8Flags.api,
        ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
      ],
    }),
  )
  try {
    const ports = await Promise.all(children.map(async (child) => (await once(child, 'message'))[0] as Ports))
    await work(ports)
  } finally {
    for (const child of children) child.kill()
  }
}
