import { beforeAll, describe, expect, test } from '@jest/globals'
import { final, later, rejection } from './call.ts'
import { mail, mailCredential } from './services/mail.ts'
import { cancelInFlight, seemDead, useProxied } from './faults/proxied.ts'
import { first, once, unknown } from './faults/rows.ts'
import { type Service, useService } from './service.ts'
import { denyRule, type Engine, useEngine } from '../governance/runs/engine-fixture.ts'
import { OutcomeUnknown } from '../../src/tools/kit/executor.ts'
import { connect, revokeConnection } from '../../src/governance/connections/connections.ts'
import { resolveStep } from '../../src/calls/runs/resolve.ts'
import type { Fault } from '../support/fault-proxy.ts'
import { type Scripted, startScriptedServer } from '../support/scripted-server.ts'

describe('a mail through Resend', () => {
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
    const all = {
      ...mail,
      cc: 'Bo <bo@larkspur.example>',
      bcc: ['z@larkspur.example', 'ana@larkspur.example'],
    }
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
        later('mail_rate_limited', 2),
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
})

describe('a mail whose answer was lost', () => {
  /* A mail whose answer was lost is sent again with its key: only through Resend, and only while Resend knows the key. */

  let engine: Engine
  useEngine((started) => (engine = started))
  const proxied = useProxied(mail, () => engine)

  const refusing = (status: number, name: string): Fault => ({ status, body: JSON.stringify({ name }) })

  /** Starts a call whose answer is lost. Resend carried its request out only if `isMade`. Later requests are counted. */
  async function lost(isMade: boolean) {
    const call = await proxied.start('mail_send')
    proxied.ofWrites = () => (isMade ? 'lose answer' : 'cut')
    expect(await call.attempt()).toBe('again')
    let requests = 0
    const answer = (next: () => Fault): void => {
      proxied.ofWrites = () => {
        requests += 1
        return next()
      }
    }
    answer(() => 'pass')
    return { call, answer, requests: () => requests }
  }
  const connections = () => engine.context.db.selectFrom('connections').select(['id', 'status'])

  type Lost = Awaited<ReturnType<typeof lost>>

  describe.each([true, false])('a lost call that was carried out: %s', (isMade) => {
    const asked = unknown(isMade ? 1 : 0)

    test('is sent again and made once', async () => {
      const { call, requests } = await lost(isMade)
      expect(await call.attempt()).toBe('over')
      expect([await call.ended(), requests()]).toEqual([once, 1])
    })

    test.each<[string, (given: Lost) => Promise<unknown>]>([
      [
        'if it would go through another connection',
        () => {
          const credential = mailCredential(proxied.url)
          const asking = { tool: 'mail_send', credential, scope: 'organization', name: undefined } as const
          return connect(engine.context, engine.caller('admin'), asking, new AbortController().signal)
        },
      ],
      [
        'if the connection was revoked, and does not go over SMTP',
        async () => {
          const { id } = await connections().executeTakeFirstOrThrow()
          return revokeConnection(engine.context, engine.caller('admin'), id)
        },
      ],
      [
        'after the time in which Resend knows the key',
        async ({ call }) => {
          for (let tenth = 0; tenth < 10; tenth += 1) await call.later()
        },
      ],
      ['if a rule denies it now', () => engine.rules(denyRule())],
      ['if its run is cancelled before it is sent again', ({ call }) => call.endCancelled()],
    ])('asks a person %s', async (what, change) => {
      const given = await lost(isMade)
      await change(given)
      const end = await given.call.attempt()
      if (!what.includes('cancelled')) expect(end).toBe('over')
      expect([await given.call.ended(), given.requests()]).toEqual([asked, 0])
    })

    test('counts the time from its first request', async () => {
      const { call, answer, requests } = await lost(isMade)
      answer(() => 'cut')
      for (let tenth = 0; tenth < 9; tenth += 1) {
        await call.later()
        expect(await call.attempt()).toBe('again')
      }
      await call.later()
      expect(await call.attempt()).toBe('over')
      expect([await call.ended(), requests()]).toEqual([asked, 9])
    })

    test.each([
      ['the key was deleted', refusing(403, 'invalid_api_key')],
      ['the domain lost its proof', refusing(403, 'validation_error')],
      ['the key belongs to another mail', refusing(409, 'invalid_idempotent_request')],
      ['another host is named', { status: 307, headers: { location: 'http://127.0.0.1:9/' } }],
    ] as const)('asks a person if %s', async (_, fault) => {
      const { call, answer } = await lost(isMade)
      answer(() => fault)
      expect(await call.attempt()).toBe('over')
      expect(await call.ended()).toEqual(asked)
    })

    test('waits while Resend works on the first request', async () => {
      const { call, answer } = await lost(isMade)
      answer(first(refusing(409, 'concurrent_idempotent_requests')))
      expect(await call.attempt()).toBe('again')
      expect(await call.attempt()).toBe('over')
      expect([call.pauses, await call.ended()]).toEqual([[1_000, 15_000], once])
    })

    test('waits as long as Resend asks', async () => {
      const { call, answer } = await lost(isMade)
      answer(first({ status: 429, headers: { 'retry-after': '40' } }))
      expect(await call.attempt()).toBe('again')
      expect(await call.attempt()).toBe('over')
      expect([call.pauses, await call.ended()]).toEqual([[1_000, 40_000], once])
    })

    test('of a dead worker is made once, also if the worker was only slow', async () => {
      const call = await proxied.start('mail_send')
      const goOn = await seemDead(proxied, call, 'mail_send', isMade ? 'pass' : 'cut')
      await call.untilOver()
      expect(await call.ended()).toEqual(once)
      await goOn()
      expect(await call.ended()).toEqual(once)
    })
  })

  test('a person’s retry makes no second mail while Resend knows the key', async () => {
    const { call, requests } = await lost(true)
    await engine.rules(denyRule())
    await call.attempt()
    await engine.rules()
    const { runId } = call
    const asking = { caller: engine.caller('admin'), runId, stepId: 's', items: null } as const
    await resolveStep(engine.context, { ...asking, outcome: 'retry' })
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([once, 1])
  })

  test('a mail that Resend refuses for its content has failed, although the first answer was lost', async () => {
    const { call, answer } = await lost(false)
    answer(() => refusing(422, 'missing_required_field'))
    await call.untilOver()
    expect(await call.ended()).toEqual({ state: 'failed', made: 0, error: 'mail_refused' })
  })

  test.each([
    ['answered', 'pass', once],
    ['carried out, and the answer is lost', 'lose answer', unknown(1)],
    ['lost', 'cut', unknown(0)],
  ] as const)('a call that is cancelled while its request is %s', async (_, fault, expected) => {
    const call = await proxied.start('mail_send')
    expect(await cancelInFlight(proxied, call, fault)).toBe('over')
    expect(await call.ended()).toEqual(expected)
  })
})
