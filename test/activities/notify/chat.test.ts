import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { type ChatHome, startChatHome } from './chat-home.ts'
import { answerQuestion } from '../../../src/calls/runs/answer.ts'
import { askStep, effectOf, holdRule, makeLate, opOf } from '../../governance/runs/engine-fixture.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { supersedeApproval, writeAtOnce } from '../../../src/governance/approvals/moves.ts'
import { loadApproval } from '../../../src/governance/approvals/records.ts'
import { revokeConnection } from '../../../src/governance/connections/connections.ts'
import { openClaimsOf } from '../../../src/governance/notifications/claims.ts'
import {
  linkSlackAccount,
  slackAccountOf,
  unlinkSlackAccount,
} from '../../../src/governance/people/slack-accounts.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { until } from '../../stack/until.ts'
import type { Fault } from '../../support/fault-proxy.ts'

/* Messages from the rows to a stand-in for Slack that keeps state. */

let home: ChatHome
beforeAll(async () => {
  home = await startChatHome()
})
beforeEach(async () => {
  home.proxy.choose = () => 'pass'
  await home.settle()
})
afterAll(() => home?.close())

const rows = () => home.rows()
const copies = (approvalId: string) => home.copies(approvalId)
const textsOf = async (name: string, approvalId: string): Promise<readonly string[]> =>
  (await home.messages(name)).map(({ text }) => text).filter((text) => text.includes(approvalId))
const runOf = async (approvalId: string): Promise<string> => {
  const own = home.engine.context.db.selectFrom('approvals').select('run_id').where('id', '=', approvalId)
  return (await own.executeTakeFirstOrThrow()).run_id as string
}

/** Runs `work` while two people must approve. */
async function withTwoVotes(work: () => Promise<void>): Promise<void> {
  await home.engine.settings({ approval_threshold: 2 })
  try {
    await work()
  } finally {
    await home.engine.settings({ approval_threshold: 1 })
  }
}

/** Accepts a run whose step has this many items, and decides those that are named. */
async function runWithItems(count: number, items = Array.from({ length: count }, (_, item) => item)) {
  const { engine } = home
  await engine.rules(holdRule())
  const runId = await engine.run()
  const own = engine.context.db.updateTable('run_steps').set({ item_count: count })
  await own.where('run_id', '=', runId).execute()
  const ops = items.map((item) => opOf(runId, { item }))
  for (const op of ops) await engine.decide(op)
  return { runId, ops }
}

