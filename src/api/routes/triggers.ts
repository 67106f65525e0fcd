import { sql } from 'kysely'
import type { Request } from 'express'
import { z } from 'zod'
import { callerOf } from '../../governance/triggers/firings.ts'
import { deliver, findWebhook, type Delivered, type WebhookRow } from '../../governance/triggers/deliver.ts'
import type { Message } from '../../governance/triggers/signatures.ts'
import {
  changeTrigger,
  createTrigger,
  deleteTrigger,
  listFirings,
  listTriggers,
  readTrigger,
} from '../../governance/triggers/triggers.ts'
import type { TriggerChange, TriggerInput } from '../../governance/triggers/settings.ts'
import { tryTrigger } from '../../governance/triggers/try-trigger.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { createEntry, type Entry } from '../../governance/limits/shares.ts'
import type { Context } from '../../governance/context.ts'
import { nameField } from '../../policy/text.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { arrived } from '../body-bytes.ts'
import { goneSignal } from '../dispatch.ts'
import { ApiError } from '../errors.ts'
import { requestIdOf } from '../http-server.ts'
import { parseJson, smallBody } from '../json-body.ts'
import { readQuery } from '../query.ts'
import { accepted, created, done, ok, tagged, type Answer } from '../route.ts'
import {
  anyJson,
  called,
  id,
  listOf,
  listQuery,
  listQueryOfPath,
  named,
  pageIn,
  time,
  verdict,
} from '../schemas/common.ts'
import type { Inner } from '../subjects.ts'
import { waitForRun } from '../wait.ts'
import { runOf } from './runs.ts'

const { route, publicRoute } = tagged('Triggers')

const version = z
  .union([z.int().min(1).max(1_000_000_000), z.literal('latest')])
  .describe('a frozen version, or `latest`: the one that is current at each firing')
const inputs = z
  .record(z.string(), anyJson)
  .describe(
    'expressions read `due_at` of a schedule, `body`, `headers` and `query` of a webhook, and `item` and `output` of a poll',
  )
const untrusted = z
  .boolean()
  .describe('the inputs of its runs carry the label `untrusted`; only an owner sets false')

const scheduleShape = {
  cron: z
    .string()
    .max(100)
    .nullable()
    .describe('minute, hour, day of the month, month and day of the week, in the time zone'),
  every_seconds: z.int().min(10).max(2_678_400).nullable(),
  time_zone: z.string().max(100),
  catch_up: z
    .enum(['none', 'last', 'all'])
    .describe('which due times fire late, if no worker was there: none, the last one, or the last 100'),
  overlap: z
    .enum(['skip', 'queue', 'allow'])
    .describe('if the run of an earlier due time has not ended: skip this one, wait, or start it'),
}
const scheduleBody = named('ScheduleRequest', {
  ...scheduleShape,
  cron: scheduleShape.cron.default(null),
  every_seconds: scheduleShape.every_seconds.default(null),
  time_zone: scheduleShape.time_zone.default('UTC'),
  catch_up: scheduleShape.catch_up.default('last'),
  overlap: scheduleShape.overlap.default('skip'),
})
const verify = z
  .enum(['standard', 'github', 'slack', 'bearer'])
  .describe(
    'how messages prove their sender: Standard Webhooks, the signatures of GitHub or Slack, or a bearer token',
  )
const answer = z
  .enum(['accepted', 'result'])
  .describe('`result`: the sender gets the `result` of the run if it ends within 25 s; only an owner sets it')
