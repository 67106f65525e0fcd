import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { until } from '../../stack/until.ts'
import { emulatorToken, type Emulator } from '../../support/emulators.ts'
import { startFaultProxy, type FaultProxy } from '../../support/fault-proxy.ts'
import { askSlack, startSlack } from '../../support/slack-emulator.ts'
import { both, type Kills, type Started } from './kills.ts'

/** Kills while people get messages about what waits. */
export function aroundMessages(kills: Kills): void {
  let slack: Emulator | undefined
  let slackProxy: FaultProxy | undefined
  // The last tests still edit messages.
  afterAll(() => Promise.all([slackProxy?.close(), slack?.close()]))

  const noNotice = () =>
    until('no notice is left', async () => (await kills.home.query('select from notices')).length === 0)

  test.each(both('notification.plan'))('%s: messages are planned, and the run goes on', async (fault) => {
    let started!: Started
    await kills.home.faults.at(fault, () => (started = kills.start(fault)))
    kills.held.push(started)
    kills.later(kills.approveRun(started))
    await noNotice()
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
        const { user_id } = kills.home.owner.bootstrap.users[name]
        const { organization_id: organizationId } = kills.home.owner.bootstrap
        await kills.home.query(
          `update memberships set slack_account = $1, slack_linked_at = now()
           where user_id = $2 and organization_id = $3`,
          [id, user_id, organizationId],
        )
      }
      slackProxy = await startFaultProxy(slack.url)
      const credential = { token: emulatorToken, base_url: slackProxy.url }
      const asked = { credential, scope: 'organization' }
      await kills.home.owner.good('POST', '/tools/slack_send_message/connect', asked)
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
    const endLease = () =>
      kills.home.query(`update lanes set leased_until = now() where kind = 'slack' and turn is not null`)
    const rowsOf = (approvalId: string, states: readonly ('sent' | 'updated')[]) =>
      kills.home.query(
        `select from notifications where channel = 'slack' and subject = $1 and state = any($2)`,
        [approvalId, states],
      )
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
        await kills.home.faults.at(fault, () => (started = kills.start(fault)))
        await endLease()
        kills.held.push(started)
        const approvalId = await kills.home.approver.untilHeld(await started.runId, 'run')
        await shows(approvalId, '*Waits for your approval*')
        await kills.approve(approvalId)
        await shows(approvalId, '*Approved*')
      },
    )

    test.each(both('notification.updated'))('%s: every copy says how it ended', async (fault) => {
      const started = kills.start(fault)
      kills.held.push(started)
      const approvalId = await kills.home.approver.untilHeld(await started.runId, 'run')
      await shows(approvalId, '*Waits for your approval*')
      await kills.home.faults.at(fault, () => kills.later(kills.approve(approvalId)))
      await endLease()
      await shows(approvalId, '*Approved*')
    })
  })

  describe('of a mail about what waits', () => {
    const asked: string[] = []

    // A mail about another run would meet the armed point first. So the other runs reach their held mails before, while
    // nobody gets mails.
    beforeAll(async () => {
      await Promise.allSettled(kills.waiting)
      for (const started of kills.held) await kills.heldMail(started)
      await noNotice()
      await kills.preferMails('approver', true)
    })
    afterAll(async () => {
      await kills.preferMails('approver', false)
      for (const approvalId of asked) await kills.approve(approvalId)
    })

    test.each([
      ['mail.intent:before', 'sent', 1],
      ['mail.intent:after', 'failed', 0],
      ['mail.sent:before', 'failed', 1],
      ['mail.sent:after', 'sent', 1],
    ] as const)('%s: it is listed as %s, and has arrived %d times', async (fault, state, arrivals) => {
      let started!: Started
      await kills.home.faults.at(fault, () => (started = kills.start(fault)))
      kills.held.push(started)
      const approvalId = await kills.home.approver.untilHeld(await started.runId, 'run')
      asked.push(approvalId)
      // Ends the lease of the dead process at once.
      await kills.home.query(`update lanes set leased_until = now() where kind = 'mail' and turn is not null`)
      const own = `channel = 'mail' and event = 'approval.created' and subject = $1`
      await until('the mail is settled', async () => {
        return (await kills.home.query(`select from notifications where ${own} and state = $2`, [approvalId, state])).length === 1
      }) // prettier-ignore
      const raw = kills.home.sink.deliveries().map((mail) => mail.raw.replaceAll(/=\r?\n/g, ''))
      expect(raw.filter((text) => text.includes(approvalId))).toHaveLength(arrivals)
    })
  })
}