describe('a message', () => {
  test('says what waits and why, and who decided', async () => {
    const id = await home.hold({ name: 'hold & ask' })
    await home.settle()
    const waiting = await copies(id)
    expect(waiting).toHaveLength(3)
    for (const text of waiting) {
      expect(text).toMatch(/^\*Waits for your approval\*: `mail_send` in step `s` of workflow `w`$/m)
      expect(text).toMatch(/^Rule: `hold &amp; ask`$/m)
      expect(text).toMatch(/^Risk: high \(/m)
      expect(text).toMatch(/^Asked by: `.*member.*`$/m)
      expect(text).toMatch(/^Expires: <!date\^\d+\^/m)
      expect(text).toMatch(new RegExp(`/console/approvals/${id}\\|Open it`))
      // The value of the call's parameter.
      expect(text).not.toContain('a@b.test')
    }
    expect(await textsOf('member', id)).toEqual([])
    await home.engine.vote(id, 'approver')
    await home.settle()
    for (const text of await copies(id)) expect(text).toMatch(/^\*Approved\* by `.*`: `mail_send`/)
    expect(await copies(id)).toHaveLength(3)
    expect(await textsOf('member', id)).toEqual([expect.stringMatching(/^\*Approved\* by/)])
    const sent = (await rows()).filter(({ subject, event }) => subject === id && event === 'approval.created')
    expect(sent.map(({ state, attempts, last_error }) => [state, attempts, last_error])).toEqual(
      Array.from({ length: 3 }, () => ['updated', 1, null]),
    )
  })

  test('with a question says who asks, leads to its page, and then who answered', async () => {
    const { context, caller } = home.engine
    const ask = {
      to: 'requester',
      title: 'Refund <this> order?',
      show: { order: '4711' },
      choices: ['yes', 'no'],
    }
    const runId = await home.engine.run({ steps: [{ id: 's', ask }] })
    const held = await askStep(context, runId)
    const id = held.state === 'held' ? (held.approvalId ?? '') : ''
    await home.settle()
    const [text = '', ...more] = await textsOf('member', id)
    expect(more).toEqual([])
    expect(text).toMatch(/^\*Workflow\* `w` \*asks you\*: `Refund &lt;this&gt; order\?`$/m)
    expect(text).toMatch(new RegExp(`/console/approvals/${id}\\|Open it to answer`))
    expect(text).not.toMatch(/4711|Risk|pprove/)
    expect(await copies(id)).toEqual([])
    await answerQuestion(context, { caller: caller('member'), approvalId: id, answer: 'yes' })
    await home.settle()
    expect(await textsOf('member', id)).toEqual([
      expect.stringMatching(/^\*Answered\* by `member@.*`: `Refund &lt;this&gt; order\?` of workflow `w`/),
    ])
  })

  test.each([
    ['Rejected', (id: string): Promise<unknown> => home.engine.vote(id, 'admin', 'reject')],
    [
      'Expired',
      async (id: string): Promise<unknown> => {
        await makeLate(home.engine.context, id)
        return expireDue(home.engine.context)
      },
    ],
    [
      'Withdrawn',
      async (id: string): Promise<unknown> =>
        finishRun(home.engine.context, { runId: await runOf(id), status: 'cancelled' }),
    ],
    [
      'Replaced',
      async (id: string): Promise<unknown> =>
        home.engine.context.combiner.run(home.engine.organizationId, 'org.change', async (tx) => {
          const { approval } = (await loadApproval(tx, sql`id = ${id}`)) ?? {}
          if (approval !== undefined) supersedeApproval(writeAtOnce(tx), approval, 'apr_2')
          tx.append({ eventType: 'organization.queue_changed', action: 'a', status: 'success', actor: { type: 'system', id: 'x' } })
        }), // prettier-ignore
    ],
  ] as const)('that waits becomes %s in every copy', async (word, end) => {
    const id = await home.hold()
    await home.settle()
    await end(id)
    await home.settle()
    const texts = await copies(id)
    expect(texts).toHaveLength(3)
    for (const text of texts) expect(text.startsWith(`*${word}*`)).toBe(true)
  })

  test('says to each person what is left: nothing to the voter, and the count to the others', () =>
    withTwoVotes(async () => {
      const { engine } = home
      const id = await home.hold()
      await home.settle()
      for (const text of await copies(id))
        expect(text).toMatch(/^\*Waits for your approval\* \(0 of 2 votes given\): /)
      await engine.vote(id, 'admin')
      await home.settle()
      const [voter] = await textsOf('admin', id)
      expect(voter).toMatch(/^\*You approved\*, 1 more vote is needed: `mail_send`/)
      expect(voter).not.toContain('Open it to approve')
      for (const name of ['owner', 'approver'])
        expect((await textsOf(name, id))[0]).toMatch(/^\*Waits for your approval\* \(1 of 2 votes given\): /)
      const later = await home.hold()
      await home.plan()
      await engine.vote(later, 'admin')
      await home.settle()
      expect(await textsOf('admin', later)).toEqual([])
      expect(await textsOf('owner', later)).toHaveLength(1)
      for (const each of [id, later]) await engine.vote(each, 'approver')
      await home.settle()
      for (const text of await copies(id)) expect(text).toMatch(/^\*Approved\* by `.*`, `.*`: /)
    }))

  test('asks a voter again if their vote counts again, and asks nobody whose role was taken away', async () => {
    const { engine } = home
    const { userId } = engine.caller('admin')
    const make = (role: string) =>
      engine.context.pool.query('update memberships set role = $1 where user_id = $2', [role, userId])
    await engine.settings({ approval_threshold: 2 })
    try {
      const id = await home.hold()
      await home.plan()
      await engine.vote(id, 'admin')
      await make('member')
      await engine.vote(id, 'approver')
      await make('admin')
      await home.settle()
      expect((await textsOf('admin', id))[0]).toMatch(/^\*Waits for your approval\* \(2 of 2 votes given\): /)
      const other = await home.hold()
      await home.settle()
      await make('member')
      await engine.vote(other, 'approver')
      await home.settle()
      const [text] = await textsOf('admin', other)
      expect(text).toMatch(/^\*Waits for the approval of others\* \(1 of 2 votes given\): /)
      expect(text).not.toContain('Open it to approve')
    } finally {
      await make('admin')
      await engine.settings({ approval_threshold: 1 })
    }
  })

  test('is not sent after the wait has ended or while messages are off; earlier copies are still edited', async () => {
    const early = await home.hold()
    await home.plan()
    await home.engine.vote(early, 'approver')
    await home.settle()
    expect(await copies(early)).toEqual([])
    const sent = await home.hold()
    await home.settle()
    const off = await home.hold()
    await home.plan()
    await home.engine.settings({ slack_approval_notifications: false })
    try {
      await home.engine.vote(sent, 'approver')
      await home.settle()
      expect(await copies(off)).toEqual([])
      expect((await copies(sent)).map((text) => text.startsWith('*Approved*'))).toEqual([true, true, true])
      expect(await textsOf('member', sent)).toEqual([])
    } finally {
      await home.engine.settings({ slack_approval_notifications: true })
    }
  })

  test('shows the decision also if an edit of a process that lost its lane arrives later', () =>
    withTwoVotes(async () => {
      const { context } = home.engine
      const id = await home.hold()
      await home.settle()
      const late = Promise.withResolvers<Fault>()
      let edits = 0
      home.proxy.choose = (_, path) => {
        if (path !== '/chat.update') return 'pass'
        edits += 1
        return late.promise
      }
      await home.engine.vote(id, 'admin')
      await home.plan()
      const before = home.send(home.engine.another())
      await until('the first process edits', () => edits > 0)
      home.proxy.choose = () => 'pass'
      await home.engine.vote(id, 'approver')
      await home.plan()
      await context.pool.query(
        `update lanes set turn = 'gone', leased_until = now() - interval '1 second' where kind = 'slack'`,
      )
      const after = home.send()
      await home.quiet()
      const decided = await copies(id)
      late.resolve('pass')
      await before.stop()
      await home.quiet()
      await until('the late edits are undone', async () => {
        const shown = await rows()
        return shown.every(({ shown, wanted }) => shown === wanted)
      })
      expect(await copies(id)).toEqual(decided)
      await after.stop()
    }))

  test('to an account that was unlinked or deactivated in the chat says nothing more', async () => {
    const id = await home.hold()
    await home.settle()
    const { engine, ids, accounts } = home
    await unlinkSlackAccount(engine.context, engine.caller('owner'), ids['admin'] as string)
    try {
      await engine.vote(id, 'approver')
      await home.settle()
      expect((await textsOf('admin', id))[0]).toMatch(/^\*Waits/)
      expect((await textsOf('owner', id))[0]).toMatch(/^\*Approved/)
    } finally {
      await engine.context.db
        .updateTable('memberships')
        .set({ slack_account: accounts['admin'] as string, slack_linked_at: new Date() })
        .where('user_id', '=', ids['admin'] as string)
        .execute()
    }
    let asked = 0
    home.proxy.choose = (_, path) =>
      path === '/conversations.open' && (asked += 1) > 0
        ? { status: 200, body: '{"ok":false,"error":"user_disabled"}' }
        : 'pass'
    const next = await home.hold()
    await home.settle()
    expect(await copies(next)).toEqual([])
    // Each recipient is tried once more.
    expect(asked).toBe(6)
    const failed = (await rows()).filter(({ subject }) => subject === next)
    expect(failed.map((row) => [row.state, row.attempts, row.last_error])).toEqual(
      Array.from({ length: 3 }, () => ['failed', 2, 'slack_user_not_found']),
    )
  })

  test('to a person who has left says nothing more', async () => {
    const { engine, ids } = home
    const [asked, planned] = [await home.hold(), await home.hold()]
    await home.settle()
    const { db } = engine.context
    const own = db.deleteFrom('memberships').where('user_id', '=', ids['approver'] as string)
    const member = await own.returningAll().executeTakeFirstOrThrow()
    try {
      await engine.vote(asked, 'owner')
      const next = await home.hold()
      await home.settle()
      expect(await textsOf('approver', asked)).toEqual([expect.stringMatching(/^\*Waits/)])
      expect(await textsOf('owner', asked)).toEqual([expect.stringMatching(/^\*Approved/)])
      expect([(await textsOf('approver', next)).length, (await copies(next)).length]).toEqual([0, 2])
    } finally {
      await db.insertInto('memberships').values(member).execute()
    }
    await engine.vote(planned, 'owner')
    await home.settle()
    expect(await textsOf('approver', planned)).toEqual([expect.stringMatching(/^\*Approved/)])
  })

  test('shows hostile names as text in one line', async () => {
    const name = '*x* <!channel> `y` <https://evil.test|here>\u202e\u200f :flag-de: 🇩🇪 & z'
    const { context, organizationId } = home.engine
    const id = await home.hold({ name: 'r' })
    await context.db.updateTable('approvals').set({ rule_name: `${name}\n*Approved* by everybody` }).where('id', '=', id).execute() // prettier-ignore
    await context.db.updateTable('workflows').set({ name: 'w'.repeat(1_000_000) }).where('organization_id', '=', organizationId).execute() // prettier-ignore
    await home.settle()
    for (const text of await copies(id)) {
      expect(text.split('\n')).toHaveLength(7)
      expect(text).toContain(
        'Rule: `*x* &lt;!channel&gt; ˋyˋ &lt;https://evil.test|here&gt;U+202EU+200F :flag-de: 🇩🇪 &amp; z *Approved* by everybody`',
      )
      expect(text).not.toMatch(/[\u202e\u200f]/)
      expect(text.length).toBeLessThan(1_000)
    }
    await context.db.updateTable('workflows').set({ name: 'w' }).execute()
  })
})

describe('items of a step', () => {
  test('share a message that counts down', async () => {
    const { engine } = home
    const { runId, ops } = await runWithItems(8)
    await home.settle()
    const mine = async (): Promise<readonly string[]> => textsOf('owner', runId)
    expect(await mine()).toEqual([expect.stringMatching(/^\*8 items wait for your approval\*: `mail_send` in step `s`/)])
    const decide = async (item: number, how: 'approve' | 'reject'): Promise<void> => {
      await engine.vote((await effectOf(engine.context, ops[item]!))?.approval_id as string, 'approver', how)
    }
    await decide(0, 'approve')
    await decide(1, 'reject')
    await home.settle()
    expect(await mine()).toEqual([expect.stringMatching(/^\*6 items wait.*\nSo far: 1 approved, 1 rejected\n/)])
    for (let item = 2; item < 8; item += 1) await decide(item, 'approve')
    await home.settle()
    expect(await mine()).toEqual([expect.stringMatching(/^\*None of 8 items waits any more\*/)])
    expect(await textsOf('member', runId)).toEqual([expect.stringMatching(/^\*8 items are decided\*/)])
  }) // prettier-ignore

  test('are counted from 1, as on the pages', async () => {
    const { runId } = await runWithItems(8, [2])
    await home.settle()
    const own = await home.engine.context.db.selectFrom('approvals').select('id').where('run_id', '=', runId).execute()
    expect(await textsOf('owner', own[0]?.id ?? '')).toEqual([expect.stringMatching(/ in item 3 of step `s` of /)])
  }) // prettier-ignore

  test('say which of them the reader has approved, while others must vote', () =>
    withTwoVotes(async () => {
      const { engine } = home
      const { runId, ops } = await runWithItems(6)
      const approve = async (from: number, to: number) => {
        for (const op of ops.slice(from, to))
          await engine.vote((await effectOf(engine.context, op))?.approval_id as string, 'approver')
        await home.settle()
      }
      await home.settle()
      await approve(0, 2)
      expect(await textsOf('approver', runId)).toEqual([
        expect.stringMatching(/^\*4 items wait for your approval\*.*\nSo far: 2 approved by you, more votes are needed\n/),
      ])
      await approve(2, 6)
      expect(await textsOf('approver', runId)).toEqual([
        expect.stringMatching(/^\*You approved\*, more votes are needed for 6 items: /),
      ])
      expect((await textsOf('owner', runId))[0]).toMatch(/^\*6 items wait for your approval\*/)
    })) // prettier-ignore
})

describe('if Slack fails', () => {
  /** The fault of the first request of each of these methods for each recipient. */
  const first = (method: string, fault: Fault): void => {
    let left = 3
    home.proxy.choose = (_, path) => (path === method && (left -= 1) >= 0 ? fault : 'pass')
  }
  const rateLimited = { status: 429, headers: { 'retry-after': '1' } }

  test.each([
    ['the answer is lost', 'lose answer'],
    ['the request is lost', 'cut'],
    ['502 comes back after it was carried out', 'fail after'],
    ['503 comes back', { status: 503 }],
    ['HTML comes back', 'garble'],
    ['the answer comes slowly', 'slow'],
    ['it asks to wait', rateLimited],
    ['it refuses', { status: 200, body: '{"ok":false,"error":"channel_not_found"}' }],
  ] as const)('%s: each has one message, and its end is shown', async (_, fault) => {
    first('/chat.postMessage', fault)
    const id = await home.hold()
    await home.settle()
    expect(await copies(id)).toHaveLength(3)
    first('/chat.update', fault)
    await home.engine.vote(id, 'approver')
    await home.settle()
    expect((await copies(id)).map((text) => text.startsWith('*Approved*'))).toEqual([true, true, true])
  })

  test('for good: it is tried twice, and the list says why', async () => {
    home.proxy.choose = (_, path) => (path === '/chat.postMessage' ? { status: 503 } : 'pass')
    const id = await home.hold()
    await home.settle()
    const failed = (await rows()).filter(({ subject }) => subject === id)
    expect(failed.map((row) => [row.state, row.attempts])).toEqual(Array.from({ length: 3 }, () => ['failed', 2]))
    home.proxy.choose = () => 'pass'
    await home.engine.vote(id, 'approver')
    await home.settle()
    expect(await copies(id)).toEqual([])
  }) // prettier-ignore

  test('the decision comes while a message is under way: its copy is edited', async () => {
    const id = await home.hold()
    const arrived = Promise.withResolvers<void>()
    const decided = Promise.withResolvers<void>()
    home.proxy.choose = async (_, path): Promise<Fault> => {
      if (path !== '/chat.postMessage') return 'pass'
      arrived.resolve()
      await decided.promise
      return 'pass'
    }
    await home.plan()
    const chat = home.send()
    await arrived.promise
    await home.engine.vote(id, 'approver')
    await home.plan()
    decided.resolve()
    await home.quiet()
    await chat.stop()
    const texts = await copies(id)
    expect(texts.length).toBeGreaterThan(0)
    for (const text of texts) expect(text).toMatch(/^\*Approved\*/)
  })

  test('a connection is revoked: nothing is sent, and no error is thrown', async () => {
    const id = await home.hold()
    await home.plan()
    const { engine } = home
    const own = engine.context.db.selectFrom('connections').select('id').where('status', '=', 'active')
    await revokeConnection(engine.context, engine.caller('owner'), (await own.executeTakeFirstOrThrow()).id)
    await home.settle()
    const failed = (await rows()).filter(({ subject }) => subject === id)
    expect(failed.map((row) => row.last_error)).toEqual(Array(3).fill('tool_not_available'))
    await home.connectSlack()
  }) // prettier-ignore
})

describe('codes that prove who owns a Slack account', () => {
  beforeEach(async () => {
    const { db } = home.engine.context
    await db.deleteFrom('slack_claims').execute()
    const nobody = { slack_account: null, slack_linked_at: null }
    await db.updateTable('memberships').set(nobody).where('user_id', '=', member().userId).execute()
  })

  const member = () => home.engine.caller('member')
  const link = (account: string, code?: string) =>
    linkSlackAccount(home.engine.context, member(), member().userId, { external_id: account, code })
  const own = () => home.accounts['member'] as string
  const linkedTo = async () => (await slackAccountOf(home.engine.context.db, member()))?.id ?? null
  /** The texts of messages about accounts in the member's own conversation, the newest last. */
  const texts = async (): Promise<readonly string[]> =>
    (await home.messages('member')).map(({ text }) => text)

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
    expect((await texts()).slice(before)).toEqual([
      expect.stringMatching(/^\*Linked\*: the code was typed in/),
    ])
    const codes = (await rows()).filter(({ event }) => event === 'account.code')
    expect(codes[0]).toMatchObject({ state: 'updated', attempts: 1, recipient: member().userId })
  })

  describe.each([
    ['nothing is lost', null],
    ['the answer is lost', 'lose answer'],
    ['the request is lost', 'cut'],
    ['502 comes back after it was carried out', 'fail after'],
  ] as const)('if %s', (_, fault) => {
    test('the test message of an admin arrives once, and only then links the account', async () => {
      const before = (await texts()).length
      let left = fault === null ? 0 : 1
      home.proxy.choose = (_, path) =>
        path === '/chat.postMessage' && (left -= 1) >= 0 ? (fault ?? 'pass') : 'pass'
      const { context } = home.engine
      const account = { external_id: own() }
      const answer = await linkSlackAccount(context, home.engine.caller('admin'), member().userId, account)
      expect([answer.linked, await linkedTo()]).toEqual([false, null])
      await home.settle()
      expect(await linkedTo()).toBe(own())
      expect((await texts()).slice(before)).toEqual([expect.stringMatching(/^\*A test\*: from now on, /)])
    })
  })

  test('a test message that Slack refuses links nothing, and the account says so', async () => {
    const { context } = home.engine
    const account = { external_id: 'U0NOBODY1' }
    await linkSlackAccount(context, home.engine.caller('admin'), member().userId, account)
    await home.settle()
    expect(await linkedTo()).toBeNull()
    const claims = await openClaimsOf(context.db, member().userId)
    expect(claims.get(home.engine.organizationId)).toMatchObject({
      account: 'U0NOBODY1',
      needsCode: false,
      problem: expect.stringMatching(/^slack_/),
    })
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
})
