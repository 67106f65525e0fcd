import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'

/* The reports over HTTP: their period. What they count is in test/governance/reports. */

let server: TestServer
const ask = (path: string) =>
  server.call(
    server.identities.users.admin.api_key,
    'GET',
    `/organizations/${server.identities.organization_id}/governance/${path}`,
  )

beforeAll(async () => {
  server = await startTestServer()
  const member = server.identities.users.member.api_key
  const definition = { steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: 1 } }] }
  const workflow = await server.call(member, 'POST', '/workflows', { name: 'w', definition })
  // Four runs, accepted today and 10, 40 and 100 days ago.
  for (const days of [0, 10, 40, 100]) {
    const run = await server.call(member, 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
    await server.context.pool.query(
      "update runs set created_at = created_at - $1 * interval '1 day' where id = $2",
      [days, run.body.execution_id],
    )
  }
})
afterAll(() => server.close())

describe.each(['report', 'approvals'])('`GET /organizations/{id}/governance/%s`', (report) => {
  test.each([
    ['', '30d'],
    ['?period=7d', '7d'],
    ['?period=30d', '30d'],
    ['?period=90d', '90d'],
    ['?period=all', 'all'],
  ])('`%s` is the period `%s`', async (query, period) => {
    const { status, body } = await ask(`${report}${query}`)
    expect([status, body.period]).toEqual([200, period])
    expect(body.since === null).toBe(period === 'all')
  })

  test.each(['?period=1d', '?period=', '?period=30D', '?period=7d&period=30d'])(
    '`%s` is 422',
    async (query) => {
      const { status, body } = await ask(`${report}${query}`)
      expect([status, body.error.details[0].path]).toEqual([422, 'period'])
    },
  )
})

test('a longer period counts more runs', async () => {
  const counted = async (query: string) => (await ask(`report${query}`)).body.total_executions
  expect([
    await counted('?period=7d'),
    await counted(''),
    await counted('?period=90d'),
    await counted('?period=all'),
  ]).toEqual([1, 2, 3, 4])
})
