import { createHmac } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { Webhook } from 'standardwebhooks'
import { until } from '../../stack/until.ts'
import { codeOf, placesOf, useServer } from '../use-server.ts'
import type { Answer, TestServer } from '../server.ts'

/* Triggers over HTTP: their routes, and the messages that reach webhooks. */

let server: TestServer
const { as, ours } = useServer((started) => (server = started))
let workflow: string
let account: string
const definition = {
  inputs: { text: { type: 'string' } },
  steps: [{ id: 's', tool: 'memory_set', params: { key: 'k', value: '{{input.text}}' } }],
  result: { text: '{{input.text}}' },
}
beforeAll(async () => {
  await ours('owner', 'PATCH', '/governance', { approval_required_from: null })
  account = (await ours('owner', 'POST', '/service-accounts', { name: 'hooks', role: 'member' })).body.id
})
beforeEach(async () => {
  workflow = (await as('member', 'POST', '/workflows', { name: 'w', definition })).body.id
})

const base = () => ({ name: 't', service_account: account, version: 'latest' })
const make = (over: object, who: 'admin' | 'owner' | 'member' = 'admin') =>
  as(who, 'POST', `/workflows/${workflow}/triggers`, { ...base(), ...over })
const hook = async (webhook: object, over: object = {}, who: 'admin' | 'owner' = 'admin') => {
  const made = await make({ webhook, inputs: { text: '{{ body.text }}' }, ...over }, who)
  expect([made.status, made.body.error]).toEqual([201, undefined])
  return made.body
}
const at = ({ id }: { id: string }, more = '') => `/workflows/${workflow}/triggers/${id}${more}`
const send = async (to: { id: string }, body: string, headers: Record<string, string>, query = '') => {
  const response = await fetch(`${server.base}/api/v1/deliveries/${to.id}${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
  return { status: response.status, body: await response.json().catch(() => null) } as Pick<
    Answer,
    'status' | 'body'
  >
}
const json = JSON.stringify({ text: 'hello' })
const hmac = (secret: string, text: string) => createHmac('sha256', secret).update(text).digest('hex')
const seconds = (ago = 0) => Math.floor(Date.now() / 1_000) - ago

const standard = (secret: string, body: string, id = 'msg_1', ago = 0) => {
  const when = new Date(seconds(ago) * 1_000)
  return {
    'webhook-id': id,
    'webhook-timestamp': String(seconds(ago)),
    'webhook-signature': `v1,AAAA ${new Webhook(secret).sign(id, when, body)}`,
  }
}
const slack = (secret: string, body: string, ago = 0) => ({
  'x-slack-request-timestamp': String(seconds(ago)),
  'x-slack-signature': `v0=${hmac(secret, `v0:${seconds(ago)}:${body}`)}`,
})
const github = (secret: string, body: string, event = 'issues') => ({
  'x-github-event': event,
  'x-github-delivery': String(Math.random()),
  'x-hub-signature-256': `sha256=${hmac(secret, body)}`,
})
const inputsOf = async (runId: string) => (await as('admin', 'GET', `/runs/${runId}`)).body
const firingsOf = async (of: { id: string }) => (await as('admin', 'GET', at(of, '/firings'))).body.data

describe('a message that proves its sender starts a run, and its redelivery gets the same run', () => {
  test.each([
    ['standard', undefined, (secret: string, body: string) => standard(secret, body)],
    ['github', undefined, (secret: string, body: string) => github(secret, body)],
    ['slack', 'slacks-signing-secret', (secret: string, body: string) => slack(secret, body)],
    [
      'bearer',
      undefined,
      (secret: string) => ({ authorization: `Bearer ${secret}`, 'idempotency-key': 'a' }),
    ],
  ])('%s', async (verify, given, headersFor) => {
    const made = await hook({ verify }, given === undefined ? {} : { secret: given })
    const secret = given ?? made.secret
    expect([made.secret === null, made.webhook.url]).toEqual([
      given !== undefined,
      expect.stringContaining(made.id),
    ])
    const body = verify === 'slack' ? JSON.stringify({ text: 'hello', event_id: 'Ev1' }) : json
    const first = await send(made, body, headersFor(secret, body))
    const [{ run_id: runId }] = await firingsOf(made)
    expect(runId).toMatch(/^run_/)
    // Slack shows people every answer but this.
    const silent = { status: 200, body: null }
    expect(first).toEqual(verify === 'slack' ? silent : { status: 202, body: { run_id: runId } })
    const both = await Promise.all([
      send(made, body, headersFor(secret, body)),
      send(made, body, headersFor(secret, body)),
    ])
    expect(both).toEqual([first, first])
    expect(await inputsOf(runId)).toMatchObject({
      requested_by: account,
      inputs: { text: 'hello' },
    })
    expect(await firingsOf(made)).toMatchObject([{ state: 'started', run_id: runId }])
    const wrong = await send(made, body.replace('hello', 'other'), {
      ...headersFor(secret, body),
      ...(verify === 'bearer' ? { authorization: 'Bearer wrong' } : {}),
    })
    expect(codeOf(wrong as Answer)).toBe('401 unauthenticated')
    expect(
      (await server.context.db.selectFrom('runs').select('id').where('workflow_id', '=', workflow).execute())
        .length,
    ).toBe(1)
  })

  test('the same message at the same time, in two processes or one, is one run', async () => {
    const made = await hook({ verify: 'standard' })
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => send(made, json, standard(made.secret, json))),
    )
    expect(new Set(answers.map(({ body }) => body.run_id)).size).toBe(1)
    expect(await firingsOf(made)).toHaveLength(1)
  })

  test('an old signature is refused', async () => {
    const made = await hook({ verify: 'standard' })
    expect((await send(made, json, standard(made.secret, json, 'a', 301))).status).toBe(401)
    expect((await send(made, json, standard(made.secret, json, 'a', 290))).status).toBe(202)
    const other = await hook({ verify: 'slack' }, { secret: 'slacks-signing-secret' })
    expect((await send(other, json, slack('slacks-signing-secret', json, 301))).status).toBe(401)
  })
})

test('the handshakes of Slack and GitHub are answered, if they are signed', async () => {
  const ofSlack = await hook({ verify: 'slack' }, { secret: 'slacks-signing-secret' })
  const challenge = JSON.stringify({ type: 'url_verification', challenge: 'c-1', token: 'x' })
  expect(await send(ofSlack, challenge, slack('slacks-signing-secret', challenge))).toEqual({
    status: 200,
    body: { challenge: 'c-1' },
  })
  expect((await send(ofSlack, challenge, slack('another-signing-secret', challenge))).status).toBe(401)
  const ofGithub = await hook({ verify: 'github' })
  const ping = JSON.stringify({ zen: 'x', hook_id: 1 })
  expect(await send(ofGithub, ping, github(ofGithub.secret, ping, 'ping'))).toEqual({
    status: 200,
    body: { pong: true },
  })
  expect([await firingsOf(ofSlack), await firingsOf(ofGithub)]).toEqual([[], []])
})

test('forms, headers and the query are inputs too, and headers that prove are not', async () => {
  const inputs = {
    text: '{{ body.command + " " + body.text + " " + query.team + " " + headers["x-kind"] + " " + (headers.authorization ?? "none") }}',
  }
  const made = await hook({ verify: 'bearer' }, { inputs })
  const form = {
    'content-type': 'application/x-www-form-urlencoded',
    authorization: `Bearer ${made.secret}`,
    'x-kind': 'k',
  }
  const { status, body } = await send(made, 'command=%2Fask&text=a+b', form, '?team=7')
  expect([status, await firingsOf(made)]).toEqual([202, [expect.objectContaining({ reason: null })]])
  expect((await inputsOf(body.run_id)).inputs).toEqual({ text: '/ask a b 7 k none' })
})

test('a message cannot choose the output of a run as its input', async () => {
  const made = await hook({ verify: 'bearer' })
  const headers = { authorization: `Bearer ${made.secret}` }
  const refused = await send(made, JSON.stringify({ text: { from_run: 'run_1', step: 's' } }), headers)
  expect(codeOf(refused as Answer)).toBe('409 conflict')
  expect(await firingsOf(made)).toMatchObject([
    { state: 'failed', reason: expect.stringContaining('from_run') },
  ])
  expect(
    codeOf(await make({ webhook: { verify: 'bearer' }, inputs: { text: { from_run: 'run_1', step: 's' } } })),
  ).toBe('422 validation_error')
})

test('with `answer`, the sender gets the result if the run ends in time', async () => {
  const made = await hook({ verify: 'bearer', answer: 'result' }, {}, 'owner')
  const sent = send(made, json, { authorization: `Bearer ${made.secret}` })
  await until('the run is there', async () => (await firingsOf(made)).length === 1)
  const [{ run_id: runId }] = await firingsOf(made)
  await server.context.pool.query(
    `update runs set status = 'cancelled', finished_at = now(), slot = null where id = $1`,
    [runId],
  )
  await server.context.pool.query(`select pg_notify('countersign', '')`)
  expect(await sent).toEqual({ status: 202, body: { run_id: runId } })
})

test('what is too large, of another type or too often is refused', async () => {
  const made = await hook({ verify: 'bearer' })
  const headers = { authorization: `Bearer ${made.secret}` }
  expect((await send(made, 'a'.repeat(1024 ** 2 + 1), headers)).status).toBe(413)
  expect((await send(made, json, { ...headers, 'content-type': 'text/plain' })).status).toBe(415)
  expect((await send({ id: 'trg_unknown' }, json, headers)).status).toBe(404)
  await server.context.pool.query(
    `insert into request_windows values ($1, 'deliveries_per_minute', date_trunc('minute', now()), 600)
     on conflict (organization_id, bucket) do update set taken = 600, started_at = excluded.started_at`,
    [made.id],
  )
  const other = await hook({ verify: 'bearer' })
  await server.context.pool.query(
    `insert into request_windows values ($1, 'deliveries_per_minute', date_trunc('minute', now()), 600),
       ($1 || 'x', 'deliveries_per_minute', now(), 1)`,
    [other.id],
  )
  const late = await send(other, json, { authorization: `Bearer ${other.secret}` })
  expect(codeOf(late as Answer)).toBe('429 rate_limited')
})

test('ten messages in a row that start nothing pause it; resumed, it takes messages again', async () => {
  const made = await hook({ verify: 'bearer' }, { inputs: { text: '{{ body.missing.deep }}' } })
  const headers = { authorization: `Bearer ${made.secret}` }
  for (let count = 0; count < 10; count += 1)
    expect((await send(made, '{"missing": {}}', headers)).status).toBe(409)
  expect((await as('admin', 'GET', at(made))).body.paused).toBe(false)
  await send(made, '{"missing": {"deep": "x"}}', headers)
  expect((await as('admin', 'GET', at(made))).body).toMatchObject({
    paused: true,
    paused_reason: expect.stringContaining('10'),
  })
  expect((await as('admin', 'PATCH', at(made), { paused: false })).body.paused).toBe(false)
  expect((await send(made, '{"missing": {"deep": "x"}}', headers)).status).toBe(202)
})

describe('who may do what', () => {
  test('admins make triggers, members read them, and only an owner calls inputs harmless or answers with results', async () => {
    const schedule = { every_seconds: 3600 }
    expect(codeOf(await make({ schedule }, 'member'))).toBe('403 insufficient_role')
    expect(codeOf(await make({ schedule, untrusted: false }))).toBe('403 insufficient_role')
    expect(codeOf(await make({ webhook: { verify: 'bearer', answer: 'result' } }))).toBe(
      '403 insufficient_role',
    )
    const { body: trusted } = await make({ schedule, untrusted: false }, 'owner')
    expect(codeOf(await as('admin', 'PATCH', at(trusted), { inputs: { text: 'x' } }))).toBe(
      '403 insufficient_role',
    )
    expect((await as('admin', 'PATCH', at(trusted), { paused: true })).body.armed_by).toHaveLength(1)
    expect((await as('owner', 'PATCH', at(trusted), { untrusted: true })).status).toBe(200)
    const { body: changed } = await as('admin', 'PATCH', at(trusted), { inputs: { text: 'x' } })
    expect(changed.armed_by).toHaveLength(2)
    expect((await as('member', 'GET', at(trusted))).body.inputs).toEqual({ text: 'x' })
    expect(
      (await as('member', 'GET', '/triggers')).body.data.map((each: { id: string }) => each.id),
    ).toContain(trusted.id)
  })

  test.each([
    ['schedule.cron', { schedule: { cron: '* * * * * *' } }],
    ['schedule.time_zone', { schedule: { cron: '* * * * *', time_zone: 'Nowhere/Land' } }],
    ['schedule', { schedule: {} }],
    ['schedule.overlap', { schedule: { every_seconds: 60, catch_up: 'all' } }],
    ['service_account', { schedule: { every_seconds: 60 }, service_account: 'usr_1' }],
    ['inputs.other', { schedule: { every_seconds: 60 }, inputs: { other: 'x' } }],
    ['inputs.text', { schedule: { every_seconds: 60 }, inputs: { text: '{{ body.x }}' } }],
    ['secret', { webhook: { verify: 'standard' }, secret: 'not a standard secret' }],
    ['secret', { webhook: { verify: 'slack' } }],
    ['secret', { schedule: { every_seconds: 60 }, secret: 'a-secret-of-someone' }],
  ])('422 at `%s`', async (path, over) => {
    const refused = await make(over)
    expect([refused.status, placesOf(refused)]).toEqual([422, [path]])
  })

  test.each([
    [{ schedule: {} }, /^give `cron` or `every_seconds`$/],
    [{ schedule: { cron: '* * * * *', every_seconds: 60 } }, /not both$/],
    [
      { schedule: { every_seconds: 60 }, inputs: { text: '{{ body.title }}' } },
      /reads `due_at`: `body.title` is not a value \(/,
    ],
    [
      { schedule: { every_seconds: 60 }, service_account: 'usr_1' },
      /at `\/console\/people#service-accounts`$/,
    ],
  ])('422 for %j says what to change', async (over, words) => {
    const refused = await make(over)
    expect(refused.body.error?.details[0]?.message).toMatch(words)
  })

  test('a pinned version stays, and `latest` follows the workflow', async () => {
    const schedule = { every_seconds: 3600 }
    const other = await make({ schedule, version: 7 })
    expect([codeOf(other), placesOf(other)]).toEqual(['422 validation_error', ['version']])
    const { body: pinned } = await make({ schedule, version: 1 })
    const tried = await as('admin', 'POST', at(pinned, '/test'), {})
    expect(tried.body).toMatchObject({ executable: true, inputs: {} })
    expect(tried.body.next_due_at).toHaveLength(5)
  })
})

