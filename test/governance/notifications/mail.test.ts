import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { sendMails } from '../../../src/governance/notifications/send-mail.ts'
import {
  changeMailPreferences,
  readMailPreferences,
} from '../../../src/governance/people/mail-preferences.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { createMailer } from '../../../src/programs/mailer.ts'
import { startSmtpSink, type SmtpSink } from '../../support/smtp-sink.ts'
import { hold, holdRule, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

let sink: SmtpSink
let engine: Engine
beforeAll(async () => {
  sink = await startSmtpSink()
  engine = await startEngine({ SMTP_URL: sink.url, MAIL_FROM: 'countersign@acme.test' })
})
afterAll(async () => {
  await engine?.close()
  await sink?.close()
})
beforeEach(async () => {
  await engine.rules(holdRule())
  await plan()
  const { db } = engine.context
  await db.deleteFrom('notifications').execute()
  await db.deleteFrom('mail_preferences').execute()
  await db.updateTable('users').set({ email_verified: true }).execute()
  sink.behaviour = { kind: 'accept' }
})

const plan = () => planNotifications(engine.context, [planMail(engine.context.config)])
const send = () => sendMails(engine.context, createMailer(engine.context.config))
const held = async () => {
  const id = await hold(engine, opOf(await engine.run(), { params: { to: 'the-parameter@b.test' } }))
  await plan()
  return id
}
/** Moves all times into the past, as if this many seconds had passed. */
const pass = async (seconds: number) => {
  const { pool } = engine.context
  await pool.query(`update approvals set created_at = created_at - make_interval(secs => $1), expires_at = expires_at - make_interval(secs => $1)`, [seconds]) // prettier-ignore
  await pool.query(`update notifications set next_attempt_at = next_attempt_at - make_interval(secs => $1)`, [seconds]) // prettier-ignore
}
/** The mails that the sink accepted since the last call, sorted by recipient. */
let seen = 0
const arrived = () => {
  const fresh = sink.deliveries.slice(seen)
  seen = sink.deliveries.length
  return fresh.sort((a, b) => (a.recipients[0] ?? '').localeCompare(b.recipients[0] ?? ''))
}
const addressOf = (name: BootstrapName) => engine.caller(name).email
const deciders = () => (['owner', 'admin', 'approver'] as const).map(addressOf).sort()
const rows = () => engine.context.db.selectFrom('notifications').selectAll().orderBy('id').execute()

test('a mail leaves after the delay, once for each person who can decide, without a parameter', async () => {
  const id = await held()
  await send()
  expect(arrived()).toEqual([])
  await pass(601)
  await send()
  await send()
  const mails = arrived()
  expect(mails.map(({ recipients }) => recipients[0])).toEqual(deciders())
  for (const mail of mails) {
    expect(mail.subject).toBe('Something waits for your decision')
    const text = mail.raw.replaceAll(/=\r?\n/g, '')
    expect(text).toContain(`/console/approvals/${id}`)
    expect(text).toMatch(/^Risk: high\r\n- delivers content to people or places\r$/m)
    expect(text).toContain('/console/account\r\n')
    expect(text).not.toContain('PUT /me')
    expect(text).not.toContain('the-parameter')
  }
  const sent = (await rows()).filter(({ event }) => event === 'approval.created')
  expect(sent.map(({ state, attempts }) => [state, attempts])).toEqual(
    Array.from({ length: 3 }, () => ['sent', 1]),
  )
})

test('nobody gets a mail about what was decided before it left', async () => {
  const id = await held()
  await engine.vote(id, 'approver', 'reject')
  await pass(3_000)
  await plan()
  // One round sends only a few mails of an organization, so two rounds run.
  await send()
  await send()
  expect(arrived()).toEqual([])
  expect(await rows()).toEqual([])
})

test('a person who has voted gets neither the mail nor the reminder, and the others read the count', async () => {
  await engine.settings({ approval_threshold: 2 })
  try {
    const id = await held()
    await engine.vote(id, 'admin')
    await plan()
    const others = deciders().filter((address) => address !== addressOf('admin'))
    for (const seconds of [601, 2_200]) {
      await pass(seconds)
      await send()
      const mails = arrived()
      expect(mails.map(({ recipients }) => recipients[0])).toEqual(others)
      for (const { raw } of mails) expect(raw).toContain('Votes: 1 of 2 given')
    }
    await engine.vote(id, 'approver', 'reject')
  } finally {
    await engine.settings({ approval_threshold: 1 })
  }
})

test('a mail about a whole run says why the run waits', async () => {
  await engine.settings({ approval_required_from: 'low' })
  try {
    await engine.run()
    await plan()
    await pass(601)
    await send()
    const [first] = arrived()
    const text = (first?.raw ?? '').replaceAll(/=\r?\n/g, '')
    expect(text).toContain('A whole run waits for your decision.')
    expect(text).toContain('Why: the settings of the organization hold a run like this before it starts')
  } finally {
    await engine.settings({ approval_required_from: null })
  }
})

test('a reminder follows before the expiry, and only while it waits', async () => {
  const id = await held()
  await pass(601)
  await send()
  expect(arrived()).toHaveLength(3)
  await pass(2_200)
  await send()
  const reminders = arrived()
  expect(reminders.map(({ subject }) => subject)).toEqual(Array(3).fill('Reminder: Something waits for your decision')) // prettier-ignore
  await pass(100)
  await plan()
  await send()
  expect(arrived()).toEqual([])
  await engine.vote(id, 'approver', 'reject')
})

test('a person whose delay is longer than the approval waits gets the reminder alone', async () => {
  const { context } = engine
  const chosen = { mail: true, delay_seconds: 86_400 }
  await changeMailPreferences(context, engine.caller('admin'), chosen)
  try {
    const id = await held()
    await pass(2_800)
    await send()
    const mine = arrived().filter(({ recipients }) => recipients[0] === addressOf('admin'))
    expect(mine.map(({ subject }) => subject)).toEqual(['Reminder: Something waits for your decision'])
    const planned = await rows()
    expect(planned.filter(({ event }) => event === 'approval.created')).toHaveLength(2)
    await engine.vote(id, 'approver', 'reject')
  } finally {
    await changeMailPreferences(context, engine.caller('admin'), { mail: true, delay_seconds: 600 })
  }
})

test('each person chooses the delay or no mails, and an unconfirmed address gets none', async () => {
  const { context } = engine
  await changeMailPreferences(context, engine.caller('owner'), { mail: false, delay_seconds: 600 })
  await changeMailPreferences(context, engine.caller('admin'), { mail: true, delay_seconds: 60 })
  expect(await readMailPreferences(context.db, engine.caller('admin'))).toMatchObject({ mail: true, delay_seconds: 60 }) // prettier-ignore
  await held()
  await pass(61)
  await send()
  expect(arrived().map(({ recipients }) => recipients[0])).toEqual([addressOf('admin')])
  // A later change of a person also applies to mails that already wait.
  await context.db.updateTable('users').set({ email_verified: false }).where('email', '=', addressOf('approver')).execute() // prettier-ignore
  await pass(600)
  await send()
  expect(arrived()).toEqual([])
})

test('a mail that certainly did not leave is sent again; one whose answer was lost is not', async () => {
  await changeMailPreferences(engine.context, engine.caller('owner'), { mail: false, delay_seconds: 0 })
  await changeMailPreferences(engine.context, engine.caller('admin'), { mail: false, delay_seconds: 0 })
  await held()
  sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 451 }
  await pass(601)
  await send()
  expect((await rows())[0]).toMatchObject({ state: 'pending', intent_at: null, last_error: expect.stringMatching(/^mail_/) }) // prettier-ignore
  sink.behaviour = { kind: 'drop', taken: true }
  await pass(61)
  await send()
  expect((await rows())[0]).toMatchObject({ state: 'failed', last_error: 'mail_outcome_unknown' })
  sink.behaviour = { kind: 'accept' }
  await pass(400)
  await send()
  expect(arrived()).toHaveLength(1)
})

