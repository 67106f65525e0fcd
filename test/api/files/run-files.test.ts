import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { readCallSpec } from '../../../src/governance/runs/values/call-spec.ts'
import { load } from '../../../src/governance/runs/values/loading.ts'
import { resolve } from '../../../src/policy/templates.ts'
import { addOrganization, formOf } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'

let server: TestServer
let workflow: string
beforeAll(async () => {
  server = await startTestServer()
  const made = await call('POST', '/workflows', {
    name: 'Read files',
    definition,
  })
  workflow = made.body.id
})
afterAll(() => server?.close())

const definition = {
  steps: [
    {
      id: 'keep',
      tool: 'memory_set',
      params: { key: 'k', value: '{{input.uploaded_files}}' },
    },
    {
      id: 'each',
      tool: 'memory_set',
      for_each: '{{input.uploaded_files[0].rows}}',
      params: { key: '{{item.name}}', value: '{{item.total}}' },
    },
    { id: 'other', tool: 'memory_set', params: { key: 'o', value: 1 } },
  ],
}
const call = (method: string, path: string, body?: unknown) =>
  server.call(server.identities.users.owner.api_key, method, path, body)
const upload = async (name: string, content: string, ...labels: string[]): Promise<string> =>
  (await call('POST', '/files', formOf(name, content, ...labels))).body.id
const execute = (...files: readonly string[]) =>
  call('POST', `/workflows/${workflow}/execute?wait=0`, { files })

test('a run copies the files that it names, with their labels, and goes on without them', async () => {
  const csv = await upload('a.csv', 'name,total\nAnn,12\nBob,7\n', 'finance')
  const notes = await upload('b.txt', 'Notes', 'pii')
  const { status, body } = await execute(csv, notes)
  expect(status).toBe(202)
  expect((await call('GET', `/files/${csv}`)).body.last_used_at).not.toBeNull()
  expect((await call('DELETE', `/files/${csv}`)).status).toBe(204)
  const runId = body.execution_id as string
  const run = (await call('GET', `/runs/${runId}`)).body
  const rows = [
    { name: 'Ann', total: '12' },
    { name: 'Bob', total: '7' },
  ]
  const files = [
    {
      id: csv,
      name: 'a.csv',
      media_type: 'text/csv',
      size: 24,
      text: 'name,total\nAnn,12\nBob,7\n',
      rows,
    },
    {
      id: notes,
      name: 'b.txt',
      media_type: 'text/plain',
      size: 5,
      text: 'Notes',
    },
  ]
  expect(run.inputs).toEqual({ uploaded_files: files })
  expect(run.input_labels).toEqual({
    uploaded_files: [
      { label: 'finance', from: ['input.uploaded_files', csv] },
      { label: 'internal', from: ['input.uploaded_files', csv, notes] },
      { label: 'pii', from: ['input.uploaded_files', notes] },
    ],
  })
  const spec = await readCallSpec(server.context, {
    runId,
    stepId: 'keep',
    itemIndex: -1,
  })
  expect(spec.labels).toEqual(['finance', 'internal', 'pii'])
  expect(
    (
      await readCallSpec(server.context, {
        runId,
        stepId: 'other',
        itemIndex: -1,
      })
    ).labels,
  ).toEqual([])
  const what = { ...spec, templates: definition.steps[0]!.params }
  const { value, permit } = await load(server.context, what, new AbortController().signal, (scope) => [
    resolve('{{input.uploaded_files[0].rows}}', scope).value,
    resolve('{{input.uploaded_files}}', scope).sources.get(''),
  ])
  permit.release()
  expect(value).toEqual([rows, ['input.uploaded_files']])
})

describe('refused with the place in `files`:', () => {
  const refused = async (files: readonly string[], words: string) => {
    const { status, body } = await execute(...files)
    expect([status, body.error.code, body.error.details[0].path]).toEqual([
      422,
      'validation_error',
      `files.${files.length - 1}`,
    ])
    expect(body.error.message).toContain(words)
  }
  test('a file that was deleted', async () => {
    const id = await upload('a.txt', 'x')
    await call('DELETE', `/files/${id}`)
    await refused([id], 'or it was deleted')
  })
  test('a file of another organization', async () => {
    const { id, owner } = await addOrganization(server.context)
    const sent = await server.call(owner.key, 'POST', `/files?organization_id=${id}`, formOf('a.txt', 'x'))
    await refused([await upload('b.txt', 'y'), sent.body.id], 'is no file that you can see')
  })
  test('a file that is named twice', async () => {
    const id = await upload('a.txt', 'x')
    await refused([id, id], 'named twice')
  })
  test('files with more than 8 MiB of text', async () => {
    await refused([await upload('a.txt', 'x'.repeat(8 * 1024 ** 2 + 1))], 'more than 8 MiB')
  })
})

describe('plans', () => {
  const preview = async (body: object) =>
    (await call('POST', `/workflows/${workflow}/authorization-preview`, body)).body
  test('a preview shows the labels of the files at every step that uses them', async () => {
    const id = await upload('a.csv', 'name,total\nAnn,12\n', 'finance')
    const { steps } = await preview({ files: [id] })
    expect(steps.map(({ labels }: { labels: { definite: string[] } }) => labels.definite)).toEqual([
      ['finance', 'internal'],
      ['finance', 'internal'],
      [],
    ])
    const unknown = await preview({})
    expect(unknown.steps[0].labels).toMatchObject({
      definite: [],
      others_from: ['input.uploaded_files'],
    })
    const none = await preview({ inputs: {} })
    expect(none.steps[0].labels).toMatchObject({
      definite: [],
      others_from: [],
    })
  })
  test('a rule on a label of a file refuses the run before it starts', async () => {
    const id = await upload('a.csv', 'name,total\nAnn,12\n', 'salaries')
    const base = `/organizations/${server.identities.organization_id}/rules`
    const rule = {
      name: 'No salaries',
      verdict: 'deny',
      labels: { any_of: ['salaries'] },
    }
    const { body } = await call('POST', base, rule)
    const answer = await execute(id)
    expect([answer.status, answer.body.error.code]).toEqual([403, 'run_denied'])
    expect((await execute(await upload('b.csv', 'name,total\nAnn,12\n'))).status).toBe(202)
    await call('DELETE', `${base}/${body.id}`)
  })
})
