import { describe, expect, test } from '@jest/globals'
import { connect, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { resolveStep } from '../../../src/governance/runs/effects/resolve.ts'
import { denyRule, useEngine, type Engine } from '../../governance/runs/engine-fixture.ts'
import type { Fault } from '../../support/fault-proxy.ts'
import { bodies } from './faults/call.ts'
import { mail, mailCredential } from './faults/mail.ts'
import { useProxied } from './faults/proxied.ts'
import { first, once, unknown } from './faults/rows.ts'

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

describe.each([true, false])('a lost call that was carried out: %s', (isMade) => {
  const asked = unknown(isMade ? 1 : 0)

  test('is sent again and made once', async () => {
    const { call, requests } = await lost(isMade)
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([once, 1])
  })

  test('asks a person if it would go through another connection', async () => {
    const { call, requests } = await lost(isMade)
    const credential = mailCredential(proxied.url)
    const asking = { tool: 'mail_send', credential, scope: 'organization', name: undefined } as const
    await connect(engine.context, engine.caller('admin'), asking, new AbortController().signal)
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([asked, 0])
  })

  test('asks a person if the connection was revoked, and does not go over SMTP', async () => {
    const { call, requests } = await lost(isMade)
    const { id } = await connections().executeTakeFirstOrThrow()
    await revokeConnection(engine.context, engine.caller('admin'), id)
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([asked, 0])
  })

  test('asks a person after the time in which Resend knows the key', async () => {
    const { call, requests } = await lost(isMade)
    for (let tenth = 0; tenth < 10; tenth += 1) await call.later()
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([asked, 0])
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

  test('asks a person if a rule denies it now', async () => {
    const { call, requests } = await lost(isMade)
    await engine.rules(denyRule())
    expect(await call.attempt()).toBe('over')
    expect([await call.ended(), requests()]).toEqual([asked, 0])
  })

  test('asks a person if its run is cancelled before it is sent again', async () => {
    const { call, requests } = await lost(isMade)
    await call.endCancelled()
    await call.attempt()
    expect([await call.ended(), requests()]).toEqual([asked, 0])
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
    const dead = Promise.withResolvers<void>()
    const sent = Promise.withResolvers<void>()
    proxied.ofWrites = () => (isMade ? 'pass' : 'cut')
    const stuck = call.attempt(async (decided) => {
      try {
        return await bodies['mail_send']!(decided)
      } finally {
        sent.resolve()
        await dead.promise
      }
    })
    await sent.promise
    proxied.ofWrites = () => 'pass'
    await call.untilOver()
    expect(await call.ended()).toEqual(once)
    dead.resolve()
    await stuck
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
  const arrived = Promise.withResolvers<void>()
  const cancelled = Promise.withResolvers<Fault>()
  proxied.ofWrites = () => {
    arrived.resolve()
    return cancelled.promise
  }
  const attempt = call.attempt()
  await arrived.promise
  call.cancel()
  cancelled.resolve(fault)
  expect(await attempt).toBe('over')
  expect(await call.ended()).toEqual(expected)
})
