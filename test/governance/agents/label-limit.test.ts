import { beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { authorize } from '../../../src/governance/agents/ask.ts'
import { observe } from '../../../src/governance/agents/observe.ts'
import type { SessionRecord } from '../../../src/governance/agents/ledger.ts'
import { addLabels } from '../../../src/governance/agents/sessions.ts'
import { authenticate } from '../../../src/governance/access/identity.ts'
import { createRule } from '../../../src/governance/rules/rules.ts'
import { labelRuleInput } from '../../../src/policy/rule.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
let identity: NonNullable<Awaited<ReturnType<typeof authenticate>>>
useEngine((started) => (engine = started))
beforeAll(async () => {
  identity = (await authenticate(engine.context.keys, `Bearer ${engine.keyOf('member')}`)) as typeof identity
  const two = labelRuleInput.parse({ name: 'two', tools: ['Write'], add_labels: ['one', 'two'] })
  await createRule(engine.context, 'label_rule', engine.caller('admin'), two)
})

const agent = { name: 'tester', kind: 'hook' }
const ask = (sessionId: string, tool: string, over: object = {}) =>
  authorize(
    engine.context,
    { identity, ip: null },
    {
      agent,
      session_id: sessionId,
      tool_name: tool,
      tool_input: {},
      ...over,
    },
  )

/** Stores `count` labels for the session. */
const give = (sessionId: string, count: number) =>
  engine.context.pool.query(
    `update agent_sessions set labels = array(select 'l' || i from generate_series(1, $2::int) as i) where session_id = $1`,
    [sessionId, count],
  )
async function labelsOf(sessionId: string): Promise<string[]> {
  const { rows } = await engine.context.pool.query<{ labels: string[] }>(
    'select labels from agent_sessions where session_id = $1',
    [sessionId],
  )
  return rows[0]?.labels ?? []
}

describe('labels of an agent session', () => {
  test('are 1,000 at most: the call that would bring more is denied, and adds none', async () => {
    await ask('full', 'TodoWrite')
    await give('full', 999)
    expect(await ask('full', 'Write')).toMatchObject({
      decision: 'deny',
      reason: 'too many labels',
      explanation: 'With this call the session would carry more than 1,000 labels: start a new session.',
    })
    expect(await labelsOf('full')).toHaveLength(999)
    expect(await ask('full', 'TodoWrite')).toMatchObject({ decision: 'allow' })
    await give('full', 998)
    expect(await ask('full', 'Write')).toMatchObject({ decision: 'allow' })
    expect(await labelsOf('full')).toHaveLength(1_000)
    expect(await ask('full', 'Write')).toMatchObject({ decision: 'allow' })
  })

  test('above the limit deny every call', async () => {
    await ask('over', 'TodoWrite')
    await give('over', 1_001)
    expect(await ask('over', 'TodoWrite')).toMatchObject({ decision: 'deny', reason: 'too many labels' })
  })

  test('of a call without a decision are added; then every call is denied', async () => {
    await ask('seen', 'TodoWrite')
    await give('seen', 1_000)
    const finished = { session_id: 'seen', tool_name: 'Write', tool_input: {} }
    await observe(engine.context, { identity, ip: null }, finished)
    expect(await labelsOf('seen')).toHaveLength(1_002)
    expect(await ask('seen', 'TodoWrite')).toMatchObject({ decision: 'deny', reason: 'too many labels' })
    expect(await labelsOf('seen')).toHaveLength(1_002)
  })

  test('are stored with the tools that brought them', () => {
    const label = fc.constantFrom<string>('a', 'b', 'c', 'd')
    const additions = fc.array(fc.tuple(fc.array(label), fc.constantFrom('Read', 'Bash')))
    fc.assert(
      fc.property(additions, (all) => {
        const session = {
          labels: [],
          label_sources: [],
          unknown_tools: [],
          label_bytes: 0,
        } as unknown as SessionRecord
        let stored = 0
        for (const [labels, tool] of all)
          addLabels({ stores: (bytes) => (stored += bytes) }, session, labels, tool)
        const names = [...new Set(all.flatMap(([labels]) => labels))].sort()
        expect(session.labels).toEqual(names)
        expect(session.label_bytes).toBe(stored)
        const broughtBy = (name: string) =>
          all.filter(([labels]) => labels.includes(name)).map(([, tool]) => tool)
        expect(session.label_sources).toEqual(
          names.map((name) => ({ label: name, from: [...new Set(broughtBy(name))] })),
        )
      }),
    )
  })
})
