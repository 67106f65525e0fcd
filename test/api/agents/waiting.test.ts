import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld } from './agent.ts'

/* GET /authorize/approvals/{id}?wait. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const held = 200

test('200 waiting held calls use no database connection, and all get their decision', async () => {
  const world = await agentWorld(server)
  const agent = world.agent()
  await world.change('POST', '/rules', { name: 'ask', verdict: 'require_approval', tools: ['Write'] })
  const answers = await Promise.all(
    Array.from({ length: held }, (_, n) => agent.ask('Write', { file_path: `/w/${n}` })),
  )
  const path = (id: string) => `/authorize/approvals/${id}`
  const waiting = answers.map(({ approval_id: id }) =>
    server.call(agent.key, 'GET', `${path(id)}?wait=30`).then(({ body }) => body.status),
  )

  // There are more waiting calls than connections in the pool. If each waiting call held a connection, no other request
  // would be answered.
  expect(held).toBeGreaterThan(server.context.pool.options.max)
  expect(await agent.ask('Read')).toMatchObject({ decision: 'allow' })
  await free(server)

  await agent.send(agent.question('Read'))
  for (const { approval_id: id } of answers) await server.call(agent.key, 'POST', `${path(id)}/cancel`, {})
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['cancelled']))
})

/** Resolves once all connections of the application are idle. */
async function free({ context }: TestServer): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ busy: number }>`
      select count(*)::int as busy from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid() and state <> 'idle'
    `.execute(context.db)
    if (rows[0]?.busy === 0) return
  }
}
