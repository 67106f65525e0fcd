import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { mailSender, sendMails, type SendReminder } from '../../../src/governance/notifications/send-mail.ts'
import {
  changeMailPreferences,
  noteTimeZone,
  readMailPreferences,
} from '../../../src/governance/people/mail-preferences.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { createMailer } from '../../../src/programs/create-context.ts'
import { startSmtpSink, type SmtpSink } from '../../support/smtp-sink.ts'
import { until } from '../../stack/until.ts'
import { askStep, hold, holdRule, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'
import { answerQuestion } from '../../../src/calls/runs/answer.ts'
import { endAbsence, setAbsence } from '../../../src/governance/people/absences.ts'
import { timePasses } from './people.ts'
import { invitationMail, resetMail, signUpAgainMail, verifyMail } from '../../../src/api/auth-options.ts'
import { mailAbout } from '../../../src/governance/notifications/send-mail.ts'
import type { Subject } from '../../../src/governance/notifications/subjects.ts'
import { MailText, mailText, type ServiceMail } from '../../../src/governance/service-mail.ts'
import { readSettings } from '../../../src/policy/settings.ts'

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
const plan = () => planNotifications(engine.context, [planMail(engine.context.config)])
const sendWith = (mailer: SendReminder) => sendMails(engine.context, mailer, engine.organizationId)
const send = () => sendWith(createMailer(engine.context.config))
const held = async () => {
  const id = await hold(engine, opOf(await engine.run(), { params: { to: 'the-parameter@b.test' } }))
  await plan()
  return id
}
/** Asks the question of a new run of the member, and plans its messages. */
const question = async (over: object) => {
  const ask = {
    title: 'Refund this order?',
    show: { order: 'the-parameter' },
    choices: ['yes', 'no'],
    ...over,
  }
  const runId = await engine.run({ steps: [{ id: 's', ask }] })
  const held = await askStep(engine.context, runId)
  await plan()
  return { id: held.state === 'held' ? (held.approvalId ?? '') : '' }
}
/** Marks the waiting mails as if a worker were sending them. */
const beginSending = () =>
  engine.context.pool.query(`update notifications set intent_at = now() where event = 'approval.created'`)
/** Only the approver gets mails, without delay. */
const onlyApprover = async () => {
  for (const name of ['owner', 'admin'] as const)
    await changeMailPreferences(engine.context, engine.caller(name), { mail: false, delay_seconds: 0 })
}
const textOf = (mail: { readonly raw: string } | undefined): string =>
  (mail?.raw ?? '').replaceAll(/=\r?\n/g, '')
const subjectsOf = (mails: readonly { readonly subject: string }[]) => mails.map(({ subject }) => subject)
const recipientsOf = (mails: readonly { readonly recipients: readonly string[] }[]) =>
  mails.map(({ recipients }) => recipients[0])
/** Runs `act` while the settings are changed. */
const whileSet = async (change: Settings, back: Settings, act: () => Promise<void>) => {
  await engine.settings(change)
  try {
    await act()
  } finally {
    await engine.settings(back)
  }
}
type Settings = Parameters<Engine['settings']>[0]
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
/** The mails that have arrived after these seconds. */
const mailsAfter = async (seconds: number) => {
  await pass(seconds)
  await send()
  return arrived()
}
const addressOf = (name: BootstrapName) => engine.caller(name).email
const deciders = () => (['owner', 'admin', 'approver'] as const).map(addressOf).sort()
const rows = () => engine.context.db.selectFrom('notifications').selectAll().orderBy('id').execute()

describe('mails about what waits', () => {
  beforeEach(async () => {
    await engine.rules(holdRule())
    await plan()
    const { db } = engine.context
    await db.deleteFrom('notifications').execute()
    await db.deleteFrom('mail_preferences').execute()
    await db.updateTable('users').set({ email_verified: true }).execute()
    sink.behaviour = { kind: 'accept' }
  })

  test('a mail leaves after the delay, once for each person who can decide, without a parameter', async () => {
    const id = await held()
    await send()
    expect(arrived()).toEqual([])
    await pass(601)
    await send()
    await send()
    const mails = arrived()
    expect(recipientsOf(mails)).toEqual(deciders())
    for (const mail of mails) {
      expect(mail.subject).toBe('mail_send waits for your decision')
      const text = textOf(mail)
      expect(text).toContain(`/console/approvals/${id}`)
      expect(text).toMatch(/^Risk: high\r\n- delivers content to people or places\r$/m)
      expect(text).toContain('/console/account\r\n')
      expect(text).not.toContain('PUT /me')
      expect(text).not.toContain('the-parameter')
      expect(text).toMatch(/^Expires: \d+ \w+ \d{4}, \d\d:\d\d \(UTC\)\r$/m)
    }
    const sent = (await rows()).filter(({ event }) => event === 'approval.created')
    expect(sent.map(({ state, attempts }) => [state, attempts])).toEqual([1, 2, 3].map(() => ['sent', 1]))
  })

  test('times are in the zone that the reader chose, or else the browser of the first sign-in', async () => {
    const { context } = engine
    await onlyApprover()
    await noteTimeZone(context.db, addressOf('approver').toUpperCase(), 'Mars/Olympus')
    await noteTimeZone(context.db, addressOf('approver').toUpperCase(), 'Asia/Kolkata')
    await noteTimeZone(context.db, addressOf('approver'), 'Europe/Berlin')
    await held()
    expect(textOf((await mailsAfter(601))[0])).toMatch(/^Expires: .*\(Asia\/Kolkata\)\r$/m)
    const change = { mail: true, delay_seconds: 0, time_zone: null }
    expect(await changeMailPreferences(context, engine.caller('approver'), change)).toMatchObject(change)
    await held()
    expect(textOf((await mailsAfter(601))[0])).toMatch(/^Expires: .*\(UTC\)\r$/m)
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
    await whileSet({ approval_threshold: 2 }, { approval_threshold: 1 }, async () => {
      const id = await held()
      await engine.vote(id, 'admin')
      await plan()
      const others = deciders().filter((address) => address !== addressOf('admin'))
      for (const seconds of [601, 2_200]) {
        const mails = await mailsAfter(seconds)
        expect(recipientsOf(mails)).toEqual(others)
        for (const { raw } of mails) expect(raw).toContain('Votes: 1 of 2 given')
      }
      await engine.vote(id, 'approver', 'reject')
    })
  })

  test('a mail about a whole run says why the run waits', async () => {
    await whileSet({ approval_required_from: 'low' }, { approval_required_from: null }, async () => {
      await engine.run()
      await plan()
      const [first] = await mailsAfter(601)
      const text = textOf(first)
      expect(first?.subject).toBe('A run waits for your decision')
      expect(text).toContain('A whole run waits for your decision.')
      expect(text).toContain('Why: the settings of the organization hold a run like this before it starts')
    })
  })

  test('a question goes to the person who is asked, whatever their role is, without a value', async () => {
    const { id } = await question({ to: 'requester', remind_after_seconds: 700 })
    const [mail, ...others] = await mailsAfter(601)
    expect([mail?.recipients, others]).toEqual([[addressOf('member')], []])
    expect(mail?.subject).toBe('A question waits for your answer')
    const text = textOf(mail)
    expect(text).toContain('The workflow =E2=80=9Cw=E2=80=9D asks you: =E2=80=9CRefund this order?=E2=80=9D')
    expect(text).toContain(`/console/approvals/${id}`)
    expect(text).toContain('Sign in to answer. You can')
    expect(text).not.toMatch(/the-parameter|Risk|approve|decision/)
    await engine.context.pool.query(`update approvals set remind_at = now() where id = $1`, [id])
    await engine.context.pool.query(`update notices set due_at = now() where subject = $1`, [id])
    await plan()
    expect(subjectsOf(await mailsAfter(100))).toEqual(['Reminder: A question waits for your answer'])
    await answerQuestion(engine.context, { caller: engine.caller('member'), approvalId: id, answer: 'yes' })
    await plan()
    expect(await mailsAfter(604_800)).toEqual([])
  })

  test('a question that nobody can answer goes to owners, and to those who are asked later', async () => {
    const escalate = [{ after_seconds: 3_600, to: 'admin' }]
    const { id } = await question({ to: { group: 'nobody' }, escalate })
    const [mail, ...others] = await mailsAfter(601)
    expect([mail?.recipients, others]).toEqual([[addressOf('owner')], []])
    expect(textOf(mail)).toContain('But nobody can answer it before')
    await timePasses(engine.context, id, 3_600)
    await plan()
    expect(recipientsOf(await mailsAfter(601))).toEqual([addressOf('admin'), addressOf('approver')].sort())
  })

  test('the deputy of somebody who is away hears of their question', async () => {
    const now = Date.now()
    const away = {
      from: new Date(now - 1_000),
      until: new Date(now + 3_600_000),
      deputy: addressOf('viewer'),
    }
    await setAbsence(engine.context, engine.caller('member'), away)
    await question({ to: { person: addressOf('member') } })
    expect(recipientsOf(await mailsAfter(601))).toEqual([addressOf('member'), addressOf('viewer')])
    await endAbsence(engine.context, engine.caller('member'))
  })

  test('a reminder follows before the expiry, and only while it waits', async () => {
    const id = await held()
    expect(await mailsAfter(601)).toHaveLength(3)
    expect(subjectsOf(await mailsAfter(2_200))).toEqual(
      Array(3).fill('Reminder: mail_send waits for your decision'),
    )
    await pass(100)
    await plan()
    await send()
    expect(arrived()).toEqual([])
    await engine.vote(id, 'approver', 'reject')
  })

  test('a person whose delay is longer than the approval waits gets the reminder alone', async () => {
    await changeMailPreferences(engine.context, engine.caller('admin'), { mail: true, delay_seconds: 86_400 })
    const id = await held()
    const mine = (await mailsAfter(2_800)).filter(({ recipients }) => recipients[0] === addressOf('admin'))
    expect(subjectsOf(mine)).toEqual(['Reminder: mail_send waits for your decision'])
    const planned = await rows()
    expect(planned.filter(({ event }) => event === 'approval.created')).toHaveLength(2)
    await engine.vote(id, 'approver', 'reject')
  })

  test('each person chooses the delay or no mails, and an unconfirmed address gets none', async () => {
    const { context } = engine
    await changeMailPreferences(context, engine.caller('owner'), { mail: false, delay_seconds: 600 })
    await changeMailPreferences(context, engine.caller('admin'), { mail: true, delay_seconds: 60 })
    expect(await readMailPreferences(context.db, engine.caller('admin'))).toMatchObject({ mail: true, delay_seconds: 60 }) // prettier-ignore
    await held()
    expect(recipientsOf(await mailsAfter(61))).toEqual([addressOf('admin')])
    // A later change of a person also applies to mails that already wait.
    await context.db.updateTable('users').set({ email_verified: false }).where('email', '=', addressOf('approver')).execute() // prettier-ignore
    expect(await mailsAfter(600)).toEqual([])
  })

  test('a mail that certainly did not leave is sent again; one whose answer was lost is not', async () => {
    await onlyApprover()
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
    expect(await mailsAfter(400)).toHaveLength(1)
  })

  test('a worker that dies before the dot loses nothing, and after it sends nothing twice', async () => {
    await onlyApprover()
    await held()
    await pass(601)
    await sendWith(() => Promise.reject(new Error('died before the dot')))
    expect(arrived()).toEqual([])
    await pass(301)
    await beginSending()
    await send()
    expect(arrived()).toEqual([])
    expect((await rows())[0]).toMatchObject({ state: 'failed', last_error: 'mail_outcome_unknown' })
  })

  test('items that begin to wait after the mail of their step has left share another one', async () => {
    const { context } = engine
    await onlyApprover()
    const runId = await engine.run()
    await context.db.updateTable('run_steps').set({ item_count: 5 }).where('run_id', '=', runId).execute()
    const holdItem = async (item: number) => {
      await hold(engine, opOf(runId, { item }))
      await plan()
    }
    await holdItem(0)
    await holdItem(1)
    const [first, ...others] = await mailsAfter(601)
    expect(others).toEqual([])
    const text = textOf(first)
    expect(text).toContain('1 more of this step waits too')
    // The mail is about both items, so its link leads to the run and not to one of them.
    expect(text).toContain(`/console/runs/${runId}`)
    expect(text).not.toContain('/console/approvals/')
    await holdItem(2)
    // The message is being sent now, so the next item needs a message of its own.
    await context.pool.query(`update notifications set attempts = 1 where state = 'pending'`)
    await holdItem(3)
    expect(await mailsAfter(601)).toHaveLength(2)
    await send()
    expect(arrived()).toEqual([])
  })

  test('an organization turns mails off, also those that wait', async () => {
    await held()
    await whileSet(
      { mail_approval_notifications: false },
      { mail_approval_notifications: true },
      async () => {
        expect(await mailsAfter(601)).toEqual([])
        expect((await rows()).map(({ event }) => event)).not.toContain('approval.created')
        await engine.context.db.deleteFrom('notifications').execute()
        await held()
        expect(await rows()).toEqual([])
      },
    )
  })

  test('a worker that was taken for dead sends no second mail, and undoes nothing', async () => {
    await onlyApprover()
    await held()
    await pass(601)
    const mailer = createMailer(engine.context.config)
    await sendWith(async (mail, beforeDot) => {
      // The worker stops before the dot, and loses its lane.
      await send()
      await mailer(mail, beforeDot)
    })
    expect(arrived()).toHaveLength(1)
    expect((await rows())[0]).toMatchObject({ state: 'sent', last_error: null })
  })

  test.each([
    ['is refused for now', true],
    ['loses its connection', false],
  ])('a worker that was taken for dead and then %s changes nothing', async (_, isRefused) => {
    await onlyApprover()
    await held()
    await pass(601)
    const mailer = createMailer(engine.context.config)
    await sendWith(async (mail, beforeDot) => {
      await send()
      if (!isRefused) throw new Error('connection reset')
      sink.behaviour = { kind: 'refuse', at: 'rcpt', code: 451 }
      await mailer(mail, beforeDot)
    })
    sink.behaviour = { kind: 'accept' }
    expect((await rows())[0]).toMatchObject({ state: 'sent', last_error: null, sent_at: expect.any(Date) })
    await pass(61)
    await send()
    expect(arrived()).toHaveLength(1)
  })

  test('the lane of an organization sends what is due, and knows when the next mail is', async () => {
    await onlyApprover()
    await held()
    const { context, organizationId } = engine
    const mailLane = async () => {
      const { rows } = await context.pool.query(
        `select turn, extract(epoch from due_at - now())::int as seconds from lanes where kind = 'mail' and id = $1`,
        [organizationId],
      )
      return rows[0]
    }
    expect(await mailLane()).toMatchObject({ turn: null })
    await pass(601)
    await context.pool.query(`update lanes set due_at = now() where kind = 'mail'`)
    const runner = startRunner(context, [mailSender(context, createMailer(context.config))], 20)
    await until('the mail has left', async () => (await rows()).some(({ state }) => state === 'sent'))
    await runner.stop()
    expect(arrived()).toHaveLength(1)
    // The reminder is due an hour before the expiry.
    expect(await mailLane()).toMatchObject({ turn: null })
    expect((await mailLane()).seconds).toBeGreaterThan(0)
  })

  test('a hostile name makes no header and no line', async () => {
    await engine.rules(holdRule({ name: 'rule' }))
    await held()
    await engine.context.pool.query(`update workflows set name = E'W\\r\\nBcc: evil@b.test\\n\\nYour password: ' || chr(8238)`) // prettier-ignore
    const mails = await mailsAfter(601)
    expect(mails).toHaveLength(3)
    for (const mail of mails) {
      expect(mail.recipients).toHaveLength(1)
      expect(textOf(mail)).not.toMatch(/^(Bcc|Your password)/m)
    }
  })

  // They are removed when their approvals end, so that no list shows them as waiting.
  describe('mails that have not left', () => {
    const subjects = async () => {
      await plan()
      const rows = engine.context.db.selectFrom('notifications').select('subject').distinct()
      return (await rows.orderBy('subject').execute()).map(({ subject }) => subject)
    }

    test.each(['approve', 'reject'] as const)(
      '%s: the mails of the other approval stay',
      async (decision) => {
        const ids = [await held(), await held()]
        expect(await subjects()).toEqual(ids)
        await engine.vote(ids[0] ?? '', 'approver', decision)
        expect(await subjects()).toEqual([ids[1]])
      },
    )

    test('a mail that items share stays while one of them waits', async () => {
      const runId = await engine.run()
      const { db } = engine.context
      await db.updateTable('run_steps').set({ item_count: 2 }).where('run_id', '=', runId).execute()
      const ids = [
        await hold(engine, opOf(runId, { item: 0 })),
        await hold(engine, opOf(runId, { item: 1 })),
      ] as const
      expect(await subjects()).toEqual(ids)
      await engine.vote(ids[0], 'approver')
      expect(await subjects()).toEqual(ids)
      await engine.vote(ids[1], 'approver')
      expect(await subjects()).toEqual([])
    })

    test('a mail that is being sent stays', async () => {
      const id = await held()
      await subjects()
      await beginSending()
      await engine.vote(id, 'approver')
      await subjects()
      const rows = await engine.context.db.selectFrom('notifications').select('event').distinct().execute()
      expect(rows).toEqual([{ event: 'approval.created' }])
    })
  })
})

describe('the words of every mail', () => {
  const base = 'https://countersign.test'
  /** The only links that a mail may have. */
  const ownLink = /https:\/\/countersign\.test\/[\w/?=&.-]*/g
  const ownTime = /\d{1,2} \w{3,4} \d{4}, \d\d:\d\d \([\w/]+\)/g

  /** What mail programs make links of, as generously as the most generous of them. */
  const linkers: Readonly<Record<string, RegExp>> = {
    'a scheme': /\p{L}[\w+.-]*[:：﹕][^\s”]/u,
    'a host': /[\p{L}\p{N}][.。．｡․﹒][\p{L}\p{N}]/u,
    'an address': /\S[@＠﹫][^\s\]]/u,
    'a network path': /(?:\/\/|\\\\)[\p{L}\p{N}]/u,
    'a telephone number': /\p{Nd}(?:[ ().-]?\p{Nd}){6}/u,
    'a bracketed link': /<\S+>/,
  }

  const linksIn = (text: string): string[] =>
    Object.entries(linkers).flatMap(([name, linker]) => (linker.test(text) ? [`${name} in ${text}`] : []))

  const hostile = [
    'http://evil.example/login',
    'Please sign in again: http://evil.example/login',
    'hxxp://evil.example www.evil.example evil.example/pay',
    'evil。example evil．example evil․example xn--80ak6aa92e.com аррӏе.com',
    'e\u200Bvil.ex\u00ADample ｅｖｉｌ．ｅｘａｍｐｌｅ http：／／evil',
    'ann@evil.example ann＠evil.example mailto:ann@evil tel:+19005550100',
    'call +1 (900) 555-0100 or 0900 5550100 now',
    '\\\\evil\\share //evil/share <evil.example> <a href="http://evil.example">x</a>',
    'x”\r\nSubject: You won\r\n\r\nhttps://evil.example',
    '\u202Eelpmaxe.live//:ptth',
    `${'a'.repeat(500)}.example`,
    'https:evil.example javascript:alert(1) data:text/html,x',
    '1.2.3.4 [::1] 0x7f.1',
  ]

  const subjectWith = (text: string, over: Partial<Subject> = {}): Subject => ({
    kind: 'approval',
    id: 'apr_1',
    sought: null,
    round: 0,
    asks: 'agent_call',
    state: 'waits',
    changesRequested: false,
    runId: 'run_1',
    stepId: text,
    itemIndex: null,
    itemCount: null,
    sessionId: 'ses_1',
    destination: null,
    authors: [],
    tool: text,
    title: text,
    workflowName: text,
    agentName: text,
    ruleName: text,
    labels: [text],
    risk: { level: 'high', reasons: [`\`${text}\` sends pii data out`] },
    requestedBy: 'usr_1',
    requesterEmail: text,
    terms: { kind: 'step', approver: 'admin', approvals_needed: 2, seats: null, typed_by: [] },
    cannotBeGiven: `it lacks 1 member of \`${text}\``,
    votes: [],
    createdAt: new Date(0),
    remindAt: null,
    readAt: new Date(0),
    expiresAt: new Date(1e12),
    decidedBy: [],
    path: '/console/approvals/apr_1',
    ...over,
  })

  /** Every mail of the service, with this text in each of its slots. */
  function everyMail(text: string): Omit<ServiceMail, 'to'>[] {
    const about = [
      subjectWith(text),
      subjectWith(text, { asks: 'run' }),
      subjectWith(text, { asks: 'step' }),
      subjectWith(text, { asks: 'ask' }),
      subjectWith(text, { kind: 'call', asks: 'resolution' }),
    ].flatMap((subject) =>
      ([null, 'expiry', 'waiting'] as const).flatMap((reminds) =>
        [1, 2, 3].map((count) =>
          mailAbout(subject, {
            count,
            reminds,
            base,
            settings: readSettings({}),
            timeZone: 'Asia/Kolkata',
          }),
        ),
      ),
    )
    return [
      verifyMail(base, 'token'),
      signUpAgainMail(base),
      resetMail(base, 'token'),
      invitationMail(base, 'token', { organization: text, role: 'viewer', inviter: text, proof: 'proof' }),
      invitationMail(base, 'token', { organization: null, role: 'viewer', inviter: text, proof: null }),
      ...about,
    ]
  }

  test.each(hostile)('no mail has a link, a line or a subject of %j', (text) => {
    for (const [index, { subject, text: body }] of everyMail(text).entries()) {
      expect(subject).toBe(everyMail('plain')[index]?.subject)
      const { plain } = body
      expect(linksIn(plain.replaceAll(ownLink, '').replaceAll(ownTime, ''))).toEqual([])
      expect(plain).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e]/u)
      expect(plain.split('\n')).toHaveLength(everyMail('plain')[index]?.text.plain.split('\n').length ?? 0)
      for (const line of plain.split('\n')) expect(line.length).toBeLessThan(1_500)
    }
  })

  test('no text becomes a link, however its parts are put together', () => {
    const letters = ['evil', 'example', 'com', 'www', 'http', 'mailto', 'а', 'é', 'א', '+1', '900', '5550100']
    const signs = [...Array.from('.:/\\@。．｡․：＠<>"”[]()…` \n\u200B\u00AD\u2060\u202E'), '//', 'U+']
    const parts = [...letters, ...signs]
    const text = fc
      .array(fc.constantFrom(...parts), { minLength: 1, maxLength: 12 })
      .map((each) => each.join(''))
    fc.assert(
      fc.property(text, (value) => {
        const { plain } = mailText`Workflow: ${value}`
        expect(linksIn(plain.slice('Workflow: '.length))).toEqual([])
        expect(plain.split('“')).toHaveLength(2)
        expect(plain.split('”')).toHaveLength(2)
        expect(plain).not.toContain('\n')
      }),
      { numRuns: 5_000, seed: 20_261_129 },
    )
  })

  test('a name stays readable, and a confirmed address stays as it is', () => {
    expect(mailText`${'Order 66 of Acme Inc.'}`.plain).toBe('“Order 66 of Acme Inc.”')
    const release = mailText`${'Release 1.2 of acme.com on 2026-11-29'}`
    expect(release.plain).toBe('“Release 1[.]2 of acme[.]com on 2026-11-29”')
    expect(MailText.address('ann.lee@acme.org').plain).toBe('ann.lee@acme.org')
    expect(MailText.address('www.evil.example@acme.org').plain).toBe('“www[.]evil[.]example[@]acme[.]org”')
    expect(MailText.address('evil.com@acme.org').plain).toBe('“evil[.]com[@]acme[.]org”')
    expect(MailText.address('ann@аcme.org').plain).toContain('[xn--cme-5cd[.]org')
  })
})