const incomingBody = named('IncomingWebhookRequest', { verify, answer: answer.default('accepted') })
const expression = (most: number) => z.string().min(1).max(most)
const pollShape = {
  tool: z.string().max(100).describe('a tool that reads'),
  params: z.record(z.string(), anyJson).describe('as in the step of a workflow'),
  every_seconds: z.int().min(10).max(2_678_400),
  list: expression(2_000).describe('an expression over `output`, for the list of items'),
  id: expression(1_000).describe(
    'an expression over `item` and `output`: a text or number by which an item is known',
  ),
  order: expression(1_000)
    .nullable()
    .describe('an expression over `item` and `output`: items with a smaller number or text start first'),
  first: z
    .enum(['skip', 'all'])
    .describe('what becomes of the items that the first call finds: no run, or a run for each'),
}
const pollBody = named('PollRequest', {
  ...pollShape,
  params: pollShape.params.default({}),
  order: pollShape.order.default(null),
  first: pollShape.first.default('skip'),
})
const secret = z.string().min(16).max(500).describe('of the sender; default: the service makes one')

export const triggerBody = z
  .strictObject({
    name: nameField(100),
    service_account: id.max(100).describe('its runs act for it; its role must be `member`'),
    version,
    inputs: inputs.default({}),
    untrusted: untrusted.default(true),
    schedule: scheduleBody.optional(),
    webhook: incomingBody.optional(),
    poll: pollBody.optional(),
    secret: secret.optional(),
  })
  .refine(({ schedule, webhook, poll }) => [schedule, webhook, poll].filter(Boolean).length === 1, {
    path: ['schedule'],
    error: 'give one of `schedule`, `webhook` and `poll`',
  })
  .refine(({ webhook, secret: given }) => given === undefined || webhook !== undefined, {
    path: ['secret'],
    error: 'only a webhook has a secret: leave it out',
  })
  .meta({ id: 'TriggerRequest' })

export const triggerChanges = named('TriggerChanges', {
  name: nameField(100).optional(),
  service_account: id.max(100).optional(),
  version: version.optional(),
  inputs: inputs.optional(),
  untrusted: untrusted.optional(),
  schedule: scheduleBody.optional().describe('replaces the whole schedule'),
  webhook: incomingBody.optional(),
  poll: pollBody.optional().describe('replaces the whole poll, which begins anew'),
  secret: secret.optional(),
  new_secret: z
    .literal(true, 'must be `true`')
    .optional()
    .describe('makes a new secret; the old one ends at once'),
  paused: z.boolean().optional().describe('a trigger that is resumed makes up for nothing'),
})

const shownSchedule = called('Schedule', z.strictObject({ ...scheduleShape, next_due_at: time }))
const shownWebhook = called('IncomingWebhook', z.strictObject({ verify, answer, url: z.string() }))

const shownPoll = called(
  'Poll',
  z.strictObject({
    ...pollShape,
    next_due_at: time,
    polled_at: time.nullable().describe('when the output of a call was last taken'),
    workflow_id: id.describe('its calls are runs of this workflow, which are in no other list'),
  }),
)

const triggerShape = {
  id,
  organization_id: id,
  workflow_id: id,
  name: z.string(),
  kind: z.enum(['schedule', 'webhook', 'poll']),
  version,
  service_account: id,
  untrusted,
  inputs,
  schedule: shownSchedule.nullable(),
  webhook: shownWebhook.nullable(),
  poll: shownPoll.nullable(),
  paused: z.boolean(),
  paused_reason: z.string().nullable(),
  armed_by: z.array(id).describe('everybody who made, changed or resumed it: no second person for its runs'),
  created_by: id,
  created_at: time,
  updated_at: time,
}
const trigger = named('Trigger', triggerShape)
const newTrigger = named('NewTrigger', {
  ...triggerShape,
  secret: z.string().nullable().describe('shown once, if the service has just made it'),
})
const firing = named('TriggerFiring', {
  id,
  trigger_id: id,
  state: z.enum(['waiting', 'started', 'skipped', 'failed']),
  due_at: time.nullable(),
  run_id: id.nullable(),
  reason: z.string().nullable().describe('why it started no run'),
  poll_run_id: id.nullable().describe('the call of a poll that found the item, or failed'),
  created_at: time,
})

