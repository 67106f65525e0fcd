import { startChat, type Chat } from '../../../src/activities/notify/chat.ts'
import type { ChatTiming } from '../../../src/activities/notify/send.ts'
import type { Selectable } from 'kysely'
import { connect } from '../../../src/governance/connections/connections.ts'
import type { NotificationsTable } from '../../../src/db/schema/notifications.ts'
import type { Context } from '../../../src/governance/context.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import { effectOf, holdRule, opOf, startEngine, type Engine } from '../../governance/runs/engine-fixture.ts'
import { link } from '../../governance/notifications/people.ts'
import { until } from '../../stack/until.ts'
import { emulatorToken, type Emulator } from '../../support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../../support/fault-proxy.ts'
import { askSlack, startSlack, type SlackMessage } from '../../support/slack-emulator.ts'

const names = ['owner', 'admin', 'approver', 'member'] as const

/** An engine whose organization is connected to a stand-in for Slack behind a proxy, with four linked people. */
export interface ChatHome {
  readonly engine: Engine
  readonly proxy: FaultProxy
  readonly ids: Readonly<Record<string, string>>
  readonly accounts: Readonly<Record<string, string>>
  /** Holds a call of the member; returns its approval. */
  hold(over?: object): Promise<string>
  plan(): Promise<unknown>
  /** Starts a sender with the context of this process or of another one. */
  send(context?: Context, timing?: Partial<ChatTiming>): Chat
  /** Plans, sends with one sender, and resolves once nothing is left to do. */
  settle(): Promise<void>
  /** Resolves once no message is due, now or later. */
  quiet(): Promise<void>
  /** The direct messages of a person, the oldest first. */
  messages(name: string): Promise<readonly SlackMessage[]>
  /** All messages' rows, the newest first. */
  rows(): Promise<readonly Selectable<NotificationsTable>[]>
  /** The texts of all messages about an approval, to everybody who decides. */
  copies(approvalId: string): Promise<readonly string[]>
  connectSlack(): Promise<void>
  close(): Promise<void>
}

const deciders = ['owner', 'admin', 'approver'] as const

export async function startChatHome(people: readonly string[] = names): Promise<ChatHome> {
  const [engine, emulator] = await Promise.all([
    startEngine(),
    startSlack({ users: people.map((name) => ({ name: `person-${name}` })) }),
  ])
  const proxy = await startFaultProxy(emulator.url)
  const accounts = await accountsOf(emulator)
  const linked = Object.fromEntries(
    names.filter((name) => name in accounts).map((name) => [name, accounts[name]]),
  )
  const home: ChatHome = {
    engine,
    proxy,
    accounts,
    ids: await link(engine, linked),
    async hold(over = {}) {
      await engine.rules(holdRule(over))
      const op = opOf(await engine.run())
      await engine.decide(op)
      return (await effectOf(engine.context, op))?.approval_id as string
    },
    plan: () => planNotifications(engine.context, [planSlack]),
    send: (context = engine.context, timing = {}) =>
      startChat(context, {
        pollMilliseconds: 20,
        retrySeconds: 0.05,
        speed: 1_000,
        leaveMilliseconds: 30_000,
        turnMilliseconds: 60_000,
        ...timing,
      }),
    async settle() {
      await home.plan()
      const chat = home.send()
      await home.quiet()
      await chat.stop()
    },
    quiet: () =>
      until('no message is due', async () => {
        const { rows } = await engine.context.pool.query(
          'select 1 from notifications where shown < wanted and id = message_id limit 1',
        )
        return rows.length === 0
      }),
    async messages(name) {
      const { channel } = await askSlack(emulator.url, 'conversations.open', { users: accounts[name] })
      const { messages } = await askSlack(emulator.url, 'conversations.history', {
        channel: channel.id,
        limit: 1_000,
      })
      return messages.toReversed()
    },
    rows: () => engine.context.db.selectFrom('notifications').selectAll().orderBy('id', 'desc').execute(),
    async copies(approvalId) {
      const all = await Promise.all(deciders.map((name) => home.messages(name)))
      return all.flat().flatMap(({ text }) => (text.includes(approvalId) ? [text] : []))
    },
    async connectSlack() {
      const credential = { token: emulatorToken, base_url: proxy.url }
      const asked = {
        tool: 'slack_send_message',
        credential,
        scope: 'organization',
        name: undefined,
      } as const
      await connect(engine.context, engine.caller('owner'), asked, new AbortController().signal)
    },
    async close() {
      await engine.close()
      await Promise.all([proxy.close(), emulator.close()])
    },
  }
  await home.connectSlack()
  return home
}

/** The account of the token, `admin`, belongs to none of the people. */
async function accountsOf({ url }: Emulator): Promise<Record<string, string>> {
  const { members } = await askSlack(url, 'users.list', { limit: 1_000 })
  const people = members.filter(({ name }) => name.startsWith('person-'))
  return Object.fromEntries(people.map(({ name, id }) => [name.replace('person-', ''), id]))
}
