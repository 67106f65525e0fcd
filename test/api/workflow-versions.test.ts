import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const call = (who: BootstrapName, method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)
const remembering = (...ids: string[]) => ({
  steps: ids.map((id) => ({ id, tool: 'memory_get', params: { key: 'k' } })),
})
/** Saves a workflow whose version 1 has the step `one` and whose version 2 has the step `two`. */
const twoVersions = async (): Promise<string> => {
  const { id } = (await call('member', 'POST', '/workflows', { name: 'W', definition: remembering('one') }))
    .body
  await call('member', 'PUT', `/workflows/${id}`, { definition: remembering('two'), message: 'second' })
  return id
}
const execute = (id: string, body: object) => call('member', 'POST', `/workflows/${id}/execute?wait=0`, body)
/** Starts a run, and returns the workflow version and the steps of that run. */
const acceptedAs = async (id: string, body: object) => {
  const { execution_id: runId } = (await execute(id, body)).body
  const run = (await call('viewer', 'GET', `/runs/${runId}`)).body
  return [run.workflow_version, run.steps.map((step: { id: string }) => step.id)]
}

describe('a run', () => {
  test('uses the current version, or the older one that it names', async () => {
    const id = await twoVersions()
    expect(await acceptedAs(id, {})).toEqual([2, ['two']])
    expect(await acceptedAs(id, { version: 1 })).toEqual([1, ['one']])
    await call('admin', 'POST', `/workflows/${id}/versions/1/rollback`, {})
    expect(await acceptedAs(id, {})).toEqual([3, ['one']])
    expect(await acceptedAs(id, { version: 2 })).toEqual([2, ['two']])
  })

  test('keeps its version while others are deployed', async () => {
    const id = await twoVersions()
    const { execution_id: runId } = (await execute(id, {})).body
    await call('member', 'PUT', `/workflows/${id}`, { definition: remembering('three') })
    expect((await call('viewer', 'GET', `/runs/${runId}`)).body).toMatchObject({ workflow_version: 2, steps: [{ id: 'two' }] }) // prettier-ignore
  })

  test.each([
    [3, 404],
    [0, 422],
    ['1', 422],
    [1.5, 422],
  ])('of version %j is refused with %i', async (version, status) => {
    expect((await execute(await twoVersions(), { version })).status).toBe(status)
  })
})

describe('a version', () => {
  test('is listed to every member and inspected by admins', async () => {
    const id = await twoVersions()
    const { versions } = (await call('viewer', 'GET', `/workflows/${id}/versions`)).body
    const { user_id } = server.identities.users.member
    const authors = [{ user_id, role: 'member' }]
    const deployed = { deployed_at: expect.any(String), deployed_by: user_id, authors }
    expect(versions).toEqual([
      { version: 2, message: 'second', ...deployed, rolled_back_from: null, rolled_back_to: null },
      { version: 1, message: '', ...deployed, rolled_back_from: null, rolled_back_to: null },
    ])
    const one = await call('admin', 'GET', `/workflows/${id}/versions/1`)
    expect(one.body).toMatchObject({ ...versions[1], workflow_id: id, definition: remembering('one') })
    expect((await call('member', 'GET', `/workflows/${id}/versions/1`)).status).toBe(403)
  })

  test('shows the versions of a rollback', async () => {
    const id = await twoVersions()
    const back = await call('admin', 'POST', `/workflows/${id}/versions/1/rollback`, { message: 'm' })
    expect(back.status).toBe(200)
    expect(back.body).toEqual({ new_version: 3, rolled_back_from: 2, deployed_at: expect.any(String) })
    const three = (await call('admin', 'GET', `/workflows/${id}/versions/3`)).body
    expect(three).toMatchObject({
      rolled_back_from: 2,
      rolled_back_to: 1,
      deployed_at: back.body.deployed_at,
    })
  })

  test.each(['3', '0', 'x', '1%00'])('%s that does not exist is 404', async (version) => {
    const id = await twoVersions()
    expect((await call('admin', 'GET', `/workflows/${id}/versions/${version}`)).status).toBe(404)
    expect((await call('admin', 'POST', `/workflows/${id}/versions/${version}/rollback`, {})).status).toBe(
      404,
    )
  })
})