export const tryBody = named('TriggerTestRequest', {
  body: anyJson.optional(),
  headers: z.record(z.string(), z.string()).default({}),
  query: z.record(z.string(), anyJson).default({}),
  output: anyJson.optional().describe('of the tool of a poll'),
})
const tried = named('TriggerTest', {
  inputs: z.record(z.string(), anyJson),
  verdict,
  executable: z.boolean(),
  not_executable_because: z.string().nullable(),
  next_due_at: z.array(time),
  items: z.int().nullable().describe('of `output`; the inputs are those of the first one'),
  call: z
    .strictObject({ verdict, executable: z.boolean(), not_executable_because: z.string().nullable() })
    .nullable()
    .describe('what the rules say about the call of a poll'),
})

const reads = { scope: 'workflows:read', role: 'member' } as const
const writes = { scope: 'workflows:write', role: 'admin' } as const
const all = '/workflows/{id}/triggers' as const
const one = '/workflows/{id}/triggers/{trigger}' as const
const oneTrigger: Inner = {
  word: 'trigger',
  param: 'trigger',
  exists: ({ params }) => sql`exists (select from triggers
    where id = ${params['trigger']} and organization_id = s.organization_id and workflow_id = ${params['id']})`,
}

export const triggerRoutes = [
  route({
    key: `POST ${all}`,
    needs: { ...writes, subject: 'workflow' },
    audit: ['trigger.created'],
    summary: 'Make a trigger: a schedule, a webhook or a poll that starts runs for a service account',
    body: triggerBody,
    responses: { 201: newTrigger },
    handle: async ({ context, caller, params, body, once }) =>
      created(
        await actOnce(once, () => createTrigger(context, caller, params.id, body as TriggerInput, once)),
      ),
  }),
  route({
    key: `GET ${all}`,
    needs: { ...reads, subject: 'workflow' },
    summary: 'The triggers of a workflow, newest first',
    query: listQueryOfPath,
    responses: { 200: listOf(trigger) },
    handle: async ({ context, caller, params, query }) =>
      ok(await listTriggers(context, caller.organizationId, params.id, pageIn(query))),
  }),
  route({
    key: 'GET /triggers',
    needs: { ...reads, subject: 'own' },
    summary: 'All triggers of the organization, newest first',
    query: listQuery,
    responses: { 200: listOf(trigger) },
    handle: async ({ context, caller, query }) =>
      ok(await listTriggers(context, caller.organizationId, null, pageIn(query))),
  }),
  route({
    key: `GET ${one}`,
    needs: { ...reads, subject: 'workflow' },
    inner: [oneTrigger],
    summary: 'One trigger, without its secret',
    responses: { 200: trigger },
    handle: async ({ context, caller, params }) =>
      ok(await readTrigger(context, caller.organizationId, params.trigger)),
  }),
  route({
    key: `PATCH ${one}`,
    needs: { ...writes, subject: 'workflow' },
    inner: [oneTrigger],
    audit: ['trigger.updated'],
    summary: 'Change, pause or resume a trigger',
    body: triggerChanges,
    responses: { 200: newTrigger },
    handle: async ({ context, caller, params, body }) =>
      ok(await changeTrigger(context, caller, params.trigger, body as TriggerChange)),
  }),
  route({
    key: `DELETE ${one}`,
    needs: { ...writes, subject: 'workflow' },
    inner: [oneTrigger],
    audit: ['trigger.deleted'],
    summary: 'Delete a trigger; its runs go on',
    responses: { 204: null },
    handle: ({ context, caller, params }) => done(deleteTrigger(context, caller, params.trigger)),
  }),
  route({
    key: `POST ${one}/test`,
    needs: { ...writes, subject: 'workflow' },
    inner: [oneTrigger],
    asks: true,
    summary: 'Ask what a firing would start, without starting it',
    body: tryBody,
    responses: { 200: tried },
    async handle({ context, caller, params, body: { body = null, headers, query, output } }) {
      const message = { body, headers, query } as JsonObject
      return ok(
        await tryTrigger(context, caller.organizationId, params.trigger, {
          message,
          output: output as Json | undefined,
        }),
      )
    },
  }),
  route({
    key: `GET ${one}/firings`,
    needs: { ...reads, subject: 'workflow' },
    inner: [oneTrigger],
    summary: 'What a trigger has started, skipped and failed to start, newest first',
    query: listQueryOfPath,
    responses: { 200: listOf(firing) },
    handle: async ({ context, params, query }) =>
      ok(await listFirings(context.db, params.trigger, pageIn(query))),
  }),
  publicRoute({
    key: 'POST /deliveries/{trigger}',
    summary: 'The address of a webhook: a message that proves its sender starts a run',
    description:
      'JSON or a form of at most 1 MiB. 202 with the run; 200 with its `result` if the trigger answers so, and for the handshakes of Slack and GitHub; 200 without a body for other messages of Slack. A redelivery gets the same run.',
    query: z.looseObject({}),
    responses: { 200: anyJson, 202: named('AcceptedDelivery', { run_id: id }) },
    async open(context, services, request, response) {
      const row = await findWebhook(context.db, String(request.params['trigger']).replaceAll('\u0000', ''))
      const entry = createEntry(context.shares, row.organization_id)
      try {
        const delivered = await receive(context, row, request, entry, requestIdOf(response))
        entry.leave()
        return await answerTo(context, row, delivered, goneSignal(response, services))
      } finally {
        entry.leave()
      }
    },
  }),
]

