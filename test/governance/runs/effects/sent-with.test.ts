import { describe, expect, test } from '@jest/globals'
import { connect, revokeConnection } from '../../../../src/governance/connections/connections.ts'
import { expireConnection } from '../../../../src/governance/connections/expire.ts'
import { resolveStep } from '../../../../src/governance/runs/effects/resolve.ts'
import { markSent } from '../../../../src/governance/runs/effects/outcome.ts'
import {
  basisOf,
  effectOf,
  go,
  opOf,
  outcomeOf,
  toolOf,
  useEngine,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'
import type { Repeat } from '../../../../src/catalog/tool.ts'

let engine: Engine
useEngine((started) => (engine = started))

const fresh = async (repeat: Repeat): Promise<StepOp> => {
  const op = opOf(await engine.run(), { tool: toolOf(repeat) })
  await go(engine, op)
  return op
}
const send = async (op: StepOp, account: string | null, attempt = 1) =>
  markSent(engine.context, op.key, attempt, await basisOf(engine.context, op), account)
const sentWith = async (op: StepOp) => (await effectOf(engine.context, op))?.sent_with

describe('the account of a call that may have been made', () => {
  test.each(['findable', 'unsafe'] as const)('is told to the next attempts: %s', async (repeat) => {
    const op = await fresh(repeat)
    expect(await send(op, 'an account')).toBe('yes')
    expect(await engine.decide(op)).toMatchObject({ go: true, attempt: 2, sentWith: 'an account' })
    expect(await engine.decide(op)).toMatchObject({ go: true, attempt: 3, sentWith: 'an account' })
  })

  test.each(['findable', 'unsafe'] as const)('counts no more after a clear failure: %s', async (repeat) => {
    const op = await fresh(repeat)
    await send(op, 'an account')
    await engine.record(outcomeOf(op, 1, 'retry'))
    expect(await sentWith(op)).toBeNull()
    expect(await engine.decide(op)).toMatchObject({ go: true, sentWith: null })
  })

  test.each(['findable', 'unsafe'] as const)(
    'counts no more once a person has chosen to make the call again: %s',
    async (repeat) => {
      const op = await fresh(repeat)
      await send(op, 'an account')
      await engine.record(outcomeOf(op, 1, 'unknown_outcome'))
      expect(await sentWith(op)).toBe('an account')
      const { runId, stepId } = op.key
      const choice = { caller: engine.caller('admin'), runId, stepId, items: null, outcome: 'retry' } as const
      await resolveStep(engine.context, choice)
      expect(await engine.decide(op)).toMatchObject({ go: true, sentSecondsAgo: null, sentWith: null })
    },
  )
})

describe('a connection that is gone at the point of no return sends nothing', () => {
  const connectSearch = () =>
    connect(
      engine.context,
      engine.caller('member'),
      {
        tool: 'web_search',
        credential: { provider: 'brave', api_key: 'k' },
        scope: 'personal',
        name: undefined,
      },
      new AbortController().signal,
    )
  const ends: Readonly<
    Record<string, (connection: { id: string; organization_id: string }) => Promise<unknown>>
  > = {
    revoked: ({ id }) => revokeConnection(engine.context, engine.caller('member'), id),
    replaced: connectSearch,
    expired: (connection) => expireConnection(engine.context, connection),
  }

  test.each(Object.entries(ends))('%s', async (_, end) => {
    const connection = await connectSearch()
    const [first, second] = [await fresh('findable'), await fresh('findable')]
    const account = `${connection.id} https://api.search.brave.com`
    expect(await send(first, account)).toBe('yes')
    await end(connection)
    // The changed connection leads to a new decision, which may allow the call with another connection.
    expect(await send(second, account)).toBe('changed')
    await go(engine, second)
    expect(await send(second, account, 2)).toBe('disconnected')
    expect(await effectOf(engine.context, second)).toMatchObject({ state: 'intent', sent_with: null })
  })

  test('a connection that was never there', async () => {
    expect(await send(await fresh('findable'), 'con_0 https://api.github.com')).toBe('disconnected')
  })
})
