import { beforeAll, describe, expect, test } from '@jest/globals'
import { createRule } from '../../../../src/governance/rules/rules.ts'
import { finishItems } from '../../../../src/governance/runs/end/finish-items.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { labelRuleInput } from '../../../../src/policy/rule.ts'
import type { Combiner } from '../../../../src/governance/audit/combiner.ts'
import { TransactionTooLong } from '../../../../src/governance/audit/commit-failures.ts'
import { effectOf, eventsOf, runOf, useEngine, stepOf, type Engine } from '../engine-fixture.ts'
import { call, done, read, set } from './labelled-calls.ts'

let engine: Engine

useEngine((started) => (engine = started))

beforeAll(async () => {
  const secret = labelRuleInput.parse({
    name: 'Salaries',
    tools: ['file_read'],
    params: [{ param: 'path', operator: 'startswith', value: 'salaries' }],
    add_labels: ['confidential'],
  })
  await createRule(engine.context, 'label_rule', engine.caller('admin'), secret)
})

/** `count` different labels, sorted. */
const manyLabels = (count: number, start = 0): string[] =>
  Array.from({ length: count }, (_, index) => `l${String(start + index).padStart(6, '0')}`)

const setItemLabels = (runId: string, item: number, labels: string[]) =>
  engine.context.db
    .updateTable('effects')
    .set({ output_labels: labels })
    .where('run_id', '=', runId)
    .where('item_index', '=', item)
    .execute()

describe('labels', () => {
  test('belong to a step once it has completed, and follow dependencies and references', async () => {
    const runId = await engine.run({
      steps: [
        read('open', 'a.md'),
        read('closed', 'salaries/2026.csv'),
        set('by_reference', '{{closed.output.text}}'),
        set('by_dependency', 'x', { depends_on: ['open'] }),
        set('by_when', 'x', { when: { value: '{{closed.output.text}}', operator: 'exists' } }),
        set('apart', 'x'),
        set('last', 'x', { depends_on: ['by_reference', 'by_dependency'] }),
      ],
    })
    expect((await done(engine, runId, 'open', { text: 'a' })).labels).toEqual([])
    await done(engine, runId, 'closed', { text: 'b' })
    expect((await stepOf(engine.context, runId, 'open')).labels).toEqual(['internal'])
    expect((await stepOf(engine.context, runId, 'closed')).labels).toEqual(['confidential', 'internal'])
    expect((await done(engine, runId, 'by_reference')).labels).toEqual(['confidential', 'internal'])
    expect((await done(engine, runId, 'by_dependency')).labels).toEqual(['internal'])
    expect((await done(engine, runId, 'by_when')).labels).toEqual(['confidential', 'internal'])
    expect((await done(engine, runId, 'apart')).labels).toEqual([])
    const last = await done(engine, runId, 'last')
    expect(last.labels).toEqual(['confidential', 'internal'])
    expect(last.labelSources).toEqual([
      { label: 'confidential', from: ['by_reference'] },
      { label: 'internal', from: ['by_reference', 'by_dependency'] },
    ])
  })

  test.each(['skipped', 'failed'])('go through a %s step', async (how) => {
    const when = { value: 'a', operator: 'equals', compare: 'b' }
    const runId = await engine.run({
      steps: [
        read('a', 'salaries.csv'),
        read('b', '{{a.output.text}}', { on_error: 'continue', ...(how === 'skipped' ? { when } : {}) }),
        set('c', '{{b.output.text}}'),
      ],
    })
    await done(engine, runId, 'a', { text: 'x' })
    await done(engine, runId, 'b', null)
    expect((await stepOf(engine.context, runId, 'b')).status).toBe(how)
    expect((await call(engine, runId, 'c')).op.labels).toEqual(['confidential', 'internal'])
  })

  test('of a parameter are those of its own sources: `from_label`', async () => {
    await engine.rules({
      name: 'no secrets as value',
      verdict: 'deny',
      params: [{ param: 'value', operator: 'from_label', value: ['confidential'] }],
    })
    const runId = await engine
      .run({
        steps: [
          read('a', 'salaries.csv'),
          set('by_value', '{{a.output.text}}', { on_error: 'continue' }),
          set('beside', 'plain', { depends_on: ['a'] }),
          set('by_item', '{{item}}', { for_each: '{{a.output.list}}', on_error: 'continue' }),
        ],
      })
      .catch((error: { code: string }) => error.code)
    // The analysis of the plan already denies this run. The rules are therefore removed before the next run.
    expect(runId).toBe('run_denied')
    await engine.rules()
    const other = await engine.run({
      steps: [
        read('a', 'salaries.csv'),
        set('by_value', '{{a.output.text}}'),
        set('beside', 'plain', { depends_on: ['a'] }),
        set('by_item', '{{item}}', { for_each: '{{a.output.list}}' }),
      ],
    })
    await done(engine, other, 'a', { text: 'x', list: ['y'] })
    await expandStep(engine.context, other, 'by_item')
    await engine.rules({
      name: 'no secrets as value',
      verdict: 'deny',
      params: [{ param: 'value', operator: 'from_label', value: ['confidential'] }],
    })
    expect((await call(engine, other, 'by_value')).verdict).toMatchObject({ state: 'denied' })
    expect((await call(engine, other, 'by_item', 0)).verdict).toMatchObject({ state: 'denied' })
    expect((await call(engine, other, 'beside')).verdict).toMatchObject({ go: true })
  })

  test('of items are joined in their step, with those of its inputs', async () => {
    const runId = await engine.run({
      steps: [
        read('list', 'l'),
        read('each', '{{item}}', { for_each: '{{list.output.paths}}' }),
        set('after', '{{each.output}}'),
      ],
    })
    await done(engine, runId, 'list', { paths: ['a.md', 'salaries.csv'] })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    await done(engine, runId, 'each', { text: 'a' }, 0)
    await expect(call(engine, runId, 'after')).rejects.toThrow('waits for `each`')
    await done(engine, runId, 'each', { text: 'b' }, 1)
    await finishItems(engine.context, runId, 'each')
    await finishItems(engine.context, runId, 'each')
    expect(await stepOf(engine.context, runId, 'each')).toMatchObject({ status: 'completed', labels: ['confidential', 'internal'] }) // prettier-ignore
    const after = await done(engine, runId, 'after')
    expect(after.labels).toEqual(['confidential', 'internal'])
    expect(after.params).toEqual({ key: 'k', value: [{ text: 'a' }, { text: 'b' }] })
    const events = await eventsOf(engine.context, runId)
    expect(events.filter((type) => type === 'step.completed')).toHaveLength(5)
  })
})