const mostBytes = 1024 ** 2

async function receive(
  context: Context,
  row: WebhookRow,
  request: Request,
  entry: Entry,
  requestId: string,
): Promise<Delivered> {
  const tooLarge = () => new ApiError('too_large', `a message has at most ${mostBytes} bytes: send less`)
  const collected = await arrived(
    request,
    (worked, bytes) => entry.admit(bytes > smallBody ? 'large' : 'small', worked),
    { bytes: mostBytes, tooLarge },
  )
  const message: Message = {
    raw: collected.whole(),
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(', ') : (value ?? ''),
      ]),
    ),
    query: { ...readQuery(request).query },
  }
  return deliver(context, row, message, () => bodyOf(message), requestId)
}

function bodyOf({ raw, headers }: Message): Json {
  const [type = ''] = (headers['content-type'] ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (type === 'application/x-www-form-urlencoded') {
    const text = raw.toString('utf8')
    if (text.split('&', mostFields + 1).length <= mostFields) return fieldsOf(new URLSearchParams(text))
    throw new ApiError('bad_request', `a form has at most ${mostFields} fields`)
  }
  if (raw.length === 0) return null
  if (type === 'application/json' || type.endsWith('+json')) return parseJson(raw) as Json
  throw new ApiError('unsupported_media_type', 'send the message as `application/json` or as a form')
}

const mostFields = 1_000

/** A name that stands there several times has a list. */
function fieldsOf(params: URLSearchParams): JsonObject {
  const found = new Map<string, Json>()
  for (const [name, value] of params) {
    const before = found.get(name)
    found.set(name, before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value])
  }
  return Object.fromEntries(found)
}

/** Senders give up soon: GitHub after 10 s, others after 30 s. */
const answerSeconds = 25

async function answerTo(
  context: Context,
  row: WebhookRow,
  delivered: Delivered,
  signal: AbortSignal,
): Promise<Answer> {
  if ('handshake' in delivered) return ok(delivered.handshake)
  const { runId } = delivered
  if (row.settings.answer === 'result') {
    await waitForRun(context, runId, answerSeconds, signal)
    const { status, result } = await runOf(context, await callerOf(context.db, row), runId)
    if (status === 'completed') return ok(result ?? null)
  }
  // Slack shows its people every other answer: a body as a message, and another status as an error.
  return row.settings.verify === 'slack' ? ok(undefined) : accepted({ run_id: runId })
}
