import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import type { Who } from './support.ts'
import { plain, startPages, type PagesHome } from '../api/console/pages-home.ts'

/* The form that starts a run, made from the inputs of the workflow. */

let home: PagesHome
let place = ''
let workflow = ''

const definition = {
  inputs: {
    name: { type: 'string', required: true, description: 'Who goes on holiday' },
    first_day: { type: 'string', required: true, format: 'date' },
    days: { type: 'number', default: 5 },
    kind: { type: 'string', options: ['holiday', 'training'], default: 'holiday' },
    paid: { type: 'boolean' },
    notes: { type: 'string', format: 'text' },
    people: { type: 'array' },
  },
  steps: [
    {
      id: 'tell',
      tool: 'mail_send',
      params: { to: 'team@larkspur.example', subject: '{{input.name}}', text: '{{ text(input.days + 1) }}' },
    },
  ],
}

beforeAll(async () => {
  home = await startPages()
  const made = await home.call('admin', 'POST', '/workflows', {
    name: 'Holiday',
    description: 'Asks for days off',
    definition,
  })
  expect(made.status).toBe(201)
  workflow = made.body.id
  place = `/console/workflows/${workflow}/run`
})
afterAll(() => home?.server.close())

const given = { 'inputs.name': 'Ines', 'inputs.first_day': '2026-12-21', 'inputs.days': '7', 'inputs.kind': 'training', 'inputs.paid': 'true', 'inputs.notes': 'a\r\nb', 'inputs.people': '["Kai"]' } // prettier-ignore

async function send(action: string, fields: Record<string, string>, once = newId('run')) {
  const token = await home.tokenOf(place, 'member')
  return home.post(place, { token, once, action, ...fields }, {}, await home.cookieOf('member'))
}

test('has a field for each input, with its type, help and default, and a link fills it in', async () => {
  expect(plain(await home.main('/console/workflows', 'member'))).toContain('Holiday')
  const page = await home.main(`${place}?name=Ana&days=9&kind=training`, 'member')
  expect(plain(page)).toContain('Who goes on holiday')
  for (const field of [
    /<input type="text" value="Ana"[^>]*name="inputs.name" required/,
    /<input type="date" (value=""|value)[^>]*name="inputs.first_day" required/,
    /<input type="text" value="9"[^>]*name="inputs.days"/,
    /<option value="training" selected/,
    /<select id="inputs.paid"/,
    /<textarea rows="6"[^>]*name="inputs.notes"/,
    /<textarea rows="6"[^>]*name="inputs.people"/,
  ])
    expect(page).toMatch(field)
  expect(plain(page)).toContain('Days (optional)')
  expect(plain(page)).not.toContain('Name (optional)')
  expect(plain(page)).toContain('As JSON, such as [&quot;a&quot;, &quot;b&quot;].')
})

test('the address of a workflow, also by its slug, leads to the form', async () => {
  const made = await home.call('admin', 'POST', '/workflows', { name: 'S', slug: 'days-off', definition })
  for (const name of [made.body.id, 'days-off'])
    expect(await home.main(`/console/workflows/${name}`)).toContain(
      `href="/console/workflows/${made.body.id}/run"`,
    )
  expect((await home.get('/console/workflows/days-off/run')).status).toBe(200)
})

test('starts one run with the values, also after a second tap, and shows it', async () => {
  const once = newId('run')
  const first = await send('start', given, once)
  const run = /^\/console\/runs\/(run_\w+)/.exec(first.headers.get('location') ?? '')?.[1]
  expect(first.status).toBe(303)
  expect((await send('start', given, once)).headers.get('location')).toBe(first.headers.get('location'))
  const { body } = await home.call('member', 'GET', `/runs/${run}`)
  expect(body.inputs).toEqual({ name: 'Ines', first_day: '2026-12-21', days: 7, kind: 'training', paid: true, notes: 'a\nb', people: ['Kai'] }) // prettier-ignore
  expect((await home.call('member', 'GET', '/runs')).body.data).toHaveLength(1)
})

