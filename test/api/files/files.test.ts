import { createHash } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import { readUsage } from '../../../src/governance/limits/storage-counters.ts'
import { readDefinedCall } from '../../../src/calls/runs/call.ts'
import { load } from '../../../src/calls/runs/loading.ts'
import { resolve } from '../../../src/policy/templates.ts'
import { auditOf } from '../../governance/support.ts'
import { docxOf, pdfOf, xlsxOf } from '../../support/documents.ts'
import { shownOutputs } from '../../support/shell-blocks.ts'
import { readDocsPage } from '../docs-page.ts'
import { addOrganization, formOf } from '../fixtures.ts'
import type { Answer, TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

/* Files: uploading them, keeping them, and runs that read them. */

let server: TestServer
let workflow: string
const { as, ours, keyOf } = useServer(async (started) => {
  server = started
  workflow = (await call('POST', '/workflows', { name: 'Read files', definition })).body.id
})

const definition = {
  steps: [
    { id: 'keep', tool: 'memory_set', params: { key: 'k', value: '{{input.uploaded_files}}' } },
    {
      id: 'each',
      tool: 'memory_set',
      for_each: '{{input.uploaded_files[0].rows}}',
      params: { key: '{{item.name}}', value: '{{item.total}}' },
    },
    { id: 'other', tool: 'memory_set', params: { key: 'o', value: 1 } },
  ],
}
const mebibyte = 1024 ** 2
const call = (method: string, path: string, body?: unknown) => as('owner', method, path, body)
const upload = (form: FormData, headers?: Record<string, string>): Promise<Answer> =>
  as('member', 'POST', '/files', form, headers)
/** Uploads a file, and returns its id. */
const uploaded = async (name: string, content: string, ...labels: string[]): Promise<string> =>
  (await upload(formOf(name, content, ...labels))).body.id
const stored = async (): Promise<number> =>
  Number((await server.context.pool.query('select count(*) from files')).rows[0].count)
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

describe('uploading', () => {
  const office = 'application/vnd.openxmlformats-officedocument'
  test.each<[string, Buffer, string]>([
    ['invoice.pdf', pdfOf('Invoice 7'), 'application/pdf'],
    ['letter.docx', docxOf('Hello'), `${office}.wordprocessingml.document`],
    ['Gehälter.xlsx', xlsxOf([['a'], [1]]), `${office}.spreadsheetml.sheet`],
    ['rows.csv', Buffer.from('a,b\n1,2\n'), 'text/csv'],
    ['notes.md', Buffer.from('# Notes'), 'text/plain'],
  ])('%s: the answer, the list and the audit log name it', async (name, bytes, mediaType) => {
    const { status, body } = await upload(formOf(name, bytes, 'confidential', 'pii, finance'))
    expect([status, body]).toMatchObject([
      201,
      {
        id: expect.stringMatching(/^file_/),
        name,
        size: bytes.length,
        media_type: mediaType,
        sha256: sha256(bytes),
        labels: ['confidential', 'finance', 'internal', 'pii'],
        created_by: server.identities.users.member.user_id,
        last_used_at: null,
      },
    ])
    const list = await as('member', 'GET', '/files?limit=1')
    expect(list.body.data).toEqual([body])
    expect((await as('member', 'GET', `/files/${body.id}`)).body).toEqual(body)
    const [entry] = (await auditOf(server.context, server.identities.organization_id, 10)).filter(
      ({ metadata }) => metadata['file_id'] === body.id,
    )
    expect(entry).toMatchObject({
      event_type: 'file.created',
      metadata: { sha256: body.sha256, size: body.size, media_type: mediaType, labels: body.labels },
    })
  })

  test('a file of 25 MiB is taken, and one of a byte more is 413', async () => {
    const most = Buffer.alloc(25 * mebibyte, 'text ')
    expect((await upload(formOf('a.txt', most))).status).toBe(201)
    const before = await stored()
    const { status, body } = await upload(formOf('a.txt', Buffer.concat([most, Buffer.from('x')])))
    expect([status, body.error.code]).toEqual([413, 'too_large'])
    expect(body.error.message).toContain('25 MiB')
    expect(await stored()).toBe(before)
  })

  test('a file that cannot be read is 422 with the reason, and nothing is stored', async () => {
    const before = await stored()
    const image = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
    const cut = pdfOf('x').subarray(0, 100)
    for (const form of [formOf('a.pdf', image), formOf('a.pdf', cut), formOf('a.txt', '')]) {
      const { status, body } = await upload(form)
      const refused = { code: 'validation_error', details: [{ path: 'file' }] }
      expect([status, body.error]).toMatchObject([422, refused])
    }
    expect(await stored()).toBe(before)
  })

  test('the same key and file get the same answer; another file is a mismatch', async () => {
    const headers = { 'Idempotency-Key': 'upload-1' }
    const first = await upload(formOf('a.txt', 'one'), headers)
    const before = await stored()
    const again = await upload(formOf('a.txt', 'one'), headers)
    expect([again.status, again.body]).toEqual([201, first.body])
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    const other = await upload(formOf('a.txt', 'two'), headers)
    expect(codeOf(other)).toBe('422 idempotency_mismatch')
    expect(await stored()).toBe(before)
  })

  /** The form of a file, with another field. */
  const withMore = (name: string, value: string | Blob): FormData => {
    const form = formOf('a.txt', 'x')
    form.append(name, value as Blob)
    return form
  }
  test.each<[string, () => FormData, number, string]>([
    ['no file', () => new FormData(), 422, 'field `file`'],
    ['a wrong label', () => formOf('a.txt', 'x', 'Not A Label'), 422, 'lower-case slug'],
    ['an unknown field', () => withMore('colour', 'red'), 422, 'only the fields'],
    ['a file without a name', () => withMore('file', 'red'), 422, 'has no file name'],
    ['two files', () => withMore('file', new Blob(['y'])), 400, 'one file in each request'],
  ])('a form with %s is refused', async (_what, form, status, words) => {
    const answer = await upload(form())
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([status, expect.stringContaining(words)])
  })

  test('two organizations upload at once: each gets its own files, with the right text and labels', async () => {
    const others = await addOrganization(server.context)
    const places = [
      {
        key: keyOf('member'),
        query: `?organization_id=${server.identities.organization_id}`,
        label: 'of-us',
      },
      { key: others.owner.key, query: `?organization_id=${others.id}`, label: 'of-others' },
    ]
    const all = Array.from({ length: 6 }, (_, index) => ({
      ...(places[index % 2] as (typeof places)[number]),
      name: `at-once-${index}.csv`,
      bytes: Buffer.from(`a,b\n${index},x\n`),
    }))
    const answers = await Promise.all(
      all.map(({ key, query, name, bytes, label }) =>
        server.call(key, 'POST', `/files${query}`, formOf(name, bytes, label)),
      ),
    )
    const seen = answers.map(({ status, body }) => [status, body.name, body.sha256, body.labels.toSorted()])
    expect(seen).toEqual(
      all.map(({ name, bytes, label }) => [201, name, sha256(bytes), ['internal', label].toSorted()]),
    )
    for (const { key, query } of places) {
      const { data } = (await server.call(key, 'GET', `/files${query}&limit=100`)).body
      const names: string[] = data.map((each: { name: string }) => each.name)
      const own = all.filter((each) => each.key === key).map(({ name }) => name)
      expect(names.filter((name) => name.startsWith('at-once')).toSorted()).toEqual(own)
    }
  })

  test('JSON is 415 and says what to send', async () => {
    const { status, body } = await as('member', 'POST', '/files', { file: 'x' })
    expect([status, body.error.code]).toEqual([415, 'unsupported_media_type'])
    expect(body.error.message).toContain('curl -F file=@')
  })

  test('a form that ends too early is refused, and the server goes on', async () => {
    const boundary = 'x'
    const begun = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello`
    const headers = {
      authorization: `Bearer ${keyOf('member')}`,
      'content-type': `multipart/form-data; boundary=${boundary}`,
    }
    const { status } = await fetch(`${server.base}/files`, { method: 'POST', headers, body: begun })
    expect(status).toBe(400)
    await new Promise<void>((resolve) => {
      const sent = httpRequest(`${server.base}/files`, {
        method: 'POST',
        headers: { ...headers, 'content-length': 1_000 },
      })
      sent.once('error', () => resolve())
      sent.write(begun, () => sent.destroy(new Error('the client has gone')))
    })
    expect((await upload(formOf('a.txt', 'after'))).status).toBe(201)
  })
})

describe('a file', () => {
  test('is sealed in the database: no column shows its text or rows', async () => {
    const { body } = await upload(formOf('secret.csv', 'planted_name,planted_salary\nKarpenstein,81234\n'))
    const { rows } = await server.context.pool.query('select * from files where id = $1', [body.id])
    const all = JSON.stringify(rows, (_, value) =>
      value?.type === 'Buffer' ? Buffer.from(value.data).toString('latin1') : value,
    )
    expect(all).not.toMatch(/planted|Karpenstein|81234/)
    expect(rows[0].rows_sealed).not.toBeNull()
  })

  test('counts towards the storage of its organization until it is deleted', async () => {
    const { id, owner } = await addOrganization(server.context)
    const used = async () => (await readUsage(server.context.db, id)).storage_mb
    const before = await used()
    const form = formOf('a.txt', 'x'.repeat(2 * mebibyte))
    const { status, body } = await server.call(owner.key, 'POST', `/files?organization_id=${id}`, form)
    expect(status).toBe(201)
    expect(await used()).toBeGreaterThan(before + 2)
    expect((await server.call(owner.key, 'DELETE', `/files/${body.id}`)).status).toBe(204)
    expect(await used()).toBeLessThan(before + 0.1)
    expect((await server.call(owner.key, 'DELETE', `/files/${body.id}`)).status).toBe(404)
    const events = (await auditOf(server.context, id, 10)).map(({ event_type }) => event_type)
    expect(events.filter((event) => event.startsWith('file.'))).toEqual(['file.created', 'file.deleted'])
  })
})

const execute = (...files: readonly string[]) =>
  call('POST', `/workflows/${workflow}/execute?wait=0`, { files })

test('a run copies the files that it names, with their labels, and goes on without them', async () => {
  const csv = await uploaded('a.csv', 'name,total\nAnn,12\nBob,7\n', 'finance')
  const notes = await uploaded('b.txt', 'Notes', 'pii')
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
  const text = 'name,total\nAnn,12\nBob,7\n'
  const files = [
    { id: csv, name: 'a.csv', media_type: 'text/csv', size: 24, text, rows },
    { id: notes, name: 'b.txt', media_type: 'text/plain', size: 5, text: 'Notes' },
  ]
  expect(run.inputs).toEqual({ uploaded_files: files })
  expect(run.input_labels).toEqual({
    uploaded_files: [
      { label: 'finance', from: ['input.uploaded_files', csv] },
      { label: 'internal', from: ['input.uploaded_files', csv, notes] },
      { label: 'pii', from: ['input.uploaded_files', notes] },
    ],
  })
  const specOf = (stepId: string) => readDefinedCall(server.context, { runId, stepId, itemIndex: -1 })
  const spec = await specOf('keep')
  expect(spec.labels).toEqual(['finance', 'internal', 'pii'])
  expect((await specOf('other')).labels).toEqual([])
  const what = { ...spec, templates: definition.steps[0]!.params }
  const { value, permit } = await load(server.context, what, new AbortController().signal, (scope) => [
    resolve('{{input.uploaded_files[0].rows}}', scope).value,
    resolve('{{input.uploaded_files}}', scope).sources.get(''),
  ])
  permit.release()
  expect(value).toEqual([rows, ['input.uploaded_files']])
})

describe('a run is refused with the place in `files`:', () => {
  function refused(what: string, words: string, prepare: () => Promise<string[]>): void {
    test(what, async () => {
      const files = await prepare()
      const { status, body } = await execute(...files)
      const place = `files.${files.length - 1}`
      expect([status, body.error.code, body.error.details[0].path]).toEqual([422, 'validation_error', place])
      expect(body.error.message).toContain(words)
    })
  }

  refused('a file that was deleted', 'or it was deleted', async () => {
    const id = await uploaded('a.txt', 'x')
    await call('DELETE', `/files/${id}`)
    return [id]
  })
  refused('a file of another organization', 'is no file that you can see', async () => {
    const { id, owner } = await addOrganization(server.context)
    const sent = await server.call(owner.key, 'POST', `/files?organization_id=${id}`, formOf('a.txt', 'x'))
    return [await uploaded('b.txt', 'y'), sent.body.id]
  })
  refused('a file that is named twice', 'named twice', async () => {
    const id = await uploaded('a.txt', 'x')
    return [id, id]
  })
  refused('files with more than 8 MiB of text', 'more than 8 MiB', async () => {
    return [await uploaded('a.txt', 'x'.repeat(8 * mebibyte + 1))]
  })
})

describe('before a run', () => {
  const preview = async (body: object) =>
    (await call('POST', `/workflows/${workflow}/authorization-preview`, body)).body
  test('a preview shows the labels of the files at every step that uses them', async () => {
    const id = await uploaded('a.csv', 'name,total\nAnn,12\n', 'finance')
    const { steps } = await preview({ files: [id] })
    expect(steps.map(({ labels }: { labels: { definite: string[] } }) => labels.definite)).toEqual([
      ['finance', 'internal'],
      ['finance', 'internal'],
      [],
    ])
    for (const [given, others_from] of [
      [{}, ['input.uploaded_files']],
      [{ inputs: {} }, []],
    ] as const)
      expect((await preview(given)).steps[0].labels).toMatchObject({ definite: [], others_from })
  })

  test('a rule on a label of a file refuses the run before it starts', async () => {
    const id = await uploaded('a.csv', 'name,total\nAnn,12\n', 'salaries')
    const rule = { name: 'No salaries', verdict: 'deny', labels: { any_of: ['salaries'] } }
    const { body } = await ours('owner', 'POST', '/rules', rule)
    const answer = await execute(id)
    expect(codeOf(answer)).toBe('403 run_denied')
    expect((await execute(await uploaded('b.csv', 'name,total\nAnn,12\n'))).status).toBe(202)
    await ours('owner', 'DELETE', `/rules/${body.id}`)
  })
})

const page = 'docs/files.md'

/** No worker runs here. So this saves what the run of the page would keep in the memory. */
const keepCustomers = `for id in 1001 1002 1003 1004 1005 1006; do
  api $MEMBER PUT /memory/customers%2F$id -d '{"value": "a name", "labels": ["internal", "pii"]}' >/dev/null
done`

test('the commands of the page about files do what it says', async () => {
  const ran = await readDocsPage(page, { after: [keepCustomers], last: 'Clean up' })
  const kept = ran.splice(-2, 1)
  expect([kept, ran]).toEqual([[''], ['', ...shownOutputs(page)]])
})
