import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
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
  expect(page).toContain(`id="${field}-wrong"`)
  expect(page).toContain(
    'value="2026-12-21"'.replace('2026-12-21', wrong['inputs.first_day'] ?? '2026-12-21'),
  )
})

test('is refused to a viewer, and to another organization', async () => {
  const cookie = await home.cookieOf('viewer')
  const token = await home.tokenOf(place, 'viewer')
  expect((await home.post(place, { token, action: 'start', ...given }, {}, cookie)).status).toBe(403)
  expect((await home.call('member', 'GET', '/runs')).body.data).toHaveLength(1)
})
