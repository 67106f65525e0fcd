import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { authenticate } from '../../../src/governance/access/identity.ts'
import { authorize } from '../../../src/calls/agents/ask.ts'
import {
  backtestRules,
  mostDecisions,
  type BacktestRequest,
} from '../../../src/governance/backtests/backtest.ts'
import { reviseCall } from '../../../src/calls/runs/revise.ts'
import { ruleInput } from '../../../src/governance/rules/rule-kinds.ts'
import { asAdmin } from '../../support/postgres.ts'
import { denyRule, holdRule, opOf, useEngine, type Engine } from '../runs/engine-fixture.ts'
import { create as createPolicy, forget } from '../rules/policy-calls.ts'

let engine: Engine
let identity: NonNullable<Awaited<ReturnType<typeof authenticate>>>
useEngine((started) => (engine = started))
beforeAll(async () => {
  identity = (await authenticate(engine.context.keys, `Bearer ${engine.keyOf('member')}`)) as typeof identity
})

/** Each test only looks at its own calls. */
let since: Date
const now = async (): Promise<Date> =>
  (await engine.context.pool.query<{ now: Date }>(`select clock_timestamp() as now`)).rows[0]?.now as Date
beforeEach(async () => (since = await now()))

const backtest = (
  drafts: readonly object[],
  over: Partial<BacktestRequest> = {},
  by: 'admin' | 'owner' = 'admin',
) =>
  backtestRules(engine.context, engine.organizationId, {
    drafts: drafts.map((draft) => ruleInput.parse(draft)),
    since,
    until: null,
    besideSaved: null,
    most: mostDecisions,
    chargedTo: engine.organizationId,
    callerNow: async () => engine.caller(by),
    signal: new AbortController().signal,
    ...over,
  })

const mailTo = async (to: string, over: Parameters<typeof opOf>[1] = {}) =>
  opOf(await engine.run(), { params: { to }, ...over })

let asked = 0
const ask = (tool: string, input: Record<string, string>, over: object = {}) =>
  authorize(
    engine.context,
    { identity, ip: null },
    {
      agent: { name: 'tester', kind: 'hook' },
      session_id: 'backtest',
      tool_name: tool,
      tool_input: input,
      tool_use_id: `use-${(asked += 1)}`,
      ...over,
    },
  )

/** The answer if these calls could not be decided for this reason, and nothing changes. */
const undecided = (reason: string, count = 1) => ({ changed: 0, not_replayable: [{ reason, count }] })
const shouldChange = async (change: string, rules: readonly object[], by: 'admin' | 'owner' = 'admin') =>
  expect((await backtest(rules, {}, by)).by_change).toEqual({ [change]: 1 })

const question = (id: string) => ({ tool_use_id: id })
const noLists = {
  name: 'no lists',
  verdict: 'deny',
  params: [{ param: 'command', operator: 'startswith', value: 'ls' }],
}
const outside = {
  name: 'mail stays inside',
  verdict: 'deny',
  tools: ['mail_send'],
  params: [{ param: 'to', operator: 'domain_not_in', value: ['acme.com'] }],
}

