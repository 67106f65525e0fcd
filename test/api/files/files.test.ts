import { request as httpRequest } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createHash } from 'node:crypto'
import { readUsage } from '../../../src/governance/limits/storage-counters.ts'
import { auditOf } from '../../governance/support.ts'
import { docxOf, pdfOf, xlsxOf } from '../../support/documents.ts'
import { addOrganization, formOf } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

const mebibyte = 1024 ** 2
const keyOf = (name: 'owner' | 'admin' | 'member' | 'viewer'): string => server.identities.users[name].api_key
const upload = (form: FormData, headers?: Record<string, string>, key = keyOf('member')): Promise<Answer> =>
  server.call(key, 'POST', '/files', form, headers)
const stored = async (): Promise<number> =>
  Number((await server.context.pool.query('select count(*) from files')).rows[0].count)

describe('uploading', () => {
  test.each<[string, Buffer, string]>([
    ['invoice.pdf', pdfOf('Invoice 7'), 'application/pdf'],
    [
      'letter.docx',
      docxOf('Hello'),
      'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    ],
    [
      'Gehälter.xlsx',
      xlsxOf([['a'], [1]]),
      'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    ],
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
        sha256: createHash('sha256').update(bytes).digest('hex'),
        labels: ['confidential', 'finance', 'internal', 'pii'],
        created_by: server.identities.users.member.user_id,
        last_used_at: null,
      },
    ])
    const list = await server.call(keyOf('member'), 'GET', '/files?limit=1')
    expect(list.body.data).toEqual([body])
    expect((await server.call(keyOf('member'), 'GET', `/files/${body.id}`)).body).toEqual(body)
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
    for (const form of [
      formOf('a.pdf', image),
      formOf('a.pdf', pdfOf('x').subarray(0, 100)),
      formOf('a.txt', ''),
    ]) {
      const { status, body } = await upload(form)
      expect([status, body.error.code, body.error.details]).toMatchObject([
        422,
        'validation_error',
        [{ path: 'file' }],
      ])
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
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_mismatch'])
    expect(await stored()).toBe(before)
  })

  test.each<[string, () => FormData, number, string]>([
    ['no file', () => new FormData(), 422, 'field `file`'],
    ['a wrong label', () => formOf('a.txt', 'x', 'Not A Label'), 422, 'lower-case slug'],
    ['an unknown field', () => withField('colour'), 422, 'only the fields'],
    ['a file without a name', () => withField('file'), 422, 'has no file name'],
    ['two files', () => withFile(), 400, 'one file in each request'],
  ])('a form with %s is refused', async (_what, form, status, words) => {
    const answer = await upload(form())
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([status, expect.stringContaining(words)])
  })

  test('two organizations upload at once: each gets its own files, with the right text and labels', async () => {
    const others = await addOrganization(server.context)
    const mine = server.identities.organization_id
    const all = Array.from({ length: 6 }, (_, index) => ({
      key: index % 2 === 0 ? keyOf('member') : others.owner.key,
      organizationId: index % 2 === 0 ? mine : others.id,
      name: `at-once-${index}.csv`,
      bytes: Buffer.from(`a,b\n${index},x\n`),
      label: index % 2 === 0 ? 'of-us' : 'of-others',
    }))
    const answers = await Promise.all(
      all.map(({ key, organizationId, name, bytes, label }) =>
        server.call(key, 'POST', `/files?organization_id=${organizationId}`, formOf(name, bytes, label)),
      ),
    )
    expect(
      answers.map(({ status, body }) => [status, body.name, body.sha256, body.labels.toSorted()]),
    ).toEqual(
      all.map(({ name, bytes, label }) => [201, name, createHash('sha256').update(bytes).digest('hex'), ['internal', label].toSorted()]), // prettier-ignore
    )
    for (const { key, organizationId } of all.slice(0, 2)) {
      const { body } = await server.call(key, 'GET', `/files?organization_id=${organizationId}&limit=100`)
      const names = body.data.map(({ name }: { name: string }) => name).filter((name: string) => name.startsWith('at-once')) // prettier-ignore
      const own = all.filter((each) => each.organizationId === organizationId)
      expect(names.toSorted()).toEqual(own.map(({ name }) => name))
    }
  })

  test('JSON is 415 and says what to send', async () => {
    const { status, body } = await server.call(keyOf('member'), 'POST', '/files', { file: 'x' })
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

const withField = (name: string): FormData => {
  const form = formOf('a.txt', 'x')
  form.append(name, 'red')
  return form
}
const withFile = (): FormData => {
  const form = formOf('a.txt', 'x')
  form.append('file', new Blob(['y']), 'b.txt')
  return form
}

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
    const { status, body } = await server.call(
      owner.key,
      'POST',
      `/files?organization_id=${id}`,
      formOf('a.txt', 'x'.repeat(2 * mebibyte)),
    )
    expect(status).toBe(201)
    expect(await used()).toBeGreaterThan(before + 2)
    expect((await server.call(owner.key, 'DELETE', `/files/${body.id}`)).status).toBe(204)
    expect(await used()).toBeLessThan(before + 0.1)
    expect((await server.call(owner.key, 'DELETE', `/files/${body.id}`)).status).toBe(404)
    const events = (await auditOf(server.context, id, 10)).map(({ event_type }) => event_type)
    expect(events.filter((event) => event.startsWith('file.'))).toEqual(['file.created', 'file.deleted'])
  })

  test('of another organization does not exist', async () => {
    const { body } = await upload(formOf('a.txt', 'x'))
    const { owner } = await addOrganization(server.context)
    for (const method of ['GET', 'DELETE']) {
      const answer = await server.call(owner.key, method, `/files/${body.id}`)
      expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found'])
    }
  })
})
