import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { linkSlackAccount } from '../../../src/governance/people/slack-accounts.ts'
import { startChatHome, type ChatHome } from './chat-home.ts'

/* Codes that prove who owns a Slack account, and their messages to a stand-in for Slack. */

let home: ChatHome
beforeAll(async () => {
  home = await startChatHome()
})
beforeEach(async () => {
  const { db } = home.engine.context
  home.proxy.choose = () => 'pass'
  await db.deleteFrom('slack_claims').execute()
  const nobody = { slack_account: null, slack_linked_at: null }
  await db.updateTable('memberships').set(nobody).where('user_id', '=', member().userId).execute()
})
afterAll(() => home?.close())

const member = () => home.engine.caller('member')
const link = (account: string, code?: string) =>
  linkSlackAccount(home.engine.context, member(), member().userId, { external_id: account, code })
const own = () => home.accounts['member'] as string
/** The texts of messages about accounts in the member's own conversation, the newest last. */
const texts = async (): Promise<readonly string[]> => (await home.messages('member')).map(({ text }) => text)

test('a code goes to the account that was named, once, and links it', async () => {
  const before = (await texts()).length
  expect(await link(own())).toMatchObject({ linked: false })
  await home.settle()
  const [text = '', ...more] = (await texts()).slice(before)
  expect(more).toEqual([])
  expect(text).toMatch(/^\*Is this your Slack account\?\* `.*member.*` in `.*` says so\.$/m)
  expect(text).toContain('do not give the code to anybody')
  expect(text).toMatch(/\/console\/account\|/)
  const [, first = '', second = ''] = /^Code: `(\d{4}) (\d{4})`, until <!date/m.exec(text) ?? []
  expect(await link(own(), first + second)).toMatchObject({ linked: true })
  await home.settle()
  // The message stays, but without its code.
  expect((await texts()).slice(before)).toEqual([expect.stringMatching(/^\*Linked\*: the code was typed in/)])
  const rows = (await home.rows()).filter(({ event }) => event === 'account.code')
  expect(rows[0]).toMatchObject({ state: 'updated', attempts: 1, recipient: member().userId })
})

test.each([
  ['the answer is lost', 'lose answer'],
  ['the request is lost', 'cut'],
  ['502 comes back after it was carried out', 'fail after'],
] as const)('if %s, the code arrives once', async (_, fault) => {
  const before = (await texts()).length
  let left = 1
  home.proxy.choose = (_, path) => (path === '/chat.postMessage' && (left -= 1) >= 0 ? fault : 'pass')
  await link(own())
  await home.settle()
  expect((await texts()).slice(before)).toEqual([expect.stringContaining('Code: `')])
})

test('a code that ended before it was sent is not sent, and one that was replaced says so', async () => {
  const { db } = home.engine.context
  const before = (await texts()).length
  await link(own())
  await db
    .updateTable('slack_claims')
    .set({ expires_at: new Date(0) })
    .execute()
  await home.settle()
  expect((await texts()).slice(before)).toEqual([])
  await link(own())
  await home.settle()
  await link(home.accounts['admin'] as string).catch(() => undefined) // linked to the admin: refused
  await link('U0ELSEWHERE')
  await home.settle()
  expect((await texts()).slice(before)).toEqual([
    expect.stringMatching(/^\*This code is no longer valid\*\./),
  ])
})

test('the names of strangers stay one line of text', async () => {
  const { context, organizationId } = home.engine
  const name = '`*x* <!channel>\n*Linked* <https://evil.test|here>\u202e'
  await context.db.updateTable('organizations').set({ name }).where('id', '=', organizationId).execute()
  await link(own())
  await home.settle()
  const text = (await texts()).at(-1) ?? ''
  expect(text.split('\n')).toHaveLength(4)
  expect(text).toContain('in `ˋ*x* &lt;!channel&gt; *Linked* &lt;https://evil.test|here&gt;U+202E` says so')
})