describe('calls of runs', () => {
  test('are decided again with their parameters, and counted by what changes', async () => {
    await engine.go(await mailTo('ann@acme.com'))
    const op = await mailTo('bo@evil.net', { labels: ['internal'] })
    await engine.go(op)
    await engine.rules(denyRule())
    await engine.decide(await mailTo('ann@acme.com'))
    await engine.decide(await mailTo('bo@evil.net'))

    const answer = await backtest([outside])
    expect(answer).toMatchObject({
      examined: 4,
      changed: 2,
      not_replayable: [],
      by_change: { 'allow->deny': 1, 'deny->allow': 1 },
      limit_reached: null,
    })
    expect(answer.samples.map(({ from, to }) => [from, to.verdict, to.rule_name])).toEqual([
      [{ verdict: 'deny', rule_name: 'deny' }, 'allow', null],
      [{ verdict: 'allow', rule_name: null }, 'deny', outside.name],
    ])
    expect(answer.samples[1]).toMatchObject({
      run_id: op.key.runId,
      step_id: 's',
      item_index: null,
      session_id: null,
      tool: 'mail_send',
      labels: ['internal'],
      to: { explanation: expect.stringContaining('`to` is outside `acme.com`') },
    })
    // Parameters are never shown, not even in the explanation.
    expect(JSON.stringify(answer)).not.toContain('evil.net')
  })

  test('count once, by the first decision: a hold that was approved, and a call that was retried', async () => {
    await engine.rules(holdRule())
    const held = await mailTo('bo@evil.net')
    await engine.vote(await engine.hold(held), 'admin')
    await engine.mark(held, await engine.go(held))
    await engine.rules()
    const again = await mailTo('ann@acme.com')
    await engine.go(again)
    await engine.go(again)

    expect(await backtest([])).toMatchObject({
      examined: 2,
      changed: 1,
      by_change: { 'require_approval->allow': 1 },
    })
    expect(await backtest([holdRule()])).toMatchObject({
      examined: 2,
      by_change: { 'allow->require_approval': 1 },
    })
  })

  test('count once more with what a person has typed, and with the tool policies for the role of that person', async () => {
    await engine.rules(holdRule({ approver_may_edit: ['to'] }))
    const params = { to: 'ann@acme.com', subject: 'x', text: 'y' }
    const op = opOf(await engine.run(), { params })
    const edit = { to: 'bo@evil.net' }
    const approvalId = await engine.hold(op)
    await reviseCall(engine.context, {
      caller: engine.caller('admin'),
      approvalId,
      params: edit,
      comment: '',
    })
    await engine.hold(opOf(op.key.runId, { params: { ...params, ...edit }, labels: ['untrusted'] }))
    expect(await backtest([outside])).toMatchObject({
      examined: 2,
      by_change: { 'require_approval->deny': 1 },
      not_replayable: [{ reason: 'parameters_not_kept', count: 1 }],
    })
    await createPolicy(engine, { tool_name: 'mail_send', allowed: false, role: 'admin' })
    expect((await backtest([outside])).not_replayable).toContainEqual({ reason: 'policy_decided', count: 1 })
    await forget(engine, 'mail_send')
  })

  test('see `me` as the address of the person who asked', async () => {
    await engine.go(await mailTo('me'))
    const domain = engine.caller('member').email.split('@')[1]
    const toOwn = { ...outside, params: [{ param: 'to', operator: 'domain_in', value: [domain] }] }
    await shouldChange('allow->deny', [toOwn])
  })

  test('whose parameters were removed are only decided if no parameter matters', async () => {
    const op = await mailTo('bo@evil.net', { labels: ['internal'] })
    await engine.go(op)
    await engine.context.pool.query('update effects set params_sealed = null where run_id = $1', [
      op.key.runId,
    ])
    expect(await backtest([outside])).toMatchObject({ ...undecided('parameters_not_kept'), examined: 1 })
    const byLabel = { ...outside, params: undefined, labels: { any_of: ['internal'] } }
    await shouldChange('allow->deny', [byLabel])
  })

  test('whose parameters cannot be decrypted are counted, and others still replayed', async () => {
    const [broken, whole] = [await mailTo('bo@evil.net'), await mailTo('bo@evil.net')]
    await engine.go(broken)
    await engine.go(whole)
    await engine.context.pool.query(
      `update effects set params_sealed = set_byte(params_sealed, 40, get_byte(params_sealed, 40) # 1) where run_id = $1`,
      [broken.key.runId],
    )
    expect(await backtest([outside])).toMatchObject({
      examined: 2,
      changed: 1,
      not_replayable: [{ reason: 'parameters_unreadable', count: 1 }],
    })
  })

  test('whose tool the catalogue no longer has are not replayable', async () => {
    const op = await mailTo('bo@evil.net')
    await engine.go(op)
    await asAdmin(engine.adminUrl, (client) =>
      client.query(`update decisions set tool = 'former_tool' where run_id = $1`, [op.key.runId]),
    )
    expect((await backtest([])).not_replayable).toEqual([{ reason: 'tool_unknown', count: 1 }])
  })
})

describe('calls that no rule decides', () => {
  test('are those of a freeze. A freeze of now does not matter', async () => {
    const late = await mailTo('bo@evil.net')
    await engine.go(await mailTo('bo@evil.net'))
    await engine.frozen(async () => {
      const since = await now()
      await engine.decide(late)
      expect(await backtest([outside], { since })).toMatchObject(undecided('policy_decided'))
      expect((await backtest([outside], { until: since })).by_change).toEqual({ 'allow->deny': 1 })
    })
  })

  test('are those that a tool policy denied, and those that it would deny now', async () => {
    await engine.go(await mailTo('bo@evil.net'))
    expect(await backtest([])).toMatchObject({ examined: 1, changed: 0, not_replayable: [] })
    await createPolicy(engine, { tool_name: 'mail_send', allowed: false })
    await engine.decide(await mailTo('bo@evil.net'))
    expect(await backtest([])).toMatchObject(undecided('policy_decided', 2))
    await forget(engine, 'mail_send')
    expect(await backtest([])).toMatchObject({ ...undecided('policy_decided', 1), examined: 2 })
  })
})

