import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { aDefinition, addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const call = (who: BootstrapName, method: string, path: string, body?: unknown) =>
  server.call(server.identities.users[who].api_key, method, path, body)
const workflow = async (): Promise<string> =>
  (await call('member', 'POST', '/workflows', { name: 'W', definition: aDefinition })).body.id
const move = (id: string, name: string, body: unknown, who: BootstrapName = 'owner') =>
  call(who, 'POST', `/workflow-registry/${id}/${name}`, body)
const template = async (name = 'T'): Promise<string> => {
  const id = await workflow()
  expect((await move(id, 'approve-template', { template_name: name })).status).toBe(200)
  return id
}
const idsOf = (answer: { body: { data: { id: string }[] } }) => answer.body.data.map((each) => each.id)

describe('the registry', () => {
  test('from approval to archive, as its users see it', async () => {
    const [id, next] = [await template('Old'), await template('New')]
    const used = await move(id, 'use', {}, 'member')
    expect(used.status).toBe(201)
    expect(used.body).toMatchObject({ name: 'Old', template_id: id, template_version: 1, version: 1 })
    expect(used.body).not.toHaveProperty('warning')

    const why = { reason: 'there is a better one', replacement_id: next }
    expect((await move(id, 'deprecate', why)).body).toMatchObject({ id, state: 'deprecated', ...why })
    const warned = await move(id, 'use', { name: 'Mine' }, 'member')
    expect(warned.body).toMatchObject({ name: 'Mine', replacement_id: next })
    expect(warned.body.warning).toContain(next)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry')).slice(0, 2)).toEqual([next, id])

    expect((await move(id, 'archive', {})).body).toMatchObject({ id, state: 'archived' })
    const refused = await move(id, 'use', {}, 'member')
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict'])
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry'))).not.toContain(id)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry?include_archived=false'))).not.toContain(id)
    expect(idsOf(await call('viewer', 'GET', '/workflow-registry?include_archived=true'))).toContain(id)
    expect((await call('viewer', 'GET', `/workflows/${id}`)).status).toBe(200)
  })

  test('refuses an invalid transition with 409, and a personal workflow with 400', async () => {
    const id = await template()
    for (const [name, body] of [
      ['approve-template', { template_name: 'T' }],
      ['archive', {}],
    ] as const) {
      const answer = await move(id, name, body)
      expect([answer.status, answer.body.error.code]).toEqual([409, 'bad_transition'])
    }
    const elsewhere = await addOrganization(server.context)
    await server.context.db
      .updateTable('organizations')
      .set({ personal: true })
      .where('id', '=', elsewhere.id)
      .execute()
    const theirs = (path: string, body: unknown) => server.call(elsewhere.owner.key, 'POST', path, body)
    const personal = (await theirs('/workflows', { name: 'W', definition: aDefinition })).body.id
    const answer = await theirs(`/workflow-registry/${personal}/approve-template`, { template_name: 'T' })
    expect([answer.status, answer.body.error.code]).toEqual([400, 'personal_workflow'])
  })

  test('a template in use cannot be deleted, 409', async () => {
    const id = await template()
    const answer = await call('member', 'DELETE', `/workflows/${id}`)
    expect([answer.status, answer.body.error.code]).toEqual([409, 'conflict'])
    expect(answer.body.error.message).toContain('archive it first')
  })

  test.each<[string, object, string]>([
    ['approve-template', {}, 'template_name'],
    ['approve-template', { template_name: ' ' }, 'template_name'],
    ['approve-template', { template_name: 'x'.repeat(201) }, 'template_name'],
    ['approve-template', { template_name: 'T', description: 'x'.repeat(2001) }, 'description'],
    ['approve-template', { template_name: 'T', tags: ['a', 'b', 'a'] }, 'tags.2'],
    ['approve-template', { template_name: 'T', tags: ['Mail', ' mail'] }, 'tags.1'],
    ['approve-template', { template_name: 'T', tags: [''] }, 'tags.0'],
    ['approve-template', { template_name: 'T', tags: ['x'.repeat(51)] }, 'tags.0'],
    ['approve-template', { template_name: 'T', tags: Array.from({ length: 21 }, (_, n) => `t${n}`) }, 'tags'],
    ['approve-template', { template_name: 'T', tags: 'a' }, 'tags'],
    ['approve-template', { template_name: 'T', version: 2 }, 'version'],
    ['approve-template', { template_name: 'T', version: 0 }, 'version'],
    ['approve-template', { template_name: 'T', nonsense: 1 }, 'nonsense'],
    ['deprecate', {}, 'reason'],
    ['deprecate', { reason: '' }, 'reason'],
    ['deprecate', { reason: 'r', replacement_id: '' }, 'replacement_id'],
    ['deprecate', { reason: 'r', replacement_id: 'wf_x' }, 'replacement_id'],
    ['archive', { really: true }, 'really'],
    ['use', { name: '' }, 'name'],
  ])('%s %j names %s', async (name, body, path) => {
    const id = name === 'approve-template' ? await workflow() : await template()
    const answer = await move(id, name, body)
    expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
    expect(answer.body.error.details[0].path).toBe(path)
  })

  test('is listed page by page, latest approval first', async () => {
    const made = [await template(), await template(), await template()].reverse()
    const first = await call('viewer', 'GET', '/workflow-registry?limit=2')
    const rest = `/workflow-registry?limit=1&cursor=${first.body.next_cursor}`
    expect([...idsOf(first), ...idsOf(await call('viewer', 'GET', rest))]).toEqual(made)
    const foreign = (await call('member', 'GET', '/workflows?limit=1')).body.next_cursor
    expect((await call('viewer', 'GET', `/workflow-registry?cursor=${foreign}`)).status).toBe(422)
    expect((await call('viewer', 'GET', '/workflow-registry?include_archived=yes')).status).toBe(422)
  })
})
