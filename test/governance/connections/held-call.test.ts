import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { getTool } from '../../../src/catalog/index.ts'
import type { ToolDeclaration } from '../../../src/catalog/tool.ts'
import { connect, revokeConnection } from '../../../src/governance/connections/connections.ts'
import { expireConnection } from '../../../src/governance/connections/expire.ts'
import { createToolPolicy, deleteToolPolicy } from '../../../src/governance/rules/tool-policies.ts'
import {
  effectOf,
  go,
  hold,
  holdRule,
  opOf,
  startEngine,
  type Engine,
  type StepOp,
} from '../runs/engine-fixture.ts'

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine?.close())
beforeEach(async () => {
  await engine.rules()
  await engine.context.db.deleteFrom('connections').execute()
})

/** A tool that needs a connection for the web search. */
const tool: ToolDeclaration = { ...(getTool('mail_send') as ToolDeclaration), connection: 'search' }
const opOfSearch = (runId: string): StepOp => opOf(runId, { tool })
/** The runs are started by `member`. */
const connectAs = (who: 'member' | 'admin', scope: 'personal' | 'organization') =>
  connect(
    engine.context,
    engine.caller(who),
    { tool: 'web_search', credential: { provider: 'brave', api_key: 'k' }, scope, name: undefined },
    new AbortController().signal,
  )

describe('a call whose service is not connected', () => {
  const cases = [
    ['revoked', 'tool_not_available'],
    ['expired', 'connection_expired'],
  ] as const
  test.each(cases)('fails although it was held and approved before it was %s', async (what, code) => {
    const connection = await connectAs('member', 'personal')
    await engine.rules(holdRule())
    const op = opOfSearch(await engine.run())
    await engine.vote(await hold(engine, op), 'admin')
    if (what === 'revoked') await revokeConnection(engine.context, engine.caller('member'), connection.id)
    else await expireConnection(engine.context, connection)
    expect(await engine.decide(op)).toMatchObject({ go: false, state: 'failed' })
    expect(await effectOf(engine.context, op)).toMatchObject({
      error: { code, message: expect.stringContaining('/connect`') },
    })
  })

  test('fails for everybody but the person who connected it', async () => {
    await connectAs('admin', 'personal')
    expect(await engine.decide(opOfSearch(await engine.run()))).toMatchObject({ go: false, state: 'failed' })
    await connectAs('admin', 'organization')
    await go(engine, opOfSearch(await engine.run()))
  })

  test('is denied by the policy of its role, whoever has connected what', async () => {
    const policy = { tool_name: 'mail_send', allowed: false, restrictions: {}, role: 'member' } as const
    await createToolPolicy(engine.context, engine.caller('admin'), policy, null)
    for (const scope of ['organization', 'personal'] as const) {
      await connectAs(scope === 'personal' ? 'member' : 'admin', scope)
      const op = opOfSearch(await engine.run())
      expect(await engine.decide(op)).toMatchObject({ go: false, state: 'denied' })
    }
    await deleteToolPolicy(engine.context, engine.caller('admin'), 'mail_send', 'member')
    await go(engine, opOfSearch(await engine.run()))
  })

  test('fails in every process from the revocation on', async () => {
    const connection = await connectAs('member', 'personal')
    const { decideSteps } = await import('../../../src/governance/runs/effects/effect.ts')
    const other = engine.another()
    const decide = (op: StepOp) => other.combiner.join(engine.organizationId, decideSteps, op)
    expect(await decide(opOfSearch(await engine.run()))).toMatchObject({ go: true })
    await revokeConnection(engine.context, engine.caller('member'), connection.id)
    expect(await decide(opOfSearch(await engine.run()))).toMatchObject({ go: false, state: 'failed' })
  })
})