describe('more labels than a call may carry', () => {
  const definition = {
    steps: [
      read('list', 'l'),
      read('each', '{{item}}', { for_each: '{{list.output.paths}}' }),
      set('after', '{{each.output}}'),
    ],
  }
  async function twoItems(labels: readonly [string[], string[]]): Promise<string> {
    const runId = await engine.run(definition)
    await done(engine, runId, 'list', { paths: ['a.md', 'b.md'] })
    await expandStep(engine.context, runId, 'each')
    for (const item of [0, 1]) {
      await done(engine, runId, 'each', { text: 'a' }, item)
      await setItemLabels(runId, item, labels[item as 0 | 1])
    }
    await finishItems(engine.context, runId, 'each')
    return runId
  }

  test('a step of items may have exactly the limit, and the next call runs', async () => {
    const runId = await twoItems([manyLabels(999), [...manyLabels(5), 'internal']])
    expect((await stepOf(engine.context, runId, 'each')).labels).toEqual(['internal', ...manyLabels(999)])
    const { op, verdict } = await call(engine, runId, 'after')
    expect(op.labels).toHaveLength(1_000)
    expect(verdict).toMatchObject({ go: true })
  })

  test('of a step of items are cut one above the limit, and the call that uses it fails', async () => {
    const runId = await twoItems([manyLabels(9_000), manyLabels(9_000, 5_000)])
    const step = await stepOf(engine.context, runId, 'each')
    expect(step.status).toBe('completed')
    expect(step.labels).toHaveLength(1_001)
    const { op, verdict } = await call(engine, runId, 'after')
    expect(verdict).toMatchObject({ go: false, state: 'failed' })
    const effect = await effectOf(engine.context, op)
    expect(effect?.error).toEqual({
      code: 'resource_exhausted',
      message: 'the inputs of the call carry more than 1,000 labels',
      fault: 'caller',
      retryable: false,
    })
    expect((await stepOf(engine.context, runId, 'after')).labels).toHaveLength(1_001)
  })

  test('a list with too many labels has no items', async () => {
    const runId = await engine.run(definition)
    await done(engine, runId, 'list', { paths: ['a.md'] })
    await engine.context.db.updateTable('run_steps').set({ labels: manyLabels(5_000) }).where('run_id', '=', runId).where('step_id', '=', 'list').execute() // prettier-ignore
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ ended: 'failed' })
    const step = await stepOf(engine.context, runId, 'each')
    expect(step.error).toMatchObject({ code: 'resource_exhausted' })
    expect(step.labels).toHaveLength(1_001)
  })
})

