import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { commitPoints, type CommitPoint } from '../../src/governance/audit/commit-points.ts'
import { crashHome, govern, type CrashHome, type Fault } from '../support/chaos.ts'
import type { Answer } from '../support/client.ts'
import type { Approval, Run } from '../support/client-types.ts'
import { until } from '../stack/until.ts'
import { expectFinished, expectQuiet } from '../support/chaos-checks.ts'
import { emulatorToken, type Emulator } from '../support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { startModel, type Model } from '../support/model.ts'
import { startScriptedServer } from '../support/scripted-server.ts'
import { askSlack, startSlack } from '../support/slack-emulator.ts'

/*
 * The process is killed at each named commit point, one after another, and the run must reach its right end. All
 * tests share one stack: the process that reaches the armed point kills itself, and the supervisor starts it again.
 * Recoveries overlap, except while a mail is being sent: each of these kills has the stack to itself. So
 * `unknown_outcome` is expected exactly where bytes may have left.
 */

const both = (...points: CommitPoint[]): Fault[] =>
  points.flatMap((point) => [`${point}:before`, `${point}:after`] as const)

/** Points reached by accepting a run, by the vote on it and its work up to the held mail, and by the approved mail. */
const onAccept = both('run.accept', 'outbox.deliver')
const onStart = both(
  'approval.vote',
  'run.enter',
  'effect.decide',
  'step.expand',
  'effect.outcome',
  'step.finish',
)
const onMail = both('effect.decide', 'effect.sent', 'effect.outcome', 'run.finish')
/** Points at which bytes of the mail may have left without a record. */
const unknowable: readonly Fault[] = ['effect.sent:after', 'effect.outcome:before']

let home: CrashHome
let model: Model
let slack: Emulator | undefined
let slackProxy: FaultProxy | undefined
let workflowId: string

beforeAll(async () => {
  ;[home, model] = await Promise.all([crashHome(), startModel()])
  workflowId = await govern(home, { settings: { approval_required_from: 'high' } })
})
afterAll(async () => {
  await Promise.all([home?.close(), model?.close(), slackProxy?.close(), slack?.close()])
})

interface Started {
  readonly subject: string
  readonly runId: Promise<string>
}

/** Starts a run; the client repeats the request with the same key until it gets an answer. */
function start(subject: string): Started {
  const inputs = { subject, keys: [`${subject}/1`, `${subject}/2`] }
  const runId = home.member.execute(workflowId, inputs, { key: randomUUID() })
  runId.catch(() => undefined)
  return { subject, runId }
}

/** A careful approver: repeats the request with the same key, and finally checks whether the vote was counted. */
async function approve(approvalId: string): Promise<void> {
  const answer: Answer<Approval> = await home.approver.decide(approvalId, 'approve', { key: randomUUID() })
  const { votes } = await home.approver.approval(approvalId)
  const mine = home.approver.bootstrap.users.approver.user_id
  expect({
    status: answer.status,
    votes: votes.map(({ user_id, decision }) => ({ user_id, decision })),
  }).toEqual({
    status: 200,
    votes: [{ user_id: mine, decision: 'approve' }],
  })
}

async function approveRun({ runId }: Started): Promise<void> {
  await approve(await home.approver.untilHeld(await runId, 'run'))
}

async function heldMail(started: Started): Promise<string> {
  return home.approver.untilHeld(await started.runId, 'step')
}

const mailOf = (run: Run) => run.steps.find((step) => step.id === 'send') as Run['steps'][number]

