import { beforeAll, describe, expect, test } from '@jest/globals'
import { prepareCall } from '../../../../src/activities/prepare.ts'
import type { ToolDeclaration } from '../../../../src/catalog/tool.ts'
import { createRule } from '../../../../src/governance/rules/rules.ts'
import { finishItems } from '../../../../src/governance/runs/end/finish-items.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { readCallSpec } from '../../../../src/governance/runs/values/call-spec.ts'
import type { StepVerdict } from '../../../../src/governance/runs/effects/effect.ts'
import { labelRuleInput } from '../../../../src/policy/rule.ts'
import { callOf } from '../../../../src/governance/runs/effects/effect.ts'
import type { Json } from '../../../../src/policy/types.ts'
import { setMemory } from '../../../../src/activities/tools/memory-set.ts'
import { deleteMemory, setMemory as keepValue } from '../../../../src/governance/tools/memory.ts'
import { recordWithWrite } from '../../../../src/governance/runs/effects/outcome.ts'
import { toolCall, toolContext } from '../../../activities/tools/call.ts'
import type { Combiner } from '../../../../src/governance/audit/combiner.ts'
import { TransactionTooLong } from '../../../../src/governance/audit/commit-failures.ts'
import { auditOf } from '../../support.ts'
import {
  basisOf,
  effectOf,
  eventsOf,
  go,
  oneStep,
  opOf,
  outcomeOf,
  outputOf,
  runOf,
  useEngine,
  stepOf,
  type Engine,
  type StepOp,
} from '../engine-fixture.ts'

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

/** Prepares and decides a call as the interceptor does. */
async function call(runId: string, stepId: string, item = -1): Promise<{ op: StepOp; verdict: StepVerdict }> {
  const frame = await readCallSpec(engine.context, { runId, stepId, itemIndex: item })
  const tool = frame.tool as ToolDeclaration
  const { value: op } = await prepareCall(engine.context, frame, tool, new AbortController().signal)
  return { op, verdict: await engine.decide(op) }
}

/** The same, and ends it: with this output, or as failed for null. */
async function done(runId: string, stepId: string, output: object | null = {}, item = -1): Promise<StepOp> {
  const { op, verdict } = await call(runId, stepId, item)
  if (!verdict.go) return op
  const labels = [...op.tool.outputLabels]
  await engine.record({
    key: op.key,
    attempt: verdict.attempt,
    durationMs: 1,
    result:
      output === null
        ? { state: 'failed', error: { code: 'e', message: 'm' } }
        : { state: 'completed', output: outputOf(op.key, output as Json), labels, call: callOf(op) },
  })
  return op
}