test('shows what would wait, and starts nothing', async () => {
  const plainPreview = async () => plain(await (await send('preview', given)).text())
  expect(await plainPreview()).toContain('No step waits for a person')
  await home.hold({ name: 'mails wait', tools: ['mail_send'] })
  expect(await plainPreview()).toMatch(/tell is held for approval\s+by the rule mails wait: The tool matches/)
  expect((await home.call('member', 'GET', '/runs')).body.data).toHaveLength(1)
})

test.each<[string, Record<string, string>, string]>([
  ['a text in place of a number', { 'inputs.days': 'seven' }, 'must be a number'],
  ['no JSON', { 'inputs.people': '[Kai' }, 'must be JSON'],
  ['no day', { 'inputs.first_day': '2026-02-30' }, 'must be a day such as'],
  ['another choice', { 'inputs.kind': 'party' }, 'must be one of'],
  ['nothing', { 'inputs.name': ' ' }, 'is required'],
])('says at the field what is wrong with %s, and keeps what was typed', async (_, wrong, words) => {
  const answer = await send('start', { ...given, ...wrong })
  const page = await answer.text()
  const [field = ''] = Object.keys(wrong)
  expect(answer.status).toBe(422)
  expect(plain(page).toLowerCase()).toContain(words.toLowerCase())
  expect(plain(page)).toContain('Nothing was started. Change this:')
  expect(plain(page)).not.toMatch(/Input (name|days|people|kind|first_day)/i)
  expect(page).toContain(`id="${field}-wrong"`)
  expect(page).toContain(
    'value="2026-12-21"'.replace('2026-12-21', wrong['inputs.first_day'] ?? '2026-12-21'),
  )
})

test('is refused to a viewer, and to another organization', async () => {
  const cookie = await home.cookieOf('viewer')
  const page = await home.main(place, 'viewer')
  expect(plain(page)).toContain('you need the role member')
  expect(page).not.toContain('name="action"')
  const token = await home.tokenOf(place, 'viewer')
  expect((await home.post(place, { token, action: 'start', ...given }, {}, cookie)).status).toBe(403)
  expect((await home.call('member', 'GET', '/runs')).body.data).toHaveLength(1)
})