describe('calls of agents', () => {
  test('that were held have their input, and count once', async () => {
    await engine.rules(holdRule({ tools: ['Bash'] }))
    const { approval_id: id } = await ask('Bash', { command: 'ls' }, question('one'))
    await engine.vote(id as string, 'admin')
    expect(await ask('Bash', { command: 'ls' }, question('one'))).toMatchObject({ decision: 'allow' })
    const answer = await backtest([noLists])
    expect(answer).toMatchObject({ examined: 1, by_change: { 'require_approval->deny': 1 } })
    expect(answer.samples[0]).toMatchObject({ step_id: null, session_id: expect.stringMatching(/^ses_/) })
  })

  test('that an approval allowed count as held, also if the hold was before the period', async () => {
    await engine.rules(holdRule({ tools: ['Bash'] }))
    const { approval_id: id } = await ask('Bash', { command: 'pwd' }, question('before'))
    await engine.vote(id as string, 'admin')
    const afterHold = await now()
    expect(await ask('Bash', { command: 'pwd' }, question('before'))).toMatchObject({ decision: 'allow' })
    expect(await backtest([holdRule({ tools: ['Bash'] })], { since: afterHold })).toMatchObject({
      examined: 1,
      changed: 0,
      not_replayable: [],
    })
  })

  test('that were allowed are decided again with their input, up to 16 KiB of it', async () => {
    const only = { name: 'no fetch', verdict: 'deny', tools: ['WebFetch'], params: [{ param: 'url', operator: 'domain_in', value: ['evil.net'] }] } // prettier-ignore
    await ask('WebFetch', { url: 'https://evil.net' })
    const other = { ...only, params: [{ param: 'url', operator: 'domain_in', value: ['acme.com'] }] }
    expect(await backtest([other])).toMatchObject({ examined: 1, changed: 0, not_replayable: [] })
    await shouldChange('allow->deny', [only])
    const since = await now()
    await ask('WebFetch', { url: 'https://evil.net', prompt: 'x'.repeat(17_000) })
    expect(await backtest([only], { since })).toMatchObject(undecided('parameters_not_kept'))
  })

  test('that no rule allowed pass with a rule that allows them', async () => {
    await engine.settings({ default_agent_access: 'deny' })
    await ask('WebFetch', { url: 'https://evil.net' })
    const allows = { name: 'fetch', verdict: 'allow', tools: ['WebFetch'] }
    const some = { ...allows, params: [{ param: 'url', operator: 'domain_in', value: ['acme.com'] }] }
    expect(await backtest([some])).toMatchObject({ examined: 1, changed: 0, not_replayable: [] })
    await shouldChange('deny->allow', [allows])
    await engine.settings({ keep_decision_params: 'held' })
    const since = await now()
    await ask('WebFetch', { url: 'https://evil.net' })
    expect(await backtest([some], { since })).toMatchObject(undecided('parameters_not_kept'))
    expect(await backtest([], { since })).toMatchObject({ changed: 0, not_replayable: [] })
    await engine.settings({ keep_decision_params: 'all', default_agent_access: 'allow' })
  })

  test('that were allowed are decided without their input, where no parameter matters and none was kept', async () => {
    await engine.settings({ keep_decision_params: 'held' })
    await ask('WebFetch', { url: 'https://evil.net' })
    await engine.settings({ keep_decision_params: 'all' })
    const fetches = { name: 'no fetch', verdict: 'deny', tools: ['WebFetch'] }
    await shouldChange('allow->deny', [fetches])
    const some = { ...fetches, params: [{ param: 'url', operator: 'domain_in', value: ['evil.net'] }] }
    expect(await backtest([some])).toMatchObject(undecided('parameters_not_kept'))
  })
})

