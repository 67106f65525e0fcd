import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { addPerson } from '../../api/fixtures.ts'
import { effectOf, holdRule, opOf } from '../../governance/runs/engine-fixture.ts'
import { until } from '../../stack/until.ts'
import { startChatHome, type ChatHome } from './chat-home.ts'

/*
 * Many approvals for many people at once, with the limits of Slack made 100 times faster. `MANY_MESSAGES=1` sends 10,000
 * messages, which takes minutes.
 */

const [approvals, people] = process.env['MANY_MESSAGES'] === '1' ? [200, 50] : [30, 12]
const names = Array.from({ length: people }, (_, index) => `many${index}`)

let home: ChatHome
beforeAll(async () => {
  home = await startChatHome(names)
  const { context, organizationId } = home.engine
  for (const name of names) {
    const { userId } = await addPerson(context, organizationId, 'admin')
    await context.db
      .updateTable('memberships')
      .set({ slack_account: home.accounts[name] as string, slack_linked_at: new Date() })
      .where('user_id', '=', userId)
      .where('organization_id', '=', organizationId)
      .execute()
  }
})
afterAll(() => home?.close())

/** Slack's limits, in requests per minute. In this test a minute is 100 times shorter. */
const limits: Readonly<Record<string, number>> = {
  '/chat.postMessage': 240,
  '/chat.update': 50,
  '/conversations.open': 50,
  '/conversations.history': 50,
}
const minute = 600
/** Requests that may already be on their way when Slack begins to refuse. */
const underWay = 16

const due = async (): Promise<number> => {
  const { rows } = await home.engine.context.pool.query<{ count: number }>(
    'select count(*)::int as count from notifications where shown < wanted and id = message_id',
  )
  return rows[0]?.count ?? 0
}

/** Waits while the number of messages that are due falls, however long this takes. */
async function everythingIsSent(): Promise<void> {
  for (let left = await due(); left > 0; left = await due()) {
    const before = left
    await until('some more are sent', async () => (await due()) < before)
  }
}

test(`${approvals} approvals for ${people} people: none is lost or doubled, and the limits are kept`, async () => {
  const seen = new Map<string, number[]>()
  let patientUntil = 0
  let impatient = 0
  let refusals = 0
  home.proxy.choose = (_, path) => {
    const now = performance.now()
    if (now < patientUntil) impatient += 1
    const times = (seen.get(path) ?? []).filter((time) => time > now - minute)
    times.push(now)
    seen.set(path, times)
    if (times.length <= (limits[path] ?? Infinity)) return 'pass'
    refusals += 1
    patientUntil = now + 1_000
    return { status: 429, headers: { 'retry-after': '1' } }
  }
  const ids: string[] = []
  await home.engine.rules(holdRule())
  for (let each = 0; each < approvals; each += 1) {
    const op = opOf(await home.engine.run())
    await home.engine.decide(op)
    ids.push((await effectOf(home.engine.context, op))?.approval_id as string)
  }
  const chats = [home.send(undefined, { speed: 100 }), home.send(home.engine.another(), { speed: 100 })]
  while ((await home.plan()) !== 0);
  await everythingIsSent()
  const mostEnded = ids.slice(0, 10)
  for (const id of mostEnded) await home.engine.vote(id, 'approver', 'reject')
  while ((await home.plan()) !== 0);
  await everythingIsSent()
  await Promise.all(chats.map((chat) => chat.stop()))
  home.proxy.choose = () => 'pass'
  for (const name of names) {
    const texts = (await home.messages(name)).map(({ text }) => text)
    expect(texts).toHaveLength(approvals)
    const about = texts.map((text) => /approvals\/(apr_\w+)/.exec(text)?.[1])
    expect(new Set(about)).toEqual(new Set(ids))
    const ended = texts.filter((text) => text.startsWith('*Rejected*'))
    expect(ended).toHaveLength(mostEnded.length)
  }
  expect(impatient).toBeLessThanOrEqual(refusals * underWay)
}, 1_200_000)
