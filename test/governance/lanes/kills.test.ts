import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startChatHome, type ChatHome } from '../../activities/notify/chat-home.ts'
import { until } from '../../stack/until.ts'
import { byDepth } from '../../support/depth.ts'
import { startScriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { startSmtpSink, type SmtpSink } from '../../support/smtp-sink.ts'
import { timePasses } from '../notifications/people.ts'
import { createWebhook } from '../../../src/governance/webhooks/webhooks.ts'
import { changeMailPreferences } from '../../../src/governance/people/mail-preferences.ts'
import { endLeases } from './leases.ts'

/* Processes that send are killed again and again, at random moments. Nothing is lost, and nothing arrives twice. */

const kills = byDepth(6, 220)
const processes = 3
/** A process is killed within so many milliseconds after its start, at random. */
const longestLife = 300

let home: ChatHome
let sink: SmtpSink
let receiver: ScriptedServer
let temporal: ScriptedServer
let environment: NodeJS.ProcessEnv
beforeAll(async () => {
  ;[sink, receiver, temporal] = await Promise.all([
    startSmtpSink(),
    startScriptedServer(),
    startScriptedServer(),
  ])
  receiver.answer = () => ({ status: 204 })
  temporal.answer = () => ({ status: 204 })
  environment = {
    APP_ENV: 'test',
    LOG_LEVEL: 'silent',
    SMTP_URL: sink.url,
    MAIL_FROM: 'countersign@acme.test',
    DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
  }
  home = await startChatHome(undefined, environment)
  environment['DATABASE_URL'] = home.engine.context.config.database.url
})
afterAll(async () => {
  await home?.close()
  await Promise.all([sink?.close(), receiver?.close(), temporal?.close()])
})

interface Sending {
  readonly child: ChildProcess
  readonly id: string
}

async function begin(): Promise<Sending> {
  const env = { ...process.env, ...environment, TELL_URL: temporal.url }
  const child = fork(new URL('sender-process.ts', import.meta.url), { env, execArgv: [], stdio: 'inherit' })
  const [id] = await once(child, 'message')
  return { child, id: id as string }
}

/** Its leases end at once. Otherwise each kill would cost a minute. */
async function kill({ child, id }: Sending): Promise<void> {
  child.kill('SIGKILL')
  await once(child, 'exit')
  await endLeases(home.engine.context.pool, id)
}

/** Also what was planned for a later time that has come. */
const allIsSent = () =>
  until('nothing waits', async () => {
    const { rows } = await home.engine.context.pool.query(
      `select from lanes where kind = 'temporal' or kind <> 'clock' and (turn is not null or due_at <= now())
       union all select from notices where due_at is null or due_at <= now()
       union all select from webhook_events where message is null
       union all select from webhook_deliveries where state = 'waiting'`,
    )
    return rows.length === 0
  })

test(`after ${kills} kills nothing is lost, and nothing has arrived twice`, async () => {
  const { engine } = home
  const { context, caller } = engine
  const events = ['approval.created', 'approval.decided'] as const
  const { id: webhookId } = await createWebhook(context, caller('owner'), {
    url: `${receiver.url}/hook`,
    events: [...events],
  })
  for (const name of ['owner', 'admin'] as const)
    await changeMailPreferences(context, caller(name), { mail: false, delay_seconds: 0 })
  await changeMailPreferences(context, caller('approver'), { mail: true, delay_seconds: 0 })
  const running = await Promise.all(Array.from({ length: processes }, begin))
  const held: string[] = []
  for (let count = 0; count < kills; count += 1) {
    held.push(await home.hold())
    const earlier = held.at(-4)
    if (earlier !== undefined) await engine.vote(earlier, 'admin')
    await delay(Math.random() * longestLife)
    await kill(running.shift() as Sending)
    running.push(await begin())
  }
  await allIsSent()
  for (const { child } of running) child.kill('SIGKILL')

  // Temporal: each run's start arrived, if need be more than once.
  const told = new Set(temporal.arrived.map(({ body }) => body))
  const { rows: runs } = await context.pool.query<{ id: string }>('select id from runs')
  expect(runs.filter(({ id }) => !told.has(`run.start ${id}`))).toEqual([])
  // Webhook: each event arrived, repetitions with the same id.
  const { rows: deliveries } = await context.pool.query<{ event_id: string; state: string }>(
    'select event_id, state from webhook_deliveries where webhook_id = $1',
    [webhookId],
  )
  expect(deliveries.length).toBeGreaterThanOrEqual(held.length)
  expect(deliveries.filter(({ state }) => state !== 'delivered')).toEqual([])
  expect(new Set(receiver.arrived.map(({ headers }) => headers['webhook-id']))).toEqual(
    new Set(deliveries.map(({ event_id }) => event_id)),
  )
  // Slack: each person who decides has each approval once.
  for (const approvalId of held)
    expect([approvalId, (await home.copies(approvalId)).length]).toEqual([approvalId, 3])
  // Mail: at most once; if the outcome is unknown, it is listed.
  const mails = sink.deliveries.map(({ raw }) => raw.replaceAll(/=\r?\n/g, ''))
  const { rows } = await context.pool.query<{ subject: string; state: string; last_error: string | null }>(
    `select subject, state, last_error from notifications where channel = 'mail' and event = 'approval.created'`,
  )
  for (const { subject, state, last_error } of rows) {
    const arrived = mails.filter((raw) => raw.includes(subject)).length
    if (state === 'sent') expect([subject, arrived]).toEqual([subject, 1])
    else expect([last_error, arrived <= 1]).toEqual(['mail_outcome_unknown', true])
  }
  expect(rows.length).toBeGreaterThan(0)
})

test('a reminder and an escalation come once, whoever dies while they are planned and sent', async () => {
  const { engine } = home
  const { context } = engine
  const running = await Promise.all(Array.from({ length: processes }, begin))
  const times = {
    approver: 'owner',
    remind_after_seconds: 60,
    escalate: [{ after_seconds: 120, to: 'admin' }],
  }
  const held: string[] = []
  for (let count = 0; count < kills; count += 1) held.push(await home.hold(times))
  await allIsSent()
  for (const approvalId of held) expect(await home.copies(approvalId)).toHaveLength(1)
  for (const approvalId of held) {
    // Its reminder and its escalation are due now.
    await timePasses(context, approvalId, 130)
    await delay(Math.random() * longestLife)
    await kill(running.shift() as Sending)
    running.push(await begin())
  }
  await allIsSent()
  for (const { child } of running) child.kill('SIGKILL')
  // The owner twice, and the two admins who are asked too.
  for (const approvalId of held) expect([approvalId, (await home.copies(approvalId)).length]).toEqual([approvalId, 4]) // prettier-ignore
  const { rows } = await context.pool.query<{ event: string; count: number }>(
    `select event, count(*)::int as count from notifications
     where subject = any($1) and channel = 'slack' group by event order by event`,
    [held],
  )
  expect(rows).toEqual([
    { event: 'approval.asked_again', count: kills },
    { event: 'approval.created', count: 3 * kills },
  ])
})