describe('a process killed at a commit point', () => {
  const waiting: Promise<unknown>[] = []
  const held: Started[] = []

  afterAll(async () => {
    await Promise.allSettled(waiting)
  })

  test.each(onAccept)('%s: the run is accepted once', async (fault) => {
    let started!: Started
    await home.faults.at(fault, () => (started = start(fault)))
    held.push(started)
    waiting.push(approveRun(started))
  })

  test.each(onStart)('%s: the run starts once', async (fault) => {
    const started = start(`start ${fault}`)
    const approvalId = await home.approver.untilHeld(await started.runId, 'run')
    await home.faults.at(fault, () => waiting.push(approve(approvalId)))
    held.push(started)
  })

  test('all of them reach their held mail, and finished steps ran once', async () => {
    await Promise.all(waiting)
    for (const started of held) {
      await heldMail(started)
      expect(home.sink.count(started.subject)).toBe(0)
    }
  })

  // The outcome commits together with the decision of the next call, or with the end of the run.
  test.each(['effect.outcome:before', 'effect.outcome:after', 'run.finish:after'] as const)(
    '%s: a chain of quick calls goes on, and each takes effect once',
    async (fault) => {
      const key = `quick/${fault}`
      const steps = [
        { id: 'a', tool: 'memory_set', params: { key, value: 1 } },
        { id: 'b', tool: 'memory_get', params: { key }, depends_on: ['a'] },
        { id: 'c', tool: 'memory_set', params: { key, value: 2 }, depends_on: ['b'] },
      ]
      const quick = await home.member.createWorkflow(key, { steps })
      let runId!: Promise<string>
      await home.faults.at(fault, () => {
        runId = home.member.execute(quick, {}, { key: randomUUID() })
      })
      await expectFinished(home, await runId, key, 0)
    },
  )

  test.each(onMail)(
    '%s: the mail is sent once, and unknown only where bytes may have left',
    async (fault) => {
      const started = held.pop() as Started
      const runId = await started.runId
      const approvalId = await heldMail(started)
      await home.faults.at(fault, () => waiting.push(approve(approvalId)))
      const settled = await home.member.untilRun(runId, 'past its mail', (run) =>
        mailOf(run).status === 'unknown_outcome'
          ? run.status === 'paused'
          : ['completed', 'failed'].includes(mailOf(run).status),
      )
      expect(mailOf(settled).status).toBe(unknowable.includes(fault) ? 'unknown_outcome' : 'completed')
      const dots = home.sink.connections().filter((each) => each.subject === started.subject && each.dot)
      expect(dots).toHaveLength(fault === 'effect.sent:after' ? 0 : 1)
      if (mailOf(settled).status === 'unknown_outcome') {
        const outcome = home.sink.count(started.subject) === 0 ? 'retry' : 'done'
        expect((await home.approver.resolve(runId, 'send', outcome)).status).toBe(200)
      }
      // This run must end before the next point is armed: a mail that is sent again would trigger that point.
      await expectFinished(home, runId, started.subject)
    },
  )

  test.each(both('run.cancel'))('%s: cancelled once, nothing is sent', async (fault) => {
    const started = held.pop() as Started
    const runId = await started.runId
    await heldMail(started)
    let answer!: Promise<Answer<Run>>
    await home.faults.at(fault, () => {
      answer = home.member.cancel(runId, { key: randomUUID() })
    })
    waiting.push(
      answer.then(async ({ status }) => {
        expect(status).toBe(200)
        const run = await home.member.untilStatus(runId, 'cancelled')
        expect(mailOf(run).status).toBe('cancelled')
        expect(home.sink.count(started.subject)).toBe(0)
      }),
    )
  })

  test.each(both('approval.expire'))('%s: expired once, nothing is sent', async (fault) => {
    const started = held.pop() as Started
    const runId = await started.runId
    const approvalId = await heldMail(started)
    // Only the stored deadline changes: a run's timer with this deadline could fire as early as the sweeper.
    await home.faults.at(fault, () => {
      void home.query('update approvals set expires_at = clock_timestamp() where id = $1', [approvalId])
    })
    waiting.push(
      home.member.untilStatus(runId, 'expired').then(() => expect(home.sink.count(started.subject)).toBe(0)),
    )
  })

  test.each(both('effect.resolve'))('%s: an unknown outcome is resolved once', async (fault) => {
    const started = held.pop() as Started
    const runId = await started.runId
    await home.sink.behave({ kind: 'drop', taken: true })
    await approve(await heldMail(started))
    await home.member.untilRun(runId, 'unknown', (run) => mailOf(run).status === 'unknown_outcome')
    await home.sink.behave({ kind: 'accept' })
    let answer!: Promise<Answer<Run>>
    await home.faults.at(fault, () => {
      answer = home.approver.resolve(runId, 'send', 'done', { key: randomUUID() })
    })
    waiting.push(
      answer.then(async ({ status }) => {
        expect(status).toBe(200)
        await expectFinished(home, runId, started.subject)
      }),
    )
  })

  test.each(both('effect.spend'))('%s: no cost is lost, and the model answers', async (fault) => {
    await home.member.good('POST', '/tools/llm_generate/connect', model.connection)
    const steps = [{ id: 'ask', tool: 'llm_generate', params: { prompt: 'why?', max_tokens: 5 } }]
    const asking = await home.member.createWorkflow(fault, { steps })
    let runId!: Promise<string>
    await home.faults.at(fault, () => {
      runId = home.member.execute(asking, {}, { key: randomUUID() })
    })
    const { cost } = await home.member.untilStatus(await runId, 'completed')
    // The price of 3 input tokens at 5 and 2 output tokens at 25 units a million. An attempt that died adds its highest
    // possible cost.
    expect(cost).toBeCloseTo(fault === 'effect.spend:after' ? 0.000_065 + 0.010_145 : 0.000_065, 9)
  })

  test.each(['effect.decide:after', 'effect.outcome:after'] as const)(
    '%s: an approved write whose key was changed writes nothing, and asks once more',
    async (fault) => {
      const key = `approved/${fault}`
      const store = (value: string) => home.admin.good('PUT', `/memory/${encodeURIComponent(key)}`, { value })
      const stored = async () =>
        (await home.admin.good<{ value: unknown }>('GET', `/memory/${encodeURIComponent(key)}`)).value
      const prefix = [{ param: 'key', operator: 'contains', value: 'approved/' }]
      await home.admin.createRule({
        name: key,
        verdict: 'require_approval',
        tools: ['memory_set'],
        params: prefix,
      })
      const step = { id: 'set', tool: 'memory_set', params: { key, value: 'new' } }
      const keeps = await home.member.createWorkflow(key, { steps: [step] })
      await store('old')
      let accepted!: Promise<string>
      // In one case the worker dies right after the hold, in the other case it dies later.
      if (fault === 'effect.decide:after')
        await home.faults.at(fault, () => {
          accepted = home.member.execute(keeps, {}, { key: randomUUID() })
        })
      else accepted = home.member.execute(keeps, {})
      const runId = await accepted
      const first = await home.approver.untilHeld(runId, 'step')
      expect(await home.approver.pending(runId)).toHaveLength(1)
      await store('other')
      await home.faults.at(fault, () => waiting.push(approve(first)))
      const second = async () => (await home.approver.pending(runId)).find(({ id }) => id !== first)
      await until('it is held again', async () => (await second()) !== undefined)
      expect(await stored()).toBe('other')
      expect(await second()).toMatchObject({
        supersedes_id: first,
        votes: [],
        preview: { diff: { before: '"other"', after: '"new"' } },
      })
      await approve((await second())?.id ?? '')
      await home.member.untilStatus(runId, 'completed')
      expect(await stored()).toBe('new')
    },
  )

  test.each(both('org.change'))('%s: a setting is changed once', async (fault) => {
    const threshold = fault.endsWith('before') ? 3 : 1
    let answer!: Promise<unknown>
    await home.faults.at(fault, () => {
      answer = home.owner.settings({ approval_threshold: threshold })
    })
    expect(await answer).toMatchObject({ approval_threshold: threshold })
  })

  test.each(both('notification.plan'))('%s: messages are planned, and the run goes on', async (fault) => {
    let started!: Started
    await home.faults.at(fault, () => (started = start(fault)))
    held.push(started)
    waiting.push(approveRun(started))
    await until('no notice is left', async () => (await home.query('select from notices')).length === 0)
  })

  describe('of a message in Slack', () => {
    const deciders = ['owner', 'admin', 'approver'] as const
    const accounts = new Map<string, string>()

    beforeAll(async () => {
      slack = await startSlack({ users: deciders.map((name) => ({ name: `person-${name}` })) })
      const { members } = await askSlack(slack.url, 'users.list', {})
      for (const name of deciders) {
        const { id = '' } = members.find((member) => member.name === `person-${name}`) ?? {}
        accounts.set(name, id)
        const { user_id } = home.owner.bootstrap.users[name]
        const path = `/organizations/${home.owner.bootstrap.organization_id}/members/${user_id}/accounts/slack`
        await home.owner.good('PUT', path, { external_id: id })
      }
      slackProxy = await startFaultProxy(slack.url)
      const credential = { token: emulatorToken, base_url: slackProxy.url }
      const asked = { credential, scope: 'organization' }
      await home.owner.good('POST', '/tools/slack_send_message/connect', asked)
    })

    /** The texts of the messages about an approval, for all deciders. */
    const copies = async (approvalId: string): Promise<readonly string[]> => {
      const texts = await Promise.all(
        deciders.map(async (name) => {
          const opened = await askSlack(slack?.url ?? '', 'conversations.open', { users: accounts.get(name) })
          const asked = { channel: opened.channel.id, limit: 1_000 }
          return (await askSlack(slack?.url ?? '', 'conversations.history', asked)).messages
        }),
      )
      return texts.flat().flatMap(({ text }) => (text.includes(approvalId) ? [text] : []))
    }
    /** Ends the lease of the dead process at once. */
    const endLease = () => home.query('update notification_lanes set leased_until = null')
    const rowsOf = (approvalId: string, states: readonly ('sent' | 'updated')[]) =>
      home.query(`select from notifications where channel = 'slack' and subject = $1 and state = any($2)`, [
        approvalId,
        states,
      ])
    const shows = async (approvalId: string, words: string): Promise<void> => {
      // The sender edits a found message at once, because it does not know what the message shows.
      const states = words === '*Approved*' ? (['updated'] as const) : (['sent', 'updated'] as const)
      await until(`every copy says ${words}`, async () => {
        // The stand-in takes a limited number of requests in an hour, so the test queries the rows first.
        if ((await rowsOf(approvalId, states)).length < deciders.length) return false
        const found = await copies(approvalId)
        return found.length >= deciders.length && found.every((text) => text.startsWith(words))
      })
      expect(await copies(approvalId)).toHaveLength(deciders.length)
    }

    test.each(both('notification.intent', 'notification.sent'))(
      '%s: each has it once, also if an answer is lost',
      async (fault) => {
        let started!: Started
        let posts = 0
        if (slackProxy !== undefined)
          slackProxy.choose = (_, path) =>
            path === '/chat.postMessage' && (posts += 1) === 2 ? 'lose answer' : 'pass'
        await home.faults.at(fault, () => (started = start(fault)))
        await endLease()
        held.push(started)
        const approvalId = await home.approver.untilHeld(await started.runId, 'run')
        await shows(approvalId, '*Waits for your approval*')
        await approve(approvalId)
        await shows(approvalId, '*Approved*')
      },
    )

    test.each(both('notification.updated'))('%s: every copy says how it ended', async (fault) => {
      const started = start(fault)
      held.push(started)
      const approvalId = await home.approver.untilHeld(await started.runId, 'run')
      await shows(approvalId, '*Waits for your approval*')
      await home.faults.at(fault, () => waiting.push(approve(approvalId)))
      await endLease()
      await shows(approvalId, '*Approved*')
    })
  })

  describe('of a mail about what waits', () => {
    const prefer = (who: 'owner' | 'admin' | 'approver', mail: boolean) =>
      home[who].good('PUT', '/me/notifications', { mail, delay_seconds: 0 })
    const asked: string[] = []

    beforeAll(async () => {
      await Promise.all([prefer('owner', false), prefer('admin', false), prefer('approver', true)])
    })
    afterAll(async () => {
      await prefer('approver', false)
      for (const approvalId of asked) await approve(approvalId)
    })

    test.each([
      ['mail.intent:before', 'sent', 1],
      ['mail.intent:after', 'failed', 0],
      ['mail.sent:before', 'failed', 1],
      ['mail.sent:after', 'sent', 1],
    ] as const)('%s: it is listed as %s, and has arrived %d times', async (fault, state, arrivals) => {
      let started!: Started
      await home.faults.at(fault, () => (started = start(fault)))
      held.push(started)
      const approvalId = await home.approver.untilHeld(await started.runId, 'run')
      asked.push(approvalId)
      const own = `channel = 'mail' and event = 'approval.created' and subject = $1`
      await until('the mail is settled', async () => {
        // Ends the lease of the dead process at once.
        await home.query(`update notifications set next_attempt_at = now() where ${own} and state = 'pending'`, [approvalId]) // prettier-ignore
        return (await home.query(`select from notifications where ${own} and state = $2`, [approvalId, state])).length === 1
      }) // prettier-ignore
      const raw = home.sink.deliveries().map((mail) => mail.raw.replaceAll(/=\r?\n/g, ''))
      expect(raw.filter((text) => text.includes(approvalId))).toHaveLength(arrivals)
    })
  })

  const question = (session: string, tool: string) => ({
    agent: { name: 'a', kind: 'hook' },
    session_id: session,
    tool_name: tool,
    tool_input: {},
    tool_use_id: `${session}-1`,
  })

  test.each(both('agent.decide'))('%s: an agent’s call is decided once', async (fault) => {
    let answer!: Promise<Answer<{ decision: string; decision_id: string; session_run_id: string }>>
    await home.faults.at(fault, () => {
      answer = home.member.call('POST', '/authorize', question(fault, 'Read'))
    })
    const { body } = await answer
    expect(body.decision).toBe('allow')
    const receipt = await home.member.good<{ decisions: { decision_id: string }[] }>(
      'GET',
      `/runs/${body.session_run_id}/authorization`,
    )
    expect(receipt.decisions.map((each) => each.decision_id)).toEqual([body.decision_id])
  })

  test.each(both('agent.session'))(
    '%s: a session is revoked once, with its pending approvals',
    async (fault) => {
      await home.admin.createRule({ name: fault, verdict: 'require_approval', tools: ['Write'] })
      const held = await home.member.good<{ approval_id: string }>(
        'POST',
        '/authorize',
        question(fault, 'Write'),
      )
      const { data } = await home.admin.good<{ data: { id: string }[] }>(
        'GET',
        `/agent-sessions?session_id=${encodeURIComponent(fault)}`,
      )
      const id = data[0]?.id ?? ''
      let answer!: Promise<Answer<{ status: string }>>
      await home.faults.at(fault, () => {
        answer = home.admin.call('POST', `/agent-sessions/${id}/revoke`, {})
      })
      expect((await answer).body.status).toBe('revoked')
      expect(await home.approver.approval(held.approval_id)).toMatchObject({ status: 'cancelled' })
      const audited = await home.query(
        "select 1 from audit_events where event_type = 'agent_session.revoked' and canonical like $1",
        [`%${id}%`],
      )
      expect(audited).toHaveLength(1)
    },
  )

  test.each(both('webhook.fan_out', 'webhook.record'))(
    '%s: the message arrives, and a repetition has its id',
    async (fault) => {
      const receiver = await startScriptedServer()
      receiver.answer = () => ({ status: 204 })
      const webhooks = `/organizations/${home.owner.bootstrap.organization_id}/webhooks`
      const { id } = await home.owner.good<{ id: string }>('POST', webhooks, {
        url: receiver.url,
        events: ['run.failed'],
      })
      await home.faults.at(fault, () => {
        void home.owner.call('POST', `${webhooks}/${id}/test`, {})
      })
      // Ends the lease of the dead worker at once; it would last up to a minute.
      await home.query(
        'update webhooks set leased_until = null, due_at = now() where leased_until is not null',
      )
      await until('the delivery has ended', async () => {
        const path = `${webhooks}/${id}/deliveries`
        const { data } = await home.owner.good<{ data: { state: string }[] }>('GET', path)
        return data.length === 1 && data[0]?.state === 'delivered'
      })
      const ids = receiver.arrived.map(({ headers }) => headers['webhook-id'])
      expect(new Set(ids).size).toBe(1)
      expect(ids).toHaveLength(fault === 'webhook.record:before' ? 2 : 1)
      await home.owner.call('DELETE', `${webhooks}/${id}`)
      await receiver.close()
    },
  )

  test('every remaining run ends correctly', async () => {
    for (const started of held.splice(0)) {
      await approve(await heldMail(started))
      waiting.push(started.runId.then((runId) => expectFinished(home, runId, started.subject)))
    }
    await Promise.all(waiting)
    await expectQuiet(home)
  })

  test('every named point was covered, before and after', () => {
    const every = both(...(Object.keys(commitPoints) as CommitPoint[]))
    expect([...new Set(home.faults.fired)].sort()).toEqual(every.sort())
  })
})
