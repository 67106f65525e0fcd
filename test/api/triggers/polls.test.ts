import { beforeAll, describe, expect, test } from '@jest/globals'
import { triggerSender } from '../../../src/governance/triggers/schedule.ts'
import { addOrganization } from '../fixtures.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'
import type { TestServer } from '../server.ts'

/* Polls over HTTP. What they read and start is in test/governance/triggers/polls.test.ts. */

let server: TestServer
const { as, ours } = useServer((started) => (server = started))
let workflow: string
let account: string
beforeAll(async () => {
  await ours('owner', 'PATCH', '/governance', { approval_required_from: null })
  account = (await ours('owner', 'POST', '/service-accounts', { name: 'reader', role: 'member' })).body.id
  const definition = {
    inputs: { text: { type: 'string', required: true } },
    steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: '{{input.text}}' } }],
  }
  workflow = (await as('member', 'POST', '/workflows', { name: 'w', definition })).body.id
})

const usual = {
  ...{ tool: 'memory_get', params: { key: 'rows' }, every_seconds: 60 },
  ...{ list: '{{ output.value }}', id: '{{ item.id }}' },
}
const make = (poll: object = {}, over: object = {}, who: 'admin' | 'owner' | 'member' = 'admin') =>
  as(who, 'POST', `/workflows/${workflow}/triggers`, {
    ...{ name: 'rows', service_account: account, version: 'latest', inputs: { text: '{{ item.text }}' } },
    ...{ poll: { ...usual, ...poll } },
    ...over,
  })
const at = ({ id }: { id: string }, more = '') => `/workflows/${workflow}/triggers/${id}${more}`
/** One turn of its lane: the first one starts a call. There is no worker that makes it. */
const turn = (id: string) =>
  triggerSender(server.context, async () => {}).work(
    { kind: 'trigger', id, organizationId: null, message: null, failures: 0, turn: 't' },
    new AbortController().signal,
  )

test('an admin makes a poll, and everybody sees what it reads', async () => {
  expect(codeOf(await make({}, {}, 'member'))).toBe('403 insufficient_role')
  const { status, body } = await make()
  expect([status, body.error]).toEqual([201, undefined])
  expect(body).toMatchObject({ kind: 'poll', schedule: null, webhook: null, secret: null, untrusted: true })
  expect((await as('member', 'GET', at(body))).body.poll).toEqual({
    ...{ ...usual, order: null, first: 'skip' },
    ...{ next_due_at: expect.any(String), polled_at: null, workflow_id: expect.stringMatching(/^wf_/) },
  })
})

const ofSheet = { tool: 'sheets_read', params: { spreadsheet: 'sheet-1', range: 'Orders' } }

test.each([
  ['poll.tool', { tool: 'no_such_tool' }],
  ['poll.tool', { tool: 'memory_set', params: { key: 'k', value: 1 } }],
  ['poll.params.key', { params: {} }],
  ['poll.params.other', { params: { key: 'k', other: 1 } }],
  ['poll.params.key', { params: { key: '{{ input.x }}' } }],
  ['poll.every_seconds', { every_seconds: 9 }],
  ['poll.list', { list: '{{ item.rows }}' }],
  ['poll.list', { list: '{{ output. }}' }],
  ['poll.id', { id: '{{ body.id }}' }],
  ['poll.order', { order: '{{ due_at }}' }],
  ['poll.list', { list: '' }],
  ['poll.list', { list: 'output.value' }],
  ['poll.list', { list: '{{ output.value }}, {{ output.value }}' }],
  ['poll.list', { list: '{{ output.valeu }}' }],
  ['poll.list', { list: '{{ filter(output.valeu, row, row.open) }}' }],
  ['poll.list', { list: '{{ output.key }}' }],
  ['poll.list', { ...ofSheet, list: '{{ output.recrods }}' }],
  ['poll.id', { id: 'item.id' }],
  ['poll.id', { id: '{{ output.key }}' }],
  ['poll.id', { list: '{{ [{ "nr": 1 }] }}', id: '{{ item.id }}' }],
  ['poll.order', { order: 'day' }],
  ['poll.order', { order: '{{ size(output.value) }}' }],
])('422 at `%s`', async (path, poll) => {
  const refused = await make(poll)
  expect([refused.status, placesOf(refused)]).toEqual([422, [path]])
})

test('an expression over the item is sound, also beside others', async () => {
  const list = '{{ filter(output.value, row, row.open) }}'
  const { status } = await make({
    list,
    id: '{{ output.key + "-" + text(item.id) }}',
    order: '{{ -item.day }}',
  })
  expect(status).toBe(201)
  const rows = await make({
    ...ofSheet,
    list: '{{ output.records }}',
    id: '{{ item["E-mail"] }}',
    order: '{{ item.Day }}',
  })
  expect(rows.body.error).toBeUndefined()
})

