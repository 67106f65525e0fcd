import { afterAll, beforeEach, describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import type { PollSettings } from '../../../src/db/schema/triggers.ts'
import { createServiceAccount } from '../../../src/governance/people/service-accounts.ts'
import { changeQuota } from '../../../src/governance/limits/quota.ts'
import { setMemory } from '../../../src/governance/tools/memory.ts'
import { startRunner, type Runner } from '../../../src/governance/lanes/runner.ts'
import { triggerSender } from '../../../src/governance/triggers/schedule.ts'
import type { TriggerChange, TriggerInput } from '../../../src/governance/triggers/settings.ts'
import { changeTrigger, createTrigger } from '../../../src/governance/triggers/triggers.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import type { Json } from '../../../src/policy/types.ts'
import { until } from '../../stack/until.ts'
import { useTestStack, type Stack } from '../../workflows/worker-fixture.ts'
import { oneInput } from './fixture.ts'

/* Polls that read the memory, with a worker and Temporal. The tests make each poll due. */

let stack: Stack
let account: string
let workflowId: string
let tests = 0
let runner: Runner | undefined
const key = () => `rows-${tests}`

async function prepare(started: Stack): Promise<void> {
  const { context, caller } = started
  await started.settings({ approval_required_from: null })
  account = (await createServiceAccount(context, caller('owner'), { name: 'reader', role: 'member' })).id
  const body = { name: 'w', description: '', definition: workflowDefinition.parse(oneInput) }
  workflowId = (await createWorkflow(context, caller('member'), body)).id
  await started.startWorker()
  // Beside that of the worker, which looks every second only.
  runner = startRunner(context, [triggerSender(context, async () => {})], 20)
}
afterAll(() => runner?.stop())
useTestStack((started) => (stack = started), {}, prepare)
beforeEach(() => {
  tests += 1
})

const store = (value: Json, labels: string[] | null = null) =>
  setMemory(stack.context, stack.caller('admin'), { key: key(), value, labels })
const rows = (...ids: Json[]) => ids.map((id) => ({ id, text: `row ${JSON.stringify(id)}` }))

const make = async (poll: Partial<PollSettings> = {}, over: Partial<TriggerInput> = {}): Promise<string> => {
  const usual = { tool: 'memory_get', params: { key: key() }, every_seconds: 3_600, order: null }
  const paths = { list: '{{ output.value }}', id: '{{ item.id }}' }
  const { id } = await createTrigger(stack.context, stack.caller('admin'), workflowId, {
    name: 't',
    service_account: account,
    version: 'latest',
    untrusted: true,
    inputs: { text: '{{ item.text }}' },
    poll: { ...usual, ...paths, first: 'all', ...poll },
    ...over,
  })
  return id
}
const change = (id: string, to: TriggerChange) => changeTrigger(stack.context, stack.caller('admin'), id, to)

const query = async (text: string, values: unknown[]) => (await stack.context.pool.query(text, values)).rows
const triggerOf = async (id: string) => (await query('select * from triggers where id = $1', [id]))[0]
const firingsOf = (id: string) =>
  query('select * from trigger_firings where trigger_id = $1 order by id', [id])
const statesOf = async (id: string) => (await firingsOf(id)).map(({ state }) => state)

/** A poll has ended, and none of its items waits. */
const polled = (id: string) =>
  until('it has polled', async () => {
    const row = await triggerOf(id)
    const isDone = row.poll_run_id === null && (row.next_due_at > new Date() || row.paused_reason !== null)
    return isDone && !(await statesOf(id)).includes('waiting')
  })

const wake = (id: string) =>
  query(`update lanes set due_at = now(), paused_until = null where kind = 'trigger' and id = $1`, [id])

async function makeDue(id: string): Promise<void> {
  await query(`update triggers set next_due_at = now() where id = $1`, [id])
  await wake(id)
}

async function pollAgain(id: string): Promise<void> {
  await makeDue(id)
  await polled(id)
}

const textsOf = async (id: string): Promise<unknown[]> => {
  const started = (await firingsOf(id)).filter(({ run_id }) => run_id !== null)
  return Promise.all(started.map(async ({ run_id }) => (await stack.readRun(run_id))?.inputs?.['text']))
}

describe('each new item starts a run once', () => {
  test('also when it stays in the list, or leaves it and comes back', async () => {
    await store(rows('a', 'b'))
    const id = await make()
    await polled(id)
    expect(await textsOf(id)).toEqual(['row "a"', 'row "b"'])
    await store(rows('b', 'c'))
    await pollAgain(id)
    await store(rows('a', 'b', 'c', 4))
    await pollAgain(id)
    expect(await textsOf(id)).toEqual(['row "a"', 'row "b"', 'row "c"', 'row 4'])
  })
  test('what is there at the first poll is skipped, unless the trigger says otherwise', async () => {
    await store(rows('a', 'b'))
    const id = await make({ first: 'skip' })
    await polled(id)
    expect(await firingsOf(id)).toMatchObject([
      { state: 'skipped', reason: '2 items were there at the first poll' },
    ])
    await store(rows('a', 'b', 'c'))
    await pollAgain(id)
    expect(await textsOf(id)).toEqual(['row "c"'])
  })

  test('at most 100 of a poll, the first in their order; the next poll takes the others', async () => {
    const ids = Array.from({ length: 150 }, (_, n) => 150 - n)
    await store(rows(...ids))
    const id = await make({ order: '{{ item.id }}' }, { untrusted: true })
    await polled(id)
    const first = await textsOf(id)
    expect([first.length, first[0], first.at(-1)]).toEqual([100, 'row 1', 'row 100'])
    await pollAgain(id)
    const all = await textsOf(id)
    expect([all.length, all.at(-1)]).toEqual([150, 'row 150'])
  })

  test('an item is remembered as long as it is in the list, and 30 days more', async () => {
    await store(rows('a', 'b'))
    const id = await make()
    await polled(id)
    const age = (days: number) =>
      query(`update trigger_items set seen_at = now() - make_interval(days => $2) where trigger_id = $1`, [
        id,
        days,
      ])
    await age(40)
    await store(rows('b'))
    await pollAgain(id)
    expect(await query('select item from trigger_items where trigger_id = $1', [id])).toHaveLength(1)
    await age(29)
    await store(rows('c'))
    await pollAgain(id)
    expect(await query('select item from trigger_items where trigger_id = $1', [id])).toHaveLength(2)
  })
})

describe('a poll that means no items fails with a reason, and the next one comes later', () => {
  const many = (count: number) => rows(...Array.from({ length: count }, (_, n) => n))
  test.each<[string, Json, Partial<PollSettings>, string]>([
    ['no list', { a: 1 }, {}, '`list` gives no list'],
    ['nothing', null, {}, '`list` gives no list'],
    [
      'a missing path',
      { a: 1 },
      { list: '{{ output.value.nothing }}' },
      'there is no `nothing` in the value',
    ],
    ['too many', many(1_001), {}, 'has 1001 items, and at most 1000 are possible'],
    ['an id that is an object', rows({ a: 1 }), {}, 'is an object for item 1 of the list'],
    ['an id that is null', rows('a', null), {}, 'is null for item 2 of the list'],
    ['an empty id', rows(''), {}, 'is empty for item 1 of the list'],
    ['two items with one id', rows('a', 'b', 'a'), {}, 'is the same for the items 1 and 3 of the list'],
    ['a number and a text', rows(7, '7'), {}, 'is the same for the items 1 and 2 of the list'],
    ['an item without an id', [{ text: 'x' }], {}, 'there is no `id` in the value'],
    ['an order of two kinds', rows(1, 'a'), { order: '{{ item.id }}' }, 'compares a number with text'],
    [
      'an order that is null',
      rows('a', 'b'),
      { order: '{{ item.day ?? null }}' },
      'compares two numbers or two texts',
    ],
    [
      'an expression that is too large',
      many(1_000),
      { id: '{{ size(filter(output.value, row, row.id == item.id)) + item.id }}' },
      'takes too many steps',
    ],
  ])('%s', async (_, value, poll, reason) => {
    await store(value)
    const id = await make({ every_seconds: 100, ...poll })
    await polled(id)
    const [firing] = await firingsOf(id)
    expect(firing).toMatchObject({ state: 'failed', run_id: null, reason: expect.stringContaining(reason) })
    expect(firing.poll_run_id).toMatch(/^run_/)
    expect((await triggerOf(id)).polled_at).toBeNull()
  })

  test('ten in a row pause it; one that works ends the row', async () => {
    await store(null)
    const id = await make({ every_seconds: 100 })
    await polled(id)
    for (let count = 1; count < 9; count += 1) await pollAgain(id)
    const { next_due_at: next } = await triggerOf(id)
    expect(next.getTime() - Date.now()).toBeGreaterThan(3_000_000)
    await store(rows('a'))
    await pollAgain(id)
    await store(null)
    await pollAgain(id)
    expect((await triggerOf(id)).paused_reason).toBeNull()
    for (let count = 1; count < 10; count += 1) await pollAgain(id)
    await until('it is paused', async () => (await triggerOf(id)).paused_reason !== null)
    expect((await triggerOf(id)).paused_reason).toContain('10 firings in a row failed')
  })
})

describe('the rules decide the call', () => {
  const about = (verdict: string) => ({ name: verdict, verdict, tools: ['memory_get'] })

  test('a denied call is a failed firing', async () => {
    await stack.rules(about('deny'))
    await store(rows('a'))
    const id = await make()
    await polled(id)
    expect(await firingsOf(id)).toMatchObject([{ state: 'failed', reason: expect.stringContaining('deny') }])
  })

  test('a held call waits, and no other is made meanwhile; after the approval its items start', async () => {
    await stack.rules(about('require_approval'))
    await store(rows('a'))
    const id = await make()
    await until('it has begun', async () => (await triggerOf(id)).poll_run_id !== null)
    const { poll_run_id: run } = await triggerOf(id)
    const approval = await stack.held(run)
    await wake(id)
    await until('its firing waits', async () => (await statesOf(id)).includes('waiting'))
    expect(await firingsOf(id)).toMatchObject([
      {
        state: 'waiting',
        run_id: null,
        poll_run_id: run,
        reason: expect.stringContaining('waits for an approval'),
      },
    ])
    await stack.vote(approval, 'owner')
    await polled(id)
    expect(await textsOf(id)).toEqual(['row "a"'])
    expect(await statesOf(id)).toEqual(['started'])
  })

  test('labels of the output stay on the inputs, also if an owner trusts the trigger', async () => {
    await store(rows('a'), ['secret'])
    const labelsOf = async (id: string) => {
      const [{ run_id: run }] = await firingsOf(id)
      const [{ input_labels: labels }] = await query('select input_labels from runs where id = $1', [run])
      return labels.text.map(({ label }: { label: string }) => label)
    }
    const id = await make()
    await polled(id)
    expect(await labelsOf(id)).toEqual(['secret', 'untrusted'])
    await change(id, { paused: true })
    const trusted = await createTrigger(stack.context, stack.caller('owner'), workflowId, {
      ...{ name: 't', service_account: account, version: 'latest', untrusted: false },
      inputs: { text: '{{ item.text }}' },
      poll: (await triggerOf(id)).settings,
    })
    await polled(trusted.id)
    expect(await labelsOf(trusted.id)).toEqual(['secret'])
  })
})

describe('nothing that passes loses an item', () => {
  const quota = (limits: Parameters<typeof changeQuota>[2]) =>
    changeQuota(stack.context, stack.caller('owner'), limits)

  test('a quota: the item waits', async () => {
    await store(rows('a', 'b'))
    const id = await make({}, { inputs: { text: '{{ item.text }}' } })
    await polled(id)
    await query(`update triggers set paused_reason = 'test' where id <> $1`, [id])
    const { rows: counted } = await stack.context.pool.query(
      `select count(*)::int as runs from runs where created_at > now() - interval '1 hour'`,
    )
    await store(rows('a', 'b', 'c', 'd'))
    await quota({ workflow_runs_per_hour: counted[0].runs + 2 })
    await makeDue(id)
    await until('one waits', async () =>
      (await firingsOf(id)).some(({ state, reason }) => state === 'waiting' && reason !== null),
    )
    expect(await textsOf(id)).toEqual(['row "a"', 'row "b"', 'row "c"'])
    await quota({ workflow_runs_per_hour: null })
    await wake(id)
    await polled(id)
    expect(await textsOf(id)).toEqual(['row "a"', 'row "b"', 'row "c"', 'row "d"'])
  })

  test('a freeze: no call is made, and an item waits', async () => {
    await store(rows('a'))
    const id = await make()
    await polled(id)
    await store(rows('a', 'b'))
    await stack.frozen(async () => {
      await makeDue(id)
      await until('the turn has ended', async () => {
        const [lane] = await query(`select leased_until, due_at > now() as later from lanes where id = $1`, [
          id,
        ])
        return lane.leased_until === null && lane.later
      })
      expect((await triggerOf(id)).poll_run_id).toBeNull()
    })
    await wake(id)
    await polled(id)
    expect(await statesOf(id)).toEqual(['started', 'started'])
  })
})

describe('a change', () => {
  test('of the call is a new version, and the poll begins anew', async () => {
    await store(rows('a'))
    const id = await make()
    await polled(id)
    const { settings } = await triggerOf(id)
    await store(rows('a', 'b'))
    const changed = await change(id, {
      poll: { ...settings, list: '{{ slice(output.value, 0, 5) }}', first: 'skip' },
    })
    await polled(id)
    expect(await statesOf(id)).toEqual(['started', 'skipped'])
    const { workflow_id: own } = changed.poll ?? { workflow_id: '' }
    const versions = () =>
      query('select version from workflow_versions where workflow_id = $1 order by version', [own])
    expect(await versions()).toHaveLength(1)
    await change(id, { poll: { ...settings, params: { key: 'other' } } })
    expect(await versions()).toHaveLength(2)
  })

  test('a pause drops what waits, and forgets it', async () => {
    await store(rows('a'))
    const id = await make()
    await polled(id)
    await query(
      `insert into trigger_firings (id, organization_id, trigger_id, state, delivery_id, created_at)
       values ($1 || '_w', $2, $1, 'waiting', 'item', now())`,
      [id, stack.organizationId],
    )
    await query(`insert into trigger_items values ($1, $2, 'item', now())`, [id, stack.organizationId])
    await change(id, { paused: true })
    expect(await query('select item from trigger_items where trigger_id = $1', [id])).toHaveLength(1)
    expect((await firingsOf(id)).at(-1)).toMatchObject({ state: 'skipped', delivery_id: null })
  })
})

test('a poll that is changed while its items start starts the rest as it is then', async () => {
  await store(rows(...Array.from({ length: 60 }, (_, place) => place)))
  const owner = stack.caller('owner')
  const { id } = await createTrigger(stack.context, owner, workflowId, {
    name: 't',
    service_account: account,
    version: 'latest',
    untrusted: false,
    inputs: { text: '{{ item.text }}' },
    poll: {
      tool: 'memory_get',
      params: { key: key() },
      every_seconds: 3_600,
      order: null,
      list: '{{ output.value }}',
      id: '{{ item.id }}',
      first: 'all',
    },
  })
  const started = async () => (await firingsOf(id)).filter(({ run_id }) => run_id !== null).length
  await until('some have started', async () => (await started()) > 0)
  await changeTrigger(stack.context, owner, id, { untrusted: true, inputs: { text: 'new' } })
  const before = await started()
  await polled(id)
  const late = (await textsOf(id)).slice(before)
  expect(late.length).toBeGreaterThan(0)
  expect(new Set(late)).toEqual(new Set(['new']))
})
