import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { ApiAt, startProgramOn, type Program } from '../../support/chaos-programs.ts'
import type { Api } from '../../support/client.ts'
import { home } from './home.ts'

/**
 * Agents on a whole stack with a second API process. A decision, revocation or freeze in one process applies to the
 * next decision of the other process. Held calls outlive every process.
 */
export function agents(): void {
  describe('agents with a second API process', () => {
    let second: Program
    let there: { member: Api; approver: Api; admin: Api; owner: Api }

    beforeAll(async () => {
      await home.admin.createRule({ name: 'writes wait', verdict: 'require_approval', tools: ['Write'] })
      await useSecond()
    })
    afterAll(async () => {
      await second.end('SIGKILL')
    })

    /** A second API on the present database, whose port changes when PostgreSQL restarts. */
    async function useSecond(): Promise<void> {
      second = await startProgramOn(home, 'api-server')
      const at = (person: Api['person']) => new ApiAt(home, person, second.url)
      there = { member: at('member'), approver: at('approver'), admin: at('admin'), owner: at('owner') }
    }

    interface Decision {
      readonly decision: string
      readonly reason: string
      readonly decision_id: string
      readonly approval_id?: string
      readonly labels: string[]
    }

    const ask = (
      by: Api,
      session: string,
      tool: string,
      input: object = {},
      use = randomUUID(),
    ): Promise<Decision> =>
      by.good('POST', '/authorize', {
        agent: { name: 'a', kind: 'hook' },
        session_id: session,
        tool_name: tool,
        tool_input: input,
        tool_use_id: use,
      })

    const sessionId = async (by: Api, session: string): Promise<string> => {
      const { data } = await by.good<{ data: { id: string }[] }>(
        'GET',
        `/agent-sessions?session_id=${session}`,
      )
      return (data[0] as { id: string }).id
    }

    describe('two API processes', () => {
      test('labels of a read in one process apply to the other’s next decision', async () => {
        const session = randomUUID()
        await Promise.all([home, there].map(({ member }) => ask(member, session, 'Grep')))
        await ask(home.member, session, 'Read')
        expect((await ask(there.member, session, 'Edit')).labels).toEqual(['internal'])
        await ask(there.member, session, 'WebFetch')
        expect((await ask(home.member, session, 'Edit')).labels).toEqual(['internal', 'untrusted'])
      })

      test('a session revoked in one process is denied in the other, and its waiting calls end', async () => {
        const session = randomUUID()
        const { approval_id } = await ask(there.member, session, 'Write')
        const waiting = there.member.good('GET', `/authorize/approvals/${approval_id}?wait=15`)
        await home.admin.good('POST', `/agent-sessions/${await sessionId(home.admin, session)}/revoke`, {})
        expect(await waiting).toMatchObject({ status: 'cancelled' })
        expect(await ask(there.member, session, 'Read')).toMatchObject({ reason: 'session revoked' })
      })

      test('of identical calls that race in both for one approval exactly one passes', async () => {
        for (let round = 0; round < 5; round += 1) {
          const [session, input] = [randomUUID(), { round }]
          const { approval_id } = await ask(home.member, session, 'Write', input)
          await there.approver.decide(approval_id as string, 'approve')
          const answers = await Promise.all(
            [home, there, home, there].map(({ member }) => ask(member, session, 'Write', input)),
          )
          expect(answers.filter(({ decision }) => decision === 'allow')).toHaveLength(1)
        }
      })

      test('a freeze in one process denies in the other from the next decision on, until it is lifted', async () => {
        const { organization_id } = home.owner.bootstrap
        const session = randomUUID()
        for (const [one, other] of [
          [home, there],
          [there, home],
        ] as const) {
          await one.owner.good('POST', `/organizations/${organization_id}/freeze`, { reason: 'test' })
          expect(await ask(other.member, session, 'Read')).toMatchObject({ reason: 'organization frozen' })
          await other.owner.good('POST', `/organizations/${organization_id}/unfreeze`, { reason: 'over' })
          expect((await ask(one.member, session, 'Read')).decision).toBe('allow')
        }
      })
    })

    describe('a call that is held while a process dies', () => {
      test.each(['api', 'worker', 'temporal', 'postgres', 'all'] as const)(
        '%s: can still be approved, and its identical retry passes once',
        async (victim) => {
          const [session, input] = [randomUUID(), { victim }]
          const { approval_id } = await ask(home.member, session, 'Write', input)
          if (victim === 'all') await second.end('SIGKILL')
          await home.stack.kill9(victim)
          if (victim === 'all') {
            await home.start()
            await useSecond()
          }
          const same = await ask(home.member, session, 'Write', input)
          expect(same.approval_id).toBe(approval_id)
          expect((await home.approver.decide(approval_id as string, 'approve')).status).toBe(200)
          const use = randomUUID()
          const allowed = await ask(home.member, session, 'Write', input, use)
          expect(allowed.decision).toBe('allow')
          expect(await ask(home.member, session, 'Write', input, use)).toMatchObject({
            decision: 'allow',
            decision_id: allowed.decision_id,
          })
          expect((await ask(home.member, session, 'Write', input)).decision).toBe('require_approval')
        },
      )
    })
  })
}
