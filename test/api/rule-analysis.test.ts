import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { agentWorld, type AgentWorld } from './agents/agent.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
})
afterAll(() => server.close())

const analysis = (of = world, key = of.member.key) =>
  server.call(key, 'GET', `/organizations/${of.organizationId}/rules/analysis`)

test('`analysis` is no id of a rule, and an organization without rules has no findings', async () => {
  const { status, body } = await analysis()
  expect([status, body]).toEqual([200, { findings: [], limit_reached: null }])
})

test('a rule that another rule covers is found, with a call that both match', async () => {
  const save = async (rule: object) => (await world.change('POST', '/rules', rule)).body.id as string
  const allowed = await save({ name: 'letters', verdict: 'allow', tools: ['mail_send'], status: 'shadow' })
  const denied = await save({ name: 'no mail', verdict: 'deny', tools: ['mail_*'] })
  const { body } = await analysis()
  expect(body).toEqual({
    findings: [
      {
        kind: 'never_decides',
        rules: [{ id: allowed, name: 'letters', verdict: 'allow', shadow: true }],
        covered_by: { id: denied, name: 'no mail', verdict: 'deny', shadow: false },
        example_call: {
          source: 'workflows',
          tool: 'mail_send',
          side_effect: 'egress',
          params: {},
          labels: [],
        },
        message:
          'Rule `letters` would never decide a call if it was active: rule `no mail` matches every call that it matches, and is at least as strict.',
      },
    ],
    limit_reached: null,
  })
  const path = `/organizations/${world.organizationId}/rules/test`
  const tried = await server.call(world.member.key, 'POST', path, { call: body.findings[0].example_call })
  expect(tried.body.matched_rules.map(({ id }: { id: string }) => id)).toEqual([allowed, denied])
})

test('a rule with the same conditions is named beside the rule without effect', async () => {
  const other = await agentWorld(server)
  for (const [name, verdict] of [
    ['a', 'require_approval'],
    ['b', 'require_approval'],
    ['c', 'deny'],
  ])
    // prettier-ignore
    await other.change('POST', '/rules', { name, verdict, match_all: true })
  const { findings } = (await analysis(other)).body
  expect(
    findings.map(({ kind, rules }: { kind: string; rules: { name: string }[] }) => [
      kind,
      rules.map(({ name }) => name),
    ]),
  ).toEqual([
    // prettier-ignore
    ['contradicts', ['a', 'c']],
    ['duplicate', ['b', 'a']],
  ])
  expect((await analysis(world, other.member.key)).status).toBe(404)
})

test('2,000 rules of which each pair must be compared are analyzed within the limits', async () => {
  const many = await agentWorld(server)
  const rules = Array.from({ length: 2_000 }, (_, index) => ({
    id: `rule_many_${String(index).padStart(4, '0')}`,
    organization_id: many.organizationId,
    name: `rule ${index}`,
    body: JSON.stringify({
      name: `rule ${index}`,
      verdict: 'deny',
      status: 'active',
      params: Array.from({ length: 10 }, (_, at) => ({
        param: `p${at}`,
        operator: 'equals',
        value: `${index}`,
      })),
    }),
    created_by: many.owner.userId,
  }))
  await server.context.db.insertInto('rules').values(rules).execute()
  await many.change('PATCH', '/governance', { approval_threshold: 2 })
  const { status, body } = await analysis(many)
  expect(status).toBe(200)
  expect(body.findings).toEqual([])
  // On a slow machine, the time may be over first.
  expect(['comparisons', 'time']).toContain(body.limit_reached)
})