test('a test shows the inputs that a message would give, and starts nothing', async () => {
  const made = await hook({ verify: 'github' }, { inputs: { text: '{{ body.issue.title }}' } })
  const tried = await as('admin', 'POST', at(made, '/test'), { body: { issue: { title: 'A bug' } } })
  expect(tried.body).toMatchObject({ inputs: { text: 'A bug' }, executable: true, next_due_at: [] })
  expect(codeOf(await as('admin', 'POST', at(made, '/test'), { body: { issue: {} } }))).toBe(
    '422 validation_error',
  )
  expect(await firingsOf(made)).toEqual([])
})

test('a run names the trigger that has started it, as long as this is there', async () => {
  const made = await hook({ verify: 'bearer' })
  const { body } = await send(made, json, { authorization: `Bearer ${made.secret}` })
  const own = await as('member', 'POST', `/workflows/${workflow}/execute?wait=0`, {})
  await as('admin', 'PATCH', at(made), { name: 'bugs' })
  const triggers = async () => {
    const { data } = (await as('viewer', 'GET', `/runs?workflow_id=${workflow}`)).body
    return data.map(({ id, trigger }: { id: string; trigger: unknown }) => [id, trigger])
  }
  const trigger = { id: made.id, workflow_id: workflow, name: 'bugs' }
  expect(await triggers()).toEqual([
    [own.body.execution_id, null],
    [body.run_id, trigger],
  ])
  expect((await inputsOf(body.run_id)).trigger).toEqual(trigger)
  await as('admin', 'DELETE', at(made))
  expect((await inputsOf(body.run_id)).trigger).toBeNull()
})

test('a new secret ends the old one, and a deleted trigger takes nothing', async () => {
  const made = await hook({ verify: 'bearer' })
  const { body: changed } = await as('admin', 'PATCH', at(made), { new_secret: true })
  expect(changed.secret).toMatch(/^\S{40,}$/)
  expect((await send(made, json, { authorization: `Bearer ${made.secret}` })).status).toBe(401)
  expect((await send(made, json, { authorization: `Bearer ${changed.secret}` })).status).toBe(202)
  expect((await as('admin', 'DELETE', at(made))).status).toBe(204)
  expect((await send(made, json, { authorization: `Bearer ${changed.secret}` })).status).toBe(404)
})
