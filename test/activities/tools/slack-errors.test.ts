import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { emulatorToken } from '../../support/emulators.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { rejection } from './call.ts'
import { SlackCall } from './slack-call.ts'

let scripted: ScriptedServer
let elsewhere: ScriptedServer
beforeAll(async () => {
  ;[scripted, elsewhere] = await Promise.all([startScriptedServer(), startScriptedServer()])
})
afterAll(() => Promise.all([scripted?.close(), elsewhere?.close()]))
beforeEach(() => {
  scripted.arrived.splice(0)
})

const message = (base = scripted.url, over = {}) =>
  new SlackCall('slack_send_message', { channel: 'C024BE91L', text: 'secret words' }, { base, ...over })

const unknown = { name: 'OutcomeUnknown' }
const later = (code: string, retryAfterSeconds: number | null = null) => ({
  code,
  retryable: true,
  retryAfterSeconds,
})
const final = (code: string) => ({ code, retryable: false })
const says = (error: string, headers: Record<string, string> = {}): Scripted => ({
  status: 200,
  headers,
  body: { ok: false, error },
})

/** An answer of Slack, with its meaning for a write and its meaning for a look. */
const answers: readonly (readonly [name: string, Scripted, write: object, look: object])[] = [
  ...['invalid_auth', 'not_authed', 'token_revoked', 'token_expired', 'account_inactive'].map(
    (code) => [code, says(code), final('connection_expired'), final('connection_expired')] as const,
  ),
  ['ratelimited', says('ratelimited'), later('slack_rate_limited'), later('slack_rate_limited')],
  [
    'ratelimited with a time',
    says('ratelimited', { 'retry-after': '9' }),
    later('slack_rate_limited', 9),
    later('slack_rate_limited', 9),
  ],
  [
    '429 with a time',
    { status: 429, headers: { 'retry-after': '7' } },
    later('slack_rate_limited', 7),
    later('slack_rate_limited', 7),
  ],
  ['429', { status: 429, body: '' }, later('slack_rate_limited'), later('slack_rate_limited')],
  ['request_timeout', says('request_timeout'), later('slack_unavailable'), later('slack_unavailable')],
  ['internal_error', says('internal_error'), unknown, later('slack_unavailable')],
  ['fatal_error', says('fatal_error'), unknown, later('slack_unavailable')],
  ['service_unavailable', says('service_unavailable'), unknown, later('slack_unavailable')],
  ['500', { status: 500, body: '' }, unknown, later('slack_unavailable')],
  [
    '503 with a time',
    { status: 503, headers: { 'retry-after': '5' } },
    unknown,
    later('slack_unavailable', 5),
  ],
  ['404', { status: 404, body: '' }, final('slack_refused'), final('slack_refused')],
  ['missing_scope', says('missing_scope'), final('slack_missing_scope'), final('slack_missing_scope')],
  ['restricted_action', says('restricted_action'), final('slack_forbidden'), final('slack_forbidden')],
  ['channel_not_found', says('channel_not_found'), final('slack_not_found'), final('slack_not_found')],
  ['not_in_channel', says('not_in_channel'), final('slack_not_in_channel'), final('slack_not_in_channel')],
  ['is_archived', says('is_archived'), final('slack_archived'), final('slack_archived')],
  ['msg_too_long', says('msg_too_long'), final('slack_text_refused'), final('slack_text_refused')],
  ['an unknown code', says('secret_words'), final('slack_refused'), final('slack_refused')],
  ['HTML', { status: 200, body: '<p>secret words' }, unknown, final('slack_bad_answer')],
  ['half an answer', { status: 200, body: '{"ok":' }, unknown, final('slack_bad_answer')],
  ['null', { status: 200, body: 'null' }, unknown, final('slack_bad_answer')],
  ['a text', { status: 200, body: '"ok"' }, unknown, final('slack_bad_answer')],
  [
    'other types',
    { status: 200, body: { ok: true, ts: 1, messages: 1 } },
    unknown,
    final('slack_bad_answer'),
  ],
  [
    'hostile metadata',
    { status: 200, body: { ok: true, response_metadata: { warnings: 1, messages: 1 } } },
    unknown,
    final('slack_bad_answer'),
  ],
  [
    'an answer that calls itself gzip',
    {
      status: 200,
      headers: { 'content-type': 'application/gzip' },
      body: '{"ok":false,"error":"is_archived"}',
    },
    final('slack_archived'),
    final('slack_archived'),
  ],
]

describe('an answer that is no success', () => {
  test.each(answers)('%s', async (_, answer, write, look) => {
    scripted.answer = () => answer
    for (const [error, expected] of [
      [await rejection(message().make()), write],
      [await rejection(message().find()), look],
    ]) {
      expect(error).toMatchObject(expected as object)
      expect((error as Error).message).not.toMatch(/secret.words/)
    }
    // The client repeats nothing by itself.
    expect(scripted.arrived).toHaveLength(2)
  })

  test('shows an unknown code only to people who may see parameters', async () => {
    scripted.answer = () => says('secret_words')
    expect(await rejection(message().make())).toMatchObject({ detail: { slack_error: 'secret_words' } })
    scripted.answer = () => says('is_archived')
    expect(await rejection(message().make())).toMatchObject({ detail: undefined })
  })

  test('of more than 32 MiB is not read to its end', async () => {
    scripted.answer = () => ({ status: 200, body: ' '.repeat(33 * 1024 * 1024) })
    expect(await rejection(message().make())).toMatchObject(unknown)
    expect(await rejection(message().find())).toMatchObject(final('response_too_large'))
  })
})

test('a redirect to another host is refused, and the credential does not go there', async () => {
  scripted.answer = () => ({ status: 307, headers: { location: `${elsewhere.url}/chat.postMessage` } })
  expect(await rejection(message().make())).toMatchObject(final('slack_redirected'))
  expect(elsewhere.arrived).toEqual([])
})

test('an answer that never ends is not awaited', async () => {
  const slow = createServer((_, response) => void response.writeHead(200).write('{"ok":'))
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`
  const call = message(base, { mostMilliseconds: 200 })
  expect(await rejection(call.make())).toMatchObject(unknown)
  expect(await rejection(call.find())).toMatchObject(later('slack_unavailable'))
  slow.closeAllConnections()
  await new Promise((resolve) => void slow.close(resolve))
})

test('a server that is away is tried again', async () => {
  const gone = await startScriptedServer()
  await gone.close()
  expect(await rejection(message(gone.url).make())).toMatchObject(later('slack_unreachable'))
})

test('the request carries the credential in its header alone, and is sent as Countersign', async () => {
  scripted.answer = () => says('is_archived')
  await rejection(message().make())
  const [{ headers, body, path } = { headers: {}, body: '', path: '' }] = scripted.arrived
  expect(headers).toMatchObject({ authorization: `Bearer ${emulatorToken}`, 'user-agent': 'countersign' })
  expect(path + body).not.toContain(emulatorToken)
})