test('a worker that dies before the dot loses nothing, and after it sends nothing twice', async () => {
  await changeMailPreferences(engine.context, engine.caller('owner'), { mail: false, delay_seconds: 0 })
  await changeMailPreferences(engine.context, engine.caller('admin'), { mail: false, delay_seconds: 0 })
  await held()
  await pass(601)
  // The lease outlives the worker, which dies during this call.
  await sendMails(engine.context, () => new Promise((_, reject) => reject(new Error('died before the dot'))))
  expect(arrived()).toEqual([])
  await pass(301)
  await engine.context.pool.query(
    `update notifications set intent_at = now() where event = 'approval.created'`,
  )
  await send()
  expect(arrived()).toEqual([])
  expect((await rows())[0]).toMatchObject({ state: 'failed', last_error: 'mail_outcome_unknown' })
})

test('items that begin to wait after the mail of their step has left share another one', async () => {
  const { context } = engine
  await changeMailPreferences(context, engine.caller('owner'), { mail: false, delay_seconds: 0 })
  await changeMailPreferences(context, engine.caller('admin'), { mail: false, delay_seconds: 0 })
  const runId = await engine.run()
  await context.db.updateTable('run_steps').set({ item_count: 5 }).where('run_id', '=', runId).execute()
  const holdItem = async (item: number) => {
    await hold(engine, opOf(runId, { item }))
    await plan()
  }
  await holdItem(0)
  await holdItem(1)
  await pass(601)
  await send()
  const [first, ...others] = arrived()
  expect(others).toEqual([])
  const text = first?.raw.replaceAll(/=\r?\n/g, '')
  expect(text).toContain('1 more of this step waits too')
  // The mail is about both items, so its link leads to the run and not to one of them.
  expect(text).toContain(`/console/runs/${runId}`)
  expect(text).not.toContain('/console/approvals/')
  await holdItem(2)
  // The message is being sent now, so the next item needs a message of its own.
  await context.pool.query(`update notifications set attempts = 1 where state = 'pending'`)
  await holdItem(3)
  await pass(601)
  await send()
  expect(arrived()).toHaveLength(2)
  await send()
  expect(arrived()).toEqual([])
})

