import { beforeAll, describe, expect, test } from '@jest/globals'
import { OutcomeUnknown } from '../../../src/activities/tools/executor.ts'
import { startScriptedServer, type Scripted } from '../../support/scripted-server.ts'
import { rejection } from './call.ts'
import { mailCredential } from './faults/mail.ts'
import { useService, type Service } from './service.ts'

let service: Service
useService('mail_send', 'mail', (started) => (service = started))
beforeAll(() => {
  service.scripted.answer = () => ({ status: 200, body: { id: 'mail-1' } })
})

const mail = { to: 'ana@larkspur.example', subject: 'Q3', text: 'The figures.' }
const send = (params: object = mail) => service.run(mailCredential(service.scripted.url), params)
const sentBody = () => JSON.parse(service.scripted.arrived[0]?.body ?? '') as Record<string, unknown>
const answering = async (answer: Scripted): Promise<unknown> => {
  const { answer: before } = service.scripted
  service.scripted.answer = () => answer
  try {
    return await rejection(send())
  } finally {
    service.scripted.answer = before
  }
}

test('a mail goes to Resend with the key of its call, and the call has the same key and bytes each time', async () => {
  const all = { ...mail, cc: 'Bo <bo@larkspur.example>', bcc: ['z@larkspur.example', 'ana@larkspur.example'] }
  const { output } = await send({ ...all, html: '<p>The figures.' })
  const accepted = ['ana@larkspur.example', 'bo@larkspur.example', 'z@larkspur.example']
  expect(output).toEqual({ message_id: 'mail-1', accepted })
  await send({ ...all, html: '<p>The figures.' })
  const [first, second] = service.scripted.arrived
  expect(first).toMatchObject({ method: 'POST', path: '/emails' })
  expect(first?.headers['idempotency-key']).toMatch(/^[\da-f]{64}$/)
  expect(first?.headers['authorization']).toBe('Bearer test_token_admin')
  expect([second?.body, second?.headers['idempotency-key']]).toEqual([
    first?.body,
    first?.headers['idempotency-key'],
  ])
  expect(sentBody()).toEqual({
    from: 'Larkspur <desk@larkspur.example>',
    to: ['ana@larkspur.example'],
    cc: ['Bo <bo@larkspur.example>'],
    bcc: ['z@larkspur.example', 'ana@larkspur.example'],
    subject: 'Q3',
    text: 'The figures.',
    html: '<p>The figures.',
  })
})

test('a name that another reader could take for an address is left out', async () => {
  const names = ['Zoë K. O’Neil', "Jo O'Neil-Ray", '"Ray, Jo"', '"x> , <y"', '"a;b"', '"(c)"']
  await send({ ...mail, to: names.map((name, index) => `${name} <p${index}@larkspur.example>`) })
  expect(sentBody()['to']).toEqual([
    'p0@larkspur.example',
    "Jo O'Neil-Ray <p1@larkspur.example>",
    'p2@larkspur.example',
    'p3@larkspur.example',
    'p4@larkspur.example',
    'p5@larkspur.example',
  ])
})

test.each([
  [{ ...mail, subject: 'a\r\nBcc: x@evil.example' }, 'mail_header_invalid'],
  [{ ...mail, to: 'nobody' }, 'mail_address_invalid'],
  [{ ...mail, to: Array.from({ length: 51 }, (_, n) => `p${n}@a.example`) }, 'mail_too_many_recipients'],
])('%j is refused before anything leaves: %s', async (params, code) => {
  expect(await rejection(send(params))).toMatchObject({ code, retryable: false })
  expect(service.scripted.arrived).toEqual([])
})

describe('an answer', () => {
  const named = (status: number, name: string, headers = {}): Scripted => ({
    status,
    headers,
    body: { statusCode: status, name, message: 'secret words' },
  })
  const final = (code: string) => ({ code, retryable: false })
  test.each<[string, Scripted, object]>([
    ['a deleted key', named(403, 'invalid_api_key'), final('connection_expired')],
    ['a wrong key', named(401, 'validation_error'), final('connection_expired')],
    [
      'a wrong key, as it is written elsewhere',
      { status: 400, body: { name: 'validation_error', message: 'API key is invalid' } },
      final('connection_expired'),
    ],
    ['a key without the right', named(401, 'restricted_api_key'), final('mail_forbidden')],
    ['a domain without a proof', named(403, 'validation_error'), final('mail_forbidden')],
    ['a wrong field', named(422, 'missing_required_field'), final('mail_refused')],
    ['a large mail', named(413, 'x'), final('mail_too_large')],
    ['another refusal', named(418, 'x'), final('mail_refused')],
    ['the quota of the day', named(429, 'daily_quota_exceeded'), final('mail_quota_exceeded')],
    ['the quota of the month', named(429, 'monthly_quota_exceeded'), final('mail_quota_exceeded')],
    [
      'too many requests',
      named(429, 'rate_limit_exceeded', { 'retry-after': '2' }),
      { code: 'mail_rate_limited', retryable: true, retryAfterSeconds: 2 },
    ],
  ])('%s', async (_, answer, expected) => {
    const error = await answering(answer)
    expect(error).toMatchObject(expected)
    expect((error as Error).message).not.toContain('secret words')
  })

  test.each<[string, Scripted]>([
    ['a request with this key that is under way', named(409, 'concurrent_idempotent_requests')],
    ['another mail with this key', named(409, 'invalid_idempotent_request')],
    ['500', named(500, 'application_error')],
    ['HTML', { status: 200, body: '<p>secret words' }],
    ['no id', { status: 200, body: {} }],
    ['an id that is none', { status: 200, body: { id: '<script>' } }],
    ['an id of another type', { status: 200, body: { id: { a: 1 } } }],
    ['a long id', { status: 200, body: { id: 'x'.repeat(101) } }],
    ['a long answer', { status: 200, body: { id: 'mail-1', more: 'x'.repeat(100_000) } }],
    ['a lost connection', { status: 200, write: (response) => void response.destroy() }],
  ])('%s leaves the outcome unknown', async (_, answer) => {
    expect(await answering(answer)).toBeInstanceOf(OutcomeUnknown)
  })

  test('that redirects takes key and mail to no other host', async () => {
    const other = await startScriptedServer()
    try {
      for (const status of [301, 303, 307, 308])
        expect(
          await answering({ status, headers: { location: `${other.url}/emails` }, body: {} }),
        ).toMatchObject(final('mail_redirected'))
      expect(other.arrived).toEqual([])
    } finally {
      await other.close()
    }
  })
})