describe('calls that only an owner may approve show an admin nothing about their parameters', () => {
  test.each<[string, string, object, () => Promise<unknown>]>([
    ['of a run', 'mail_send', outside, async () => engine.hold(await mailTo('bo@evil.net'))],
    ['of an agent', 'Bash', noLists, () => ask('Bash', { command: 'ls' }, question('owned'))],
  ])('%s', async (_, tool, draft, hold) => {
    await engine.rules(holdRule({ tools: [tool], approver: 'owner' }))
    await hold()
    expect(await backtest([draft], {}, 'admin')).toMatchObject(undecided('parameters_not_shown'))
    await shouldChange('require_approval->deny', [draft], 'owner')
  })
})

describe('beside the saved rules', () => {
  const beside = (draft: object, replaces: string | null = null) =>
    backtest([draft], { besideSaved: { replaces } })
  const savedId = async () =>
    (await engine.context.pool.query<{ id: string }>('select id from rules order by id')).rows[0]?.id ?? ''

  test('a draft is compared with what the saved rules decide now, and not with what was decided then', async () => {
    await engine.go(await mailTo('bo@evil.net'))
    await engine.rules(denyRule())
    // The saved rule denies it already.
    expect(await beside(outside)).toMatchObject({ examined: 1, changed: 0, not_replayable: [] })
    expect(await beside({ ...outside, verdict: 'allow' })).toMatchObject({ changed: 0 })
  })

  test('in place of a saved rule, only what that rule decided changes', async () => {
    await engine.go(await mailTo('bo@evil.net'))
    await engine.rules(denyRule(), holdRule())
    const answer = await beside({ ...outside, verdict: 'allow' }, await savedId())
    expect(answer.by_change).toEqual({ 'deny->require_approval': 1 })
    expect(answer.samples[0]?.from).toEqual({ verdict: 'deny', rule_name: 'deny' })
  })

  test('so many of the newest decisions are examined as the caller says', async () => {
    for (const to of ['a@evil.net', 'b@evil.net', 'c@evil.net']) await engine.go(await mailTo(to))
    await engine.rules()
    const answer = await backtest([outside], { besideSaved: { replaces: null }, most: 2 })
    expect(answer).toMatchObject({ examined: 2, changed: 2, limit_reached: 'decisions' })
  })
})

describe('limits', () => {
  /** Copies the decision on a call, one copy for each of `count` other steps. */
  const copyDecision = (runId: string, count: number) =>
    asAdmin(engine.adminUrl, (client) =>
      client.query(
        `insert into decisions select (json_populate_record(d, json_build_object('id', 'dec_copy_' || d.id || i,
           'step_id', 'step ' || i, 'seq', 1 + i, 'decided_at', clock_timestamp()))).*
         from decisions d, generate_series(1, $2::int) i where run_id = $1`,
        [runId, count],
      ),
    )

  test('the newest 5,000 decisions are examined, and the newest 20 changes are shown', async () => {
    const op = await mailTo('bo@evil.net')
    await engine.go(op)
    const deny = { name: 'no mail', verdict: 'deny', tools: ['mail_send'] }
    await copyDecision(op.key.runId, 4_999)
    const all = await backtest([deny])
    expect(all).toMatchObject({ examined: 5_000, changed: 5_000, limit_reached: null })
    expect(all.samples).toHaveLength(20)
    expect(all.samples.map(({ step_id }) => step_id)).not.toContain('s')
    await engine.go(await mailTo('ann@acme.com'))
    const most = await backtest([deny])
    expect(most).toMatchObject({ examined: 5_000, limit_reached: 'decisions' })
    expect(most.samples[0]?.step_id).toBe('s')
    expect(Date.parse(most.oldest as string)).toBeGreaterThan(Date.parse(all.oldest as string))
  })

  test('the parameters of all calls together have 32 MiB at most', async () => {
    const ops = await Promise.all([1, 2, 3].map(() => mailTo('bo@evil.net')))
    for (const op of ops) await engine.go(op)
    const runIds = ops.map(({ key }) => key.runId)
    await asAdmin(engine.adminUrl, (client) =>
      client.query(
        `update effects set params_sealed = decode(repeat('00', 16 * 1024 * 1024 - 1000), 'hex') where run_id = any($1)`,
        [runIds],
      ),
    )
    expect(await backtest([outside])).toMatchObject({ examined: 2, limit_reached: 'bytes' })
  })

  test('the work ends when the client goes away', async () => {
    await engine.go(await mailTo('bo@evil.net'))
    await expect(backtest([outside], { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'unavailable',
    })
  })
})