describe('a step of items ends', () => {
  test.each([
    ['stop', ['completed', 'failed', 'denied'], 'failed', 'error 1'],
    ['stop', ['cancelled', 'denied', 'failed'], 'denied', 'error 1'],
    ['continue', ['failed', 'cancelled', 'completed'], 'cancelled', 'error 1'],
    ['continue', ['completed', 'completed', 'rejected'], 'rejected', 'error 2'],
    ['stop', ['skipped', 'skipped', 'skipped'], 'skipped', 'error 0'],
    ['stop', ['skipped', 'completed', 'skipped'], 'completed', 'error 1'],
    ['stop', ['completed', 'completed'], 'cancelled', null],
  ])('with `%s` and items %j as %s', async (on_error, states, status, message) => {
    const runId = await engine.run({
      steps: [read('list', 'l'), read('each', '{{item}}', { for_each: '{{list.output.paths}}', ...(on_error === 'continue' ? { on_error } : {}) })], // prettier-ignore
    })
    await done(engine, runId, 'list', { paths: ['a', 'b', 'c'] })
    await expandStep(engine.context, runId, 'each')
    for (const [item, state] of states.entries()) {
      await done(engine, runId, 'each', { text: 'a' }, item)
      await engine.context.pool.query(
        'update effects set state = $1, error = $2 where run_id = $3 and item_index = $4',
        [state, JSON.stringify({ code: 'e', message: `error ${item}` }), runId, item],
      )
    }
    await finishItems(engine.context, runId, 'each')
    const step = await stepOf(engine.context, runId, 'each')
    expect(step.status).toBe(status)
    expect(step.error?.message ?? null).toBe(message)
  })
})

test('a step that cannot be ended fails in the end, with its run', async () => {
  const runId = await engine.run({ steps: [read('each', '{{item}}', { for_each: ['a'] })] })
  await expandStep(engine.context, runId, 'each')
  await done(engine, runId, 'each', { text: 'a' }, 0)
  const { pool } = engine.context
  await pool.query(`insert into unexpected_errors (run_id, activity_id, errors) values ($1, 'each#finish', 198)`, [runId]) // prettier-ignore
  const broken = {
    ...engine.context,
    combiner: {
      ...engine.context.combiner,
      run: ((organization, point, work) =>
        point === 'step.finish'
          ? Promise.reject(new TransactionTooLong())
          : engine.context.combiner.run(organization, point, work)) as Combiner['run'],
    },
  }
  await expect(finishItems(broken, runId, 'each')).rejects.toThrow('took too long')
  expect((await stepOf(engine.context, runId, 'each')).status).toBe('running')
  await finishItems(broken, runId, 'each')
  expect(await stepOf(engine.context, runId, 'each')).toMatchObject({ status: 'failed', error: { code: 'step_not_finished', fault: 'installation', retryable: false } }) // prettier-ignore
  expect(await runOf(engine.context, runId)).toMatchObject({ status: 'failed' })
})
