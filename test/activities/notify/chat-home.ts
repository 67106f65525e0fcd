import { slackSender } from '../../../src/activities/notify/chat.ts'
import type { ChatTiming } from '../../../src/activities/notify/send.ts'
import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { connect } from '../../../src/governance/connections/connections.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { effectOf, holdRule, opOf, startEngine } from '../../governance/runs/engine-fixture.ts'
import { link } from '../../governance/notifications/people.ts'
import { until } from '../../stack/until.ts'
import { emulatorToken, type Emulator } from '../../support/emulators.ts'
import { startFaultProxy } from '../../support/fault-proxy.ts'
import { askSlack, startSlack, type SlackMessage } from '../../support/slack-emulator.ts'

const names = ['owner', 'admin', 'approver', 'member'] as const

export type ChatHome = Awaited<ReturnType<typeof startChatHome>>

const deciders = ['owner', 'admin', 'approver'] as const

/** Starts an engine whose organization is connected to a stand-in for Slack behind a proxy, with linked people. */
export async function startChatHome(people: readonly string[] = names, environment: NodeJS.ProcessEnv = {}) {
  const [engine, emulator] = await Promise.all([
    startEngine(environment),
    startSlack({ users: people.map((name) => ({ name: `person-${name}` })) }),
  ])
  const proxy = await startFaultProxy(emulator.url)
  const accounts = await accountsOf(emulator)
  const linked = Object.fromEntries(
    names.filter((name) => name in accounts).map((name) => [name, accounts[name]]),
  )
  const { context } = engine
  const ids = await link(engine, linked)
  const plan = () => planNotifications(context, [planSlack])
  /** Starts a sender with the context of this process or of another one. */
  const send = (of = context, timing: Partial<ChatTiming> = {}) =>
    startRunner(
      of,
      [
        slackSender(of, {
          ...{ retrySeconds: 0.05, speed: 1_000, leaveMilliseconds: 30_000, turnMilliseconds: 60_000 },
          ...timing,
        }),
      ],
      20,
    )
  /** Resolves once no message is due, now or later. */
  const quiet = () =>
    until('no message is due', async () => {
      const due = 'select 1 from notifications where shown < wanted and id = message_id limit 1'
      return (await context.pool.query(due)).rows.length === 0
    })
  /** The direct messages of a person, the oldest first. */
  async function messages(name: string): Promise<readonly SlackMessage[]> {
    const { channel } = await askSlack(emulator.url, 'conversations.open', { users: accounts[name] })
    const asked = { channel: channel.id, limit: 1_000 }
    return (await askSlack(emulator.url, 'conversations.history', asked)).messages.toReversed()
  }
  async function connectSlack(): Promise<void> {
    const credential = { token: emulatorToken, base_url: proxy.url }
    const asked = { tool: 'slack_send_message', credential, scope: 'organization', name: undefined } as const
    await connect(context, engine.caller('owner'), asked, new AbortController().signal)
  }
  await connectSlack()
  return {
    ...{ engine, proxy, accounts, ids, plan, send, quiet, messages, connectSlack },
    /** Holds a call of the member; returns its approval. */
    async hold(over = {}): Promise<string> {
      await engine.rules(holdRule(over))
      const op = opOf(await engine.run())
      await engine.decide(op)
      return (await effectOf(context, op))?.approval_id as string
    },
    /** Makes everything that waits due now. */
    async hurry(): Promise<void> {
      await context.pool.query('update notifications set next_attempt_at = now()')
      await context.pool.query(`update lanes set due_at = now(), paused_until = null where kind = 'slack'`)
    },
    /** Plans, sends with one sender, and resolves once nothing is left to do. */
    async settle(): Promise<void> {
      await plan()
      const chat = send()
      await quiet()
      await chat.stop()
    },
    /** All messages' rows, the newest first. */
    rows: () => context.db.selectFrom('notifications').selectAll().orderBy('id', 'desc').execute(),
    /** The texts of all messages about an approval, to everybody who decides. */
    async copies(approvalId: string): Promise<readonly string[]> {
      const all = await Promise.all(deciders.map(messages))
      return all.flat().flatMap(({ text }) => (text.includes(approvalId) ? [text] : []))
    },
    async close(): Promise<void> {
      await engine.close()
      await Promise.all([proxy.close(), emulator.close()])
    },
  }
}

/** The account of the token, `admin`, belongs to none of the people. */
async function accountsOf({ url }: Emulator): Promise<Record<string, string>> {
  const { members } = await askSlack(url, 'users.list', { limit: 1_000 })
  const people = members.filter(({ name }) => name.startsWith('person-'))
  return Object.fromEntries(people.map(({ name, id }) => [name.replace('person-', ''), id]))
}