const read = (id: string, path: string, over: object = {}) => ({
  id,
  tool: 'file_read',
  params: { path },
  ...over,
})
const set = (id: string, value: unknown, over: object = {}) => ({ id, tool: 'memory_set', params: { key: 'k', value }, ...over }) // prettier-ignore

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
    expect((await done(runId, 'open', { text: 'a' })).labels).toEqual([])
    await done(runId, 'closed', { text: 'b' })
    expect((await stepOf(engine.context, runId, 'open')).labels).toEqual(['internal'])
    expect((await stepOf(engine.context, runId, 'closed')).labels).toEqual(['confidential', 'internal'])
    expect((await done(runId, 'by_reference')).labels).toEqual(['confidential', 'internal'])
    expect((await done(runId, 'by_dependency')).labels).toEqual(['internal'])
    expect((await done(runId, 'by_when')).labels).toEqual(['confidential', 'internal'])
    expect((await done(runId, 'apart')).labels).toEqual([])
    const last = await done(runId, 'last')
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
    await done(runId, 'a', { text: 'x' })
    await done(runId, 'b', null)
    expect((await stepOf(engine.context, runId, 'b')).status).toBe(how)
    expect((await call(runId, 'c')).op.labels).toEqual(['confidential', 'internal'])
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
    // Otherwise the plan’s analysis would deny the run.
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
    await done(other, 'a', { text: 'x', list: ['y'] })
    await expandStep(engine.context, other, 'by_item')
    await engine.rules({
      name: 'no secrets as value',
      verdict: 'deny',
      params: [{ param: 'value', operator: 'from_label', value: ['confidential'] }],
    })
    expect((await call(other, 'by_value')).verdict).toMatchObject({ state: 'denied' })
    expect((await call(other, 'by_item', 0)).verdict).toMatchObject({ state: 'denied' })
    expect((await call(other, 'beside')).verdict).toMatchObject({ go: true })
  })

  test('of items are joined in their step, with those of its inputs', async () => {
    const runId = await engine.run({
      steps: [
        read('list', 'l'),
        read('each', '{{item}}', { for_each: '{{list.output.paths}}' }),
        set('after', '{{each.output}}'),
      ],
    })
    await done(runId, 'list', { paths: ['a.md', 'salaries.csv'] })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    await done(runId, 'each', { text: 'a' }, 0)
    await expect(call(runId, 'after')).rejects.toThrow('waits for `each`')
    await done(runId, 'each', { text: 'b' }, 1)
    await finishItems(engine.context, runId, 'each')
    await finishItems(engine.context, runId, 'each')
    expect(await stepOf(engine.context, runId, 'each')).toMatchObject({ status: 'completed', labels: ['confidential', 'internal'] }) // prettier-ignore
    const after = await done(runId, 'after')
    expect(after.labels).toEqual(['confidential', 'internal'])
    expect(after.params).toEqual({ key: 'k', value: [{ text: 'a' }, { text: 'b' }] })
    const events = await eventsOf(engine.context, runId)
    expect(events.filter((type) => type === 'step.completed')).toHaveLength(5)
  })
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
    await done(runId, 'list', { paths: ['a.md', 'b.md'] })
    await expandStep(engine.context, runId, 'each')
    for (const item of [0, 1]) {
      await done(runId, 'each', { text: 'a' }, item)
      await setItemLabels(runId, item, labels[item as 0 | 1])
    }
    await finishItems(engine.context, runId, 'each')
    return runId
  }

  test('a step of items may have exactly the limit, and the next call runs', async () => {
    const runId = await twoItems([manyLabels(999), [...manyLabels(5), 'internal']])
    expect((await stepOf(engine.context, runId, 'each')).labels).toEqual(['internal', ...manyLabels(999)])
    const { op, verdict } = await call(runId, 'after')
    expect(op.labels).toHaveLength(1_000)
    expect(verdict).toMatchObject({ go: true })
  })

  test('of a step of items are cut one above the limit, and the call that uses it fails', async () => {
    const runId = await twoItems([manyLabels(9_000), manyLabels(9_000, 5_000)])
    const step = await stepOf(engine.context, runId, 'each')
    expect(step.status).toBe('completed')
    expect(step.labels).toHaveLength(1_001)
    const { op, verdict } = await call(runId, 'after')
    expect(verdict).toMatchObject({ go: false, state: 'failed' })
    const effect = await effectOf(engine.context, op)
    expect(effect?.error).toEqual({
      code: 'resource_exhausted',
      message: 'the inputs of the call carry more than 1,000 labels',
    })
    expect((await stepOf(engine.context, runId, 'after')).labels).toHaveLength(1_001)
  })

  test('a list with too many labels has no items', async () => {
    const runId = await engine.run(definition)
    await done(runId, 'list', { paths: ['a.md'] })
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
    await done(runId, 'list', { paths: ['a', 'b', 'c'] })
    await expandStep(engine.context, runId, 'each')
    for (const [item, state] of states.entries()) {
      await done(runId, 'each', { text: 'a' }, item)
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
  await done(runId, 'each', { text: 'a' }, 0)
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
  expect(await stepOf(engine.context, runId, 'each')).toMatchObject({ status: 'failed', error: { code: 'step_not_finished' } }) // prettier-ignore
  expect(await runOf(engine.context, runId)).toMatchObject({ status: 'failed' })
})

describe('parameters', () => {
  test.each([
    [100, null],
    [101, 'resource_exhausted'],
  ])('%i values of 1,000 labels each', async (count, code) => {
    const values = Array.from({ length: count }, () => '{{a.output.text}}')
    const runId = await engine.run({ steps: [read('a', 'a'), set('b', values)] })
    await done(runId, 'a', { text: 'x' })
    const spec = await readCallSpec(engine.context, { runId, stepId: 'b', itemIndex: -1 })
    const labels = Array.from({ length: 1_000 }, (_, index) => `label-${index}`)
    const { value: op } = await prepareCall(
      engine.context,
      { ...spec, labelsOf: () => labels },
      spec.tool as ToolDeclaration,
      new AbortController().signal,
    )
    expect(op.problem?.code ?? null).toBe(code)
  })

  test('are resolved once: every attempt uses the sealed bytes', async () => {
    const runId = await engine.run({ steps: [read('a', 'a'), set('b', '{{a.output.text}} {{today}}')] })
    await done(runId, 'a', { text: 'first' })
    const { op } = await call(runId, 'b')
    await engine.context.db.updateTable('effects').set({ output: '{"text":"other"}', output_sealed: null }).where('step_id', '=', 'a').where('run_id', '=', runId).execute() // prettier-ignore
    const again = await call(runId, 'b')
    expect(again.verdict).toMatchObject({ go: true, attempt: 2 })
    expect(again.op.params).toEqual(op.params)
    expect(op.params['value']).toMatch(/^first \d{4}-\d\d-\d\d$/)
    const stored = await effectOf(engine.context, op)
    expect(stored?.params_sealed?.includes('first')).toBe(false)
    expect(stored?.params_hash).toBe(op.paramsHash)
  })

  test.each([
    ['a reference without a value', '{{a.output.none}}', 'template_unresolved'],
    ['a value that the tool does not accept', '{{a.output.text}}', 'invalid_params'],
  ])('%s fails the step before any decision', async (_name, path, code) => {
    const runId = await engine.run({
      steps: [read('a', 'a'), { id: 'b', tool: 'file_read', params: { path } }],
    })
    await done(runId, 'a', { text: 7 })
    const { verdict } = await call(runId, 'b')
    expect(verdict).toMatchObject({ go: false, state: 'failed' })
    expect(await stepOf(engine.context, runId, 'b')).toMatchObject({ error: { code }, verdict: null })
    expect(await runOf(engine.context, runId)).toMatchObject({ nodes_failed: 1, decision_seq: 1 })
  })
})

describe('values that a run writes to the memory', () => {
  const keep = async (by: 'member' | 'admin', labels: string[]) => {
    const { organizationId, context } = engine
    const op = opOf(await engine.run(oneStep, {}, by))
    const attempt = await go(engine, op)
    const params = { key: 'washed', value: 'harmless' }
    const requester = { userId: engine.caller(by).userId }
    const { commit } = await setMemory(toolCall(params, { organizationId, requester, labels }), toolContext())
    const outcome = outcomeOf(op, attempt, 'completed')
    const basis = await basisOf(context, op)
    expect(await recordWithWrite(context, organizationId, outcome, basis, commit!)).toBe('completed')
    return op.key.runId
  }
  const kept = async () => {
    const rows = engine.context.db.selectFrom('memory').select('labels').where('key', '=', 'washed')
    return (await rows.executeTakeFirst())?.labels
  }

  test('also have the labels of the key, even of a deleted one; a run of an admin removes them, audited', async () => {
    const { context, organizationId } = engine
    const member = engine.caller('member')
    await keepValue(context, member, { key: 'washed', value: 'secret', labels: ['pii'] })
    await keep('member', [])
    expect(await kept()).toEqual(['pii'])
    await deleteMemory(context, member, 'washed')
    await keep('member', ['internal'])
    expect(await kept()).toEqual(['internal', 'pii'])
    const runId = await keep('admin', ['internal'])
    expect(await kept()).toEqual(['internal'])
    const entries = await auditOf(context, organizationId, 2)
    expect(entries).toMatchObject([
      {
        event_type: 'memory.set',
        run_id: runId,
        metadata: { key: 'washed', labels: ['internal'], labels_before: ['internal', 'pii'] },
      },
      { event_type: 'tool_call.completed' },
    ])
  })
})