test('an organization turns mails off, also those that wait', async () => {
  await held()
  await engine.settings({ mail_approval_notifications: false })
  try {
    await pass(601)
    await send()
    expect(arrived()).toEqual([])
    expect((await rows()).map(({ event }) => event)).not.toContain('approval.created')
    await engine.context.db.deleteFrom('notifications').execute()
    await held()
    expect(await rows()).toEqual([])
  } finally {
    await engine.settings({ mail_approval_notifications: true })
  }
})

test('a worker that was taken for dead sends no second mail, and undoes nothing', async () => {
  await changeMailPreferences(engine.context, engine.caller('owner'), { mail: false, delay_seconds: 0 })
  await changeMailPreferences(engine.context, engine.caller('admin'), { mail: false, delay_seconds: 0 })
  await held()
  await pass(601)
  const mailer = createMailer(engine.context.config)
  await sendMails(engine.context, async (mail, beforeDot) => {
    // The worker stops before the dot, and its lease ends.
    await pass(301)
    await send()
    await mailer(mail, beforeDot)
  })
  expect(arrived()).toHaveLength(1)
  expect((await rows())[0]).toMatchObject({ state: 'sent', last_error: null })
})

test('a hostile name makes no header and no line', async () => {
  await engine.rules(holdRule({ name: 'rule' }))
  await held()
  await engine.context.pool.query(`update workflows set name = E'W\\r\\nBcc: evil@b.test\\n\\nYour password: ' || chr(8238)`) // prettier-ignore
  await pass(601)
  await send()
  const mails = arrived()
  expect(mails).toHaveLength(3)
  for (const { raw, recipients } of mails) {
    expect(recipients).toHaveLength(1)
    expect(raw.replaceAll(/=\r?\n/g, '')).not.toMatch(/^(Bcc|Your password)/m)
  }
})
