import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { aDefinition } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Steps that a tool policy blocks, when a run is started. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ env: { SMTP_URL: 'smtp://127.0.0.1:1' } })
})
afterAll(() => server?.close())

const block = async (body: object) => {
  const { users, organization_id: id } = server.identities
  const path = `/organizations/${id}/tool-policies`
  await server.context.pool.query('delete from tool_policies')
  expect((await server.call(users.owner.api_key, 'POST', path, body)).status).toBe(201)
}
const execute = async (who: 'member' | 'admin', definition: object = aDefinition) => {
  const { api_key: key } = server.identities.users[who]
  const { id } = (await server.call(key, 'POST', '/workflows', { name: 'w', definition })).body
  return server.call(key, 'POST', `/workflows/${id}/execute?wait=0`, { inputs: { to: 'me' } })
}
const refused = (answer: { status: number; body: { error?: { code: string; message: string } } }) =>
  answer.status === 403 && answer.body.error?.code === 'run_denied' && answer.body.error.message

test('a step that a policy blocks refuses the run up front', async () => {
  await block({ tool_name: 'mail_send', allowed: false })
  const answer = await execute('member')
  expect(refused(answer)).toBe(
    'step `send` would be denied: tool blocked by the organization: nothing was started; ' +
      'a tool policy of the organization blocks `mail_send`',
  )
  expect(answer.body.error.details).toMatchObject([{ path: 'steps.send' }])
})

test('a policy of a role counts only for requesters of this role', async () => {
  await block({ tool_name: 'mail_send', allowed: false, role: 'member' })
  expect(refused(await execute('member'))).toContain('tool blocked for role member')
  expect((await execute('admin')).status).toBe(202)
})

test('the run is refused for a read-only tool, and for a tool that no policy allows', async () => {
  await block({ tool_name: 'mail_send', restrictions: { read_only: true } })
  expect(refused(await execute('member'))).toContain('read-only')
  await block({ tool_name: 'file_read', allowed: true })
  const { users, organization_id: id } = server.identities
  const settings = (value: string) =>
    server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/governance`, {
      default_tool_access: value,
    })
  await settings('deny')
  expect(refused(await execute('member'))).toContain(
    'step `send` would be denied: tool not allowed by any policy',
  )
  await settings('allow')
})

test('the run is not refused if the step may be skipped: then the call is denied when it is made', async () => {
  await block({ tool_name: 'mail_send', allowed: false })
  const [read, send] = aDefinition.steps as [object, object]
  const unknown = { ...send, when: { value: '{{read.output.size}}', operator: 'equals', compare: 1 } }
  expect((await execute('member', { ...aDefinition, steps: [read, unknown] })).status).toBe(202)
  const never = { ...send, when: { value: '{{input.to}}', operator: 'equals', compare: 'nobody' } }
  expect((await execute('member', { ...aDefinition, steps: [read, never] })).status).toBe(202)
})