test('422 for fields of other kinds', async () => {
  expect(placesOf(await make({}, { schedule: { every_seconds: 60 } }))).toEqual(['schedule'])
  expect(placesOf(await make({}, { secret: 'a-secret-of-someone' }))).toEqual(['secret'])
  expect(placesOf(await make({}, { inputs: { text: '{{ body.x }}' } }))).toEqual(['inputs.text'])
  const { body } = await make()
  expect(placesOf(await as('admin', 'PATCH', at(body), { schedule: { every_seconds: 60 } }))).toEqual([
    'schedule',
  ])
  expect(placesOf(await as('admin', 'PATCH', at(body), { new_secret: true }))).toEqual(['new_secret'])
  expect(placesOf(await as('admin', 'PATCH', at(body), { poll: { ...usual, tool: 'memory_set' } }))).toEqual([
    'poll.tool',
  ])
})

describe('the workflow of the call', () => {
  test('is not there for people, and its runs are in no list but its own', async () => {
    const { body: made } = await make()
    const own = made.poll.workflow_id
    for (const [method, path, body] of [
      ['GET', ''],
      ['PUT', '', { name: 'x' }],
      ['DELETE', ''],
      ['POST', '/execute', { inputs: {} }],
      ['GET', '/versions'],
      ['GET', '/triggers'],
    ] as const)
      expect(codeOf(await as('owner', method, `/workflows/${own}${path}`, body))).toBe('404 not_found')
    const idsOf = async (path: string) =>
      (await as('member', 'GET', path)).body.data.map(({ id }: { id: string }) => id)
    expect(await idsOf('/workflows')).toEqual([workflow])
    await turn(made.id)
    const [run] = await idsOf(`/runs?workflow_id=${own}`)
    expect(await idsOf('/runs')).toEqual([])
    expect((await as('member', 'GET', `/runs/${run}`)).body).toMatchObject({
      ...{ workflow_name: 'Poll of rows', requested_by: account },
      trigger: { id: made.id, name: 'rows', workflow_id: workflow },
      steps: [{ id: 'read', tool: 'memory_get' }],
    })
    const { owner } = await addOrganization(server.context)
    for (const path of [at(made), `/runs/${run}`, at(made, '/firings')])
      expect(codeOf(await server.call(owner.key, 'GET', path))).toBe('404 not_found')
    const elsewhere = await server.call(owner.key, 'GET', `/runs?workflow_id=${own}`)
    expect(elsewhere.body.data).toEqual([])
  })

  test('has the new name and call of a changed trigger, and goes with it', async () => {
    const { body: made } = await make()
    await as('admin', 'PATCH', at(made), { name: 'lines', poll: { ...usual, params: { key: 'lines' } } })
    const read = async () => {
      const asked = `select w.name, w.deleted_at is not null as deleted, v.definition from workflows w
        join workflow_versions v on v.workflow_id = w.id and v.version = w.current_version where w.id = $1`
      const [row] = (await server.context.pool.query(asked, [made.poll.workflow_id])).rows
      return { ...row, definition: JSON.parse(row.definition).steps[0].params }
    }
    expect(await read()).toEqual({ name: 'Poll of lines', deleted: false, definition: { key: 'lines' } })
    expect((await as('admin', 'DELETE', at(made))).status).toBe(204)
    expect((await read()).deleted).toBe(true)
  })

  test('has one call at a time', async () => {
    const { body: made } = await make()
    await turn(made.id)
    await server.context.pool.query('update triggers set next_due_at = now() where id = $1', [made.id])
    await Promise.all([turn(made.id), turn(made.id)])
    const { body } = await as('member', 'GET', `/runs?workflow_id=${made.poll.workflow_id}`)
    expect(body.data).toHaveLength(1)
  })
})

test('a test shows what the rules say about the call, and what an output would start', async () => {
  const { body: made } = await make({ order: '{{ item.id }}' })
  const tried = async (body: object) => as('admin', 'POST', at(made, '/test'), body)
  const call = { verdict: 'allow', executable: true, not_executable_because: null }
  expect((await tried({})).body).toMatchObject({ inputs: {}, items: null, call, next_due_at: [] })
  const value = [
    { id: 2, text: 'later' },
    { id: 1, text: 'first' },
  ]
  expect((await tried({ output: { key: 'rows', value } })).body).toMatchObject({
    ...{ inputs: { text: 'first' }, items: 2, executable: true, call },
  })
  expect((await tried({ output: { value: [] } })).body).toMatchObject({ inputs: {}, items: 0 })
  const wrong = await tried({ output: { value: [{ id: 1 }, { id: 1 }] } })
  expect([wrong.status, placesOf(wrong)]).toEqual([422, ['poll.id']])
  expect((await as('admin', 'GET', at(made, '/firings'))).body.data).toEqual([])
})