describe('a workflow that reads files', () => {
  let readsFiles = ''
  const steps = [
    { id: 'mail', tool: 'mail_send', params: { to: 'team@larkspur.example', subject: 's', text: '{{input.uploaded_files}}' } }, // prettier-ignore
  ]
  beforeAll(async () => {
    const inputs = { note: { type: 'string', required: true } }
    const made = await home.call('member', 'POST', '/workflows', { name: 'r', definition: { inputs, steps } })
    readsFiles = `/console/workflows/${made.body.id}/run`
  })

  const invoice = new File(['seals: 10'], 'invoice.txt', { type: 'text/plain' })
  async function sendFile(
    fields: Record<string, string>,
    more: { file?: File; who?: Who; at?: string; headers?: Record<string, string> } = {},
  ) {
    const { file = invoice, who = 'member', at = readsFiles, headers = {} } = more
    const form = new FormData()
    const token = await home.tokenOf(at, who)
    for (const [name, text] of Object.entries({ token, once: newId('run'), ...fields }))
      form.append(name, text)
    form.append('file', file)
    return fetch(`${home.server.base}${at}`, {
      method: 'POST',
      body: form,
      headers: { cookie: await home.cookieOf(who), origin: home.server.base, 'sec-fetch-site': 'same-origin', ...headers }, // prettier-ignore
      redirect: 'manual',
    })
  }
  const filesOf = async () => (await home.call('member', 'GET', '/files')).body.data
  const idsIn = (page: string) => [...page.matchAll(/value="(file_\w+)" checked/g)].map(([, id = '']) => id)

  test('has a field for a file, and others have none', async () => {
    const page = await home.main(readsFiles, 'member')
    expect(page).toContain('enctype="multipart/form-data"')
    expect(page).toMatch(/<label for="file">File<\/label><input type="file" id="file" name="file"/)
    expect(await home.main(place, 'member')).not.toContain('type="file"')
  })

  test('keeps each file with its labels, says what would wait, and gives all to the run once', async () => {
    const first = await (
      await sendFile({ action: 'upload', labels: 'pii, finance', 'inputs.note': 'n' })
    ).text()
    expect(plain(first)).toContain('invoice.txt (finance, internal and pii)')
    expect(first).toContain('value="n"')
    expect(plain(first)).not.toContain('is required')
    const [uploaded = ''] = idsIn(first)
    const preview = await sendFile({ action: 'preview', uploaded, 'inputs.note': 'n' })
    expect(preview.status).toBe(200)
    const ids = idsIn(await preview.text())
    expect(ids).toEqual([uploaded, expect.any(String)])
    // A browser without a chosen file sends an empty one without a name.
    const file = new File([], '')
    const started = await sendFile({ action: 'start', uploaded, 'inputs.note': 'n' }, { file })
    const run = /^\/console\/runs\/(run_\w+)/.exec(started.headers.get('location') ?? '')?.[1]
    const { body } = await home.call('member', 'GET', `/runs/${run}`)
    expect(body.inputs).toMatchObject({
      note: 'n',
      uploaded_files: [{ name: 'invoice.txt', text: 'seals: 10' }],
    })
    expect((await filesOf()).map(({ id }: { id: string }) => id).toSorted()).toEqual(ids.toSorted())
    const took = (await home.call('member', 'GET', `/files/${uploaded}/runs`)).body
    expect(took).toMatchObject({ runs: [{ id: run, status: 'queued' }], is_all: true })
    expect(await home.main(`/console/data/files/${uploaded}`, 'member')).toContain(
      `href="/console/runs/${run}"`,
    )
  })

  test('a second tap keeps one file and starts one run', async () => {
    const before = (await filesOf()).length
    const once = newId('run')
    const tap = () => sendFile({ action: 'start', once, 'inputs.note': 'n' })
    const taps = await Promise.all([tap(), tap()])
    const places = new Set(taps.map(({ headers }) => headers.get('location')))
    expect([...places]).toEqual([expect.stringContaining('/console/runs/run_')])
    expect(await filesOf()).toHaveLength(before + 1)
  })

  test.each<[string, Record<string, string>, File, number, string]>([
    ['a wrong label', { labels: 'Not a label' }, invoice, 422, 'labels-wrong'],
    [
      'a file that is none of these',
      {},
      new File([new Uint8Array([0, 1, 2, 255])], 'a.bin'),
      422,
      'file-wrong',
    ],
    ['a file that is too large', {}, new File([new Uint8Array(25 * 1024 ** 2 + 1)], 'a.txt'), 413, '25 MiB'],
    ['fields that are too long', { 'inputs.note': 'n'.repeat(70_000) }, invoice, 413, 'larger than'],
  ])('refuses %s, and keeps nothing', async (_, fields, file, status, words) => {
    const before = await filesOf()
    const answer = await sendFile({ action: 'start', ...fields }, { file })
    expect([answer.status, await answer.text()]).toEqual([status, expect.stringContaining(words)])
    expect(await filesOf()).toEqual(before)
  })

  test('a file that is kept stays in the form when an input is missing', async () => {
    const answer = await sendFile({ action: 'start', 'inputs.note': '' })
    const page = await answer.text()
    expect([answer.status, idsIn(page).length]).toEqual([422, 1])
    expect(page).toContain('id="inputs.note-wrong"')
  })

  test('nothing is read of a stranger, of another site, or with the token of another sign-in', async () => {
    const before = await filesOf()
    const tries = [
      await sendFile({ action: 'start' }, { headers: { cookie: '' } }),
      await sendFile({ action: 'start' }, { headers: { 'sec-fetch-site': 'cross-site' } }),
      await sendFile({ action: 'start' }, { headers: { origin: 'https://elsewhere.example' } }),
      await sendFile({ action: 'start', token: 'wrong' }),
      await sendFile({ action: 'upload' }, { who: 'viewer' }),
      await sendFile({ action: 'start' }, { at: '/console/keys/new' }),
    ]
    expect(tries.map(({ status }) => status)).toEqual([303, 403, 403, 403, 403, 400])
    expect(tries[0]?.headers.get('location')).toContain('/console/sign-in')
    expect(await filesOf()).toEqual(before)
  })
})
