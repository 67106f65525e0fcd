import { beforeAll, describe, expect, test } from '@jest/globals'
import { createRule } from '../../governance/rules/free-changes.ts'
import { finishItems } from '../../../src/governance/runs/end/finish-items.ts'
import { expandStep } from '../../../src/calls/runs/items.ts'
import { labelRuleInput } from '../../../src/governance/rules/rule-kinds.ts'
import type { Combiner } from '../../../src/governance/audit/combiner.ts'
import { TransactionTooLong } from '../../../src/governance/audit/lane-transactions.ts'
import { useEngine, type Engine, oneStep, opOf, outcomeOf } from '../../governance/runs/engine-fixture.ts'
import { call, done, read, set } from './labelled-calls.ts'
import { prepareCall } from '../../../src/calls/runs/prepare.ts'
import type { ToolDeclaration } from '../../../src/tools/kit/tool.ts'
import { readDefinedCall } from '../../../src/calls/runs/call.ts'
import { run } from '../../../src/tools/memory/run.ts'
import {
  deleteMemory,
  setMemory as keepValue,
  storeOfCall,
  type OutcomeTx,
} from '../../../src/governance/tools/memory.ts'
import { recordWithWrite } from '../../../src/calls/runs/outcome.ts'
import { toolCall, toolContext } from '../../tools/call.ts'
import { auditOf } from '../../governance/support.ts'
import { workflowDefinition } from '../../../src/contract/definition.ts'
import { hashOf } from '../../../src/shared/canonical-json.ts'
import { acceptRun, type AcceptRequest } from '../../../src/governance/runs/start/accept.ts'
import { openInputs } from '../../../src/governance/runs/values/run-snapshot.ts'
import { readReceipt, type ReceiptView } from '../../../src/governance/runs/read/receipt.ts'
import { createWorkflow } from '../../../src/governance/workflows/workflows.ts'
import type { JsonObject } from '../../../src/policy/types.ts'
import { addOrganization } from '../../api/fixtures.ts'

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

/** Saves a workflow, and accepts a run of it. */
async function accept(definition: object, inputs: JsonObject, over: Partial<AcceptRequest> = {}) {
  const caller = engine.caller('member')
  const body = { name: 'w', description: '', definition: workflowDefinition.parse(definition) }
  const { id } = await createWorkflow(engine.context, caller, body)
  return (await acceptRun(engine.context, { caller, workflowId: id, inputs, ...over })).runId
}
const end = (runId: string, stepId: string, output: object | null = {}, item = -1) =>
  done(engine, runId, stepId, output, item)
const decide = (runId: string, stepId: string, item = -1) => call(engine, runId, stepId, item)

/** `count` different labels, sorted. */
const manyLabels = (count: number, start = 0): string[] =>
  Array.from({ length: count }, (_, index) => `l${String(start + index).padStart(6, '0')}`)
const each = (over: object = {}) => ({
  steps: [
    read('list', 'l'),
    read('each', '{{item}}', { for_each: '{{list.output.paths}}', ...over }),
    set('after', '{{each.output}}'),
  ],
})

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
    expect((await end(runId, 'open', { text: 'a' })).labels).toEqual([])
    await end(runId, 'closed', { text: 'b' })
    expect((await engine.stepOf(runId, 'open')).labels).toEqual(['internal'])
    expect((await engine.stepOf(runId, 'closed')).labels).toEqual(['confidential', 'internal'])
    expect((await end(runId, 'by_reference')).labels).toEqual(['confidential', 'internal'])
    expect((await end(runId, 'by_dependency')).labels).toEqual(['internal'])
    expect((await end(runId, 'by_when')).labels).toEqual(['confidential', 'internal'])
    expect((await end(runId, 'apart')).labels).toEqual([])
    const last = await end(runId, 'last')
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
    await end(runId, 'a', { text: 'x' })
    await end(runId, 'b', null)
    expect((await engine.stepOf(runId, 'b')).status).toBe(how)
    expect((await decide(runId, 'c')).op.labels).toEqual(['confidential', 'internal'])
  })

  test('of a parameter are those of its own sources: `from_label`', async () => {
    const noSecrets = {
      name: 'no secrets as value',
      verdict: 'deny',
      params: [{ param: 'value', operator: 'from_label', value: ['confidential'] }],
    }
    const definition = {
      steps: [
        read('a', 'salaries.csv'),
        set('by_value', '{{a.output.text}}', { on_error: 'continue' }),
        set('beside', 'plain', { depends_on: ['a'] }),
        set('by_item', '{{item}}', { for_each: '{{a.output.list}}', on_error: 'continue' }),
      ],
    }
    await engine.rules(noSecrets)
    // The analysis of the plan already denies this run. So the rule is saved again once the run has begun.
    await expect(engine.run(definition)).rejects.toMatchObject({ code: 'run_denied' })
    await engine.rules()
    const runId = await engine.run(definition)
    await end(runId, 'a', { text: 'x', list: ['y'] })
    await expandStep(engine.context, runId, 'by_item')
    await engine.rules(noSecrets)
    expect((await decide(runId, 'by_value')).verdict).toMatchObject({ state: 'denied' })
    expect((await decide(runId, 'by_item', 0)).verdict).toMatchObject({ state: 'denied' })
    expect((await decide(runId, 'beside')).verdict).toMatchObject({ go: true })
  })

  test('of items are joined in their step, with those of its inputs', async () => {
    const runId = await engine.run(each())
    await end(runId, 'list', { paths: ['a.md', 'salaries.csv'] })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ count: 2 })
    await end(runId, 'each', { text: 'a' }, 0)
    await expect(decide(runId, 'after')).rejects.toThrow('waits for `each`')
    await end(runId, 'each', { text: 'b' }, 1)
    await finishItems(engine.context, runId, 'each')
    await finishItems(engine.context, runId, 'each')
    expect(await engine.stepOf(runId, 'each')).toMatchObject({ status: 'completed', labels: ['confidential', 'internal'] }) // prettier-ignore
    const after = await end(runId, 'after')
    expect(after.labels).toEqual(['confidential', 'internal'])
    expect(after.params).toEqual({ key: 'k', value: [{ text: 'a' }, { text: 'b' }] })
    const events = await engine.eventsOf(runId)
    expect(events.filter((type) => type === 'step.completed')).toHaveLength(5)
  })
})

describe('more labels than a call may carry', () => {
  async function twoItems(labels: readonly [string[], string[]]): Promise<string> {
    const runId = await engine.run(each())
    await end(runId, 'list', { paths: ['a.md', 'b.md'] })
    await expandStep(engine.context, runId, 'each')
    for (const item of [0, 1]) {
      await end(runId, 'each', { text: 'a' }, item)
      await engine.context.pool.query(
        'update effects set output_labels = $1 where run_id = $2 and item_index = $3',
        [labels[item as 0 | 1], runId, item],
      )
    }
    await finishItems(engine.context, runId, 'each')
    return runId
  }

  test('a step of items may have exactly the limit, and the next call runs', async () => {
    const runId = await twoItems([manyLabels(999), [...manyLabels(5), 'internal']])
    expect((await engine.stepOf(runId, 'each')).labels).toEqual(['internal', ...manyLabels(999)])
    const { op, verdict } = await decide(runId, 'after')
    expect(op.labels).toHaveLength(1_000)
    expect(verdict).toMatchObject({ go: true })
  })

  test('of a step of items are cut one above the limit, and the call that uses it fails', async () => {
    const runId = await twoItems([manyLabels(9_000), manyLabels(9_000, 5_000)])
    const step = await engine.stepOf(runId, 'each')
    expect(step.status).toBe('completed')
    expect(step.labels).toHaveLength(1_001)
    const { op, verdict } = await decide(runId, 'after')
    expect(verdict).toMatchObject({ go: false, state: 'failed' })
    const effect = await engine.effectOf(op)
    expect(effect?.error).toEqual({
      code: 'resource_exhausted',
      message: 'the inputs of the call carry more than 1,000 labels',
      fault: 'caller',
      retryable: false,
    })
    expect((await engine.stepOf(runId, 'after')).labels).toHaveLength(1_001)
  })

  test('a list with too many labels has no items', async () => {
    const runId = await engine.run(each())
    await end(runId, 'list', { paths: ['a.md'] })
    await engine.context.db.updateTable('run_steps').set({ labels: manyLabels(5_000) }).where('run_id', '=', runId).where('step_id', '=', 'list').execute() // prettier-ignore
    expect(await expandStep(engine.context, runId, 'each')).toEqual({ ended: 'failed' })
    const step = await engine.stepOf(runId, 'each')
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
    const runId = await engine.run(each(on_error === 'continue' ? { on_error } : {}))
    await end(runId, 'list', { paths: ['a', 'b', 'c'] })
    await expandStep(engine.context, runId, 'each')
    for (const [item, state] of states.entries()) {
      await end(runId, 'each', { text: 'a' }, item)
      await engine.context.pool.query(
        'update effects set state = $1, error = $2 where run_id = $3 and item_index = $4',
        [state, JSON.stringify({ code: 'e', message: `error ${item}` }), runId, item],
      )
    }
    await finishItems(engine.context, runId, 'each')
    const step = await engine.stepOf(runId, 'each')
    expect(step.status).toBe(status)
    expect(step.error?.message ?? null).toBe(message)
  })
})

test('a step that cannot be ended fails in the end, with its run', async () => {
  const runId = await engine.run({ steps: [read('each', '{{item}}', { for_each: ['a'] })] })
  await expandStep(engine.context, runId, 'each')
  await end(runId, 'each', { text: 'a' }, 0)
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
  expect((await engine.stepOf(runId, 'each')).status).toBe('running')
  await finishItems(broken, runId, 'each')
  expect(await engine.stepOf(runId, 'each')).toMatchObject({ status: 'failed', error: { code: 'step_not_finished', fault: 'installation', retryable: false } }) // prettier-ignore
  expect(await engine.runOf(runId)).toMatchObject({ status: 'failed' })
})

/* The parameters of calls with labels, and the labels of values in the memory. */

describe('parameters', () => {
  test.each([
    [100, null],
    [101, 'resource_exhausted'],
  ])('%i values of 1,000 labels each', async (count, code) => {
    const values = Array.from({ length: count }, () => '{{a.output.text}}')
    const runId = await engine.run({ steps: [read('a', 'a'), set('b', values)] })
    await end(runId, 'a', { text: 'x' })
    const spec = await readDefinedCall(engine.context, { runId, stepId: 'b', itemIndex: -1 })
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
    await end(runId, 'a', { text: 'first' })
    const { op } = await decide(runId, 'b')
    await engine.context.db.updateTable('effects').set({ output_sealed: Buffer.from('other') }).where('step_id', '=', 'a').where('run_id', '=', runId).execute() // prettier-ignore
    const again = await decide(runId, 'b')
    expect(again.verdict).toMatchObject({ go: true, attempt: 2 })
    expect(again.op.params).toEqual(op.params)
    expect(op.params['value']).toMatch(/^first \d{4}-\d\d-\d\d$/)
    const stored = await engine.effectOf(op)
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
    await end(runId, 'a', { text: 7 })
    const { verdict } = await decide(runId, 'b')
    expect(verdict).toMatchObject({ go: false, state: 'failed' })
    expect(await engine.stepOf(runId, 'b')).toMatchObject({ error: { code }, verdict: null })
    expect(await engine.runOf(runId)).toMatchObject({ nodes_failed: 1, decision_seq: 1 })
  })
})

describe('values that a run writes to the memory', () => {
  const keep = async (by: 'member' | 'admin', labels: string[]) => {
    const { organizationId, context } = engine
    const op = opOf(await engine.run(oneStep, {}, by))
    const attempt = await engine.go(op)
    const params = { key: 'washed', value: 'harmless' }
    const requester = { userId: engine.caller(by).userId }
    const call = toolCall(params, { organizationId, requester, labels })
    const { stores } = await run.memory_set.body(call, toolContext())
    const outcome = outcomeOf(op, attempt, 'completed')
    const basis = await engine.basisOf(op)
    const write = (tx: OutcomeTx) => storeOfCall(tx, stores!)
    expect(await recordWithWrite(context, organizationId, outcome, basis, write)).toBe('completed')
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

/* The inputs of a run: references to outputs of earlier runs, and labels. */

let earlier: string
const first = read('read', 'a.md')
beforeAll(async () => {
  earlier = await engine.run({ steps: [first, read('later', '{{read.output.text}}')] })
  await end(earlier, 'read', { text: 'secret', rows: [{ name: 'Ann' }], nothing: null })
})

const text = { inputs: { x: { type: 'string', required: true }, y: { type: 'string' } } }
/** A run whose step `s` uses no input. */
const given = (inputs: JsonObject, over: Partial<AcceptRequest> = {}, steps: object[] = [set('s', 1)]) =>
  accept({ ...text, steps }, inputs, over)
const fromRun = (path = 'text') => ({ from_run: earlier, step: 'read', path })

describe('an input that refers to an output', () => {
  test('has its value and its labels, and receipts name the input and the run', async () => {
    const runId = await accept({ ...text, steps: [set('keep', 'The {{input.x}}'), set('apart', '{{input.y}}')] }, { x: fromRun(), y: 'plain' }) // prettier-ignore
    const from = ['input.x', `${earlier}/read`]
    expect(await engine.readRun(runId)).toMatchObject({
      inputs: { x: 'secret', y: 'plain' },
      input_labels: { x: [{ label: 'internal', from }] },
    })
    const op = await end(runId, 'keep')
    expect(op.params['value']).toBe('The secret')
    expect(op.labels).toEqual(['internal'])
    expect([...op.paramLabels]).toEqual([['value', ['internal']]])
    expect((await end(runId, 'apart')).labels).toEqual([])
    const parts = await readReceipt(engine.context.db, engine.organizationId, runId)
    const receipt = JSON.parse(await parts.text()) as ReceiptView
    expect(receipt.decisions.map(({ labels, label_sources }) => ({ labels, label_sources }))).toEqual([
      { labels: ['internal'], label_sources: [{ label: 'internal', from }] },
      { labels: [], label_sources: [] },
    ])
  })

  test.each<[string, string | undefined, string, unknown]>([
    ['a path as in a template', 'rows[0].name', 'string', 'Ann'],
    ['a path that begins with a bracket', '["text"]', 'string', 'secret'],
    [
      'no path: the whole output',
      undefined,
      'object',
      { text: 'secret', rows: [{ name: 'Ann' }], nothing: null },
    ],
  ])('takes %s', async (_, path, type, value) => {
    const reference = { from_run: earlier, step: 'read', ...(path === undefined ? {} : { path }) }
    const runId = await accept(
      { inputs: { x: { type } }, steps: [set('s', '{{input.x}}')] },
      { x: reference },
    )
    expect(await openInputs(engine.context, await engine.runOf(runId))).toEqual({ x: value })
  })

  test('is hashed as given, so the hash reveals nothing about an output', async () => {
    const { input_hash } = await engine.runOf(await given({ x: fromRun() }))
    expect(input_hash).toBe(hashOf({ x: fromRun() }))
  })

  test('a null in an output counts as absent', async () => {
    await expect(given({ x: fromRun('nothing') })).rejects.toMatchObject({
      details: [{ path: 'inputs.x', message: 'input `x` is required' }],
    })
  })

  const other = async () => {
    const { id, owner } = await addOrganization(engine.context)
    return { ...engine.caller('owner'), organizationId: id, userId: owner.userId, keyId: owner.keyId }
  }
  const unseen = /^you can see no completed step `.*` of a run `.*`, or its output was removed$/

  const onlyThese = /give only `from_run`, `step` and optionally `path`, as text$/

  test.each<[string, () => unknown, RegExp]>([
    ['a missing run', () => ({ from_run: 'run_none', step: 'read' }), unseen],
    ['a missing step', () => ({ from_run: earlier, step: 'none' }), unseen],
    ['a step that has not ended', () => ({ from_run: earlier, step: 'later' }), unseen],
    ['a path without a value', () => fromRun('none'), /there is no `none` in the value/],
    ['an invalid path', () => fromRun('a}} {{b'), /write `path` as in templates/],
    ['an additional key', () => ({ ...fromRun(), more: 1 }), onlyThese],
    ['no step', () => ({ from_run: earlier }), onlyThese],
    ['a run that is not text', () => ({ from_run: 7, step: 'read' }), onlyThese],
    ['a value of another type', () => fromRun('rows'), /must be of type string, not array/],
  ])('%s is refused', async (_, value, message) => {
    const inputs = { x: value() } as JsonObject
    await expect(given(inputs)).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'inputs.x', message: expect.stringMatching(message) }],
    })
  })

  test('of another organization, or without the scope to read runs, is refused with the same message', async () => {
    const caller = await other()
    const definition = workflowDefinition.parse({ ...text, steps: [set('s', 1)] })
    const theirs = await createWorkflow(engine.context, caller, { name: 'w', description: '', definition })
    const request = { caller, workflowId: theirs.id, inputs: { x: fromRun() } }
    const refusal = { code: 'validation_error', details: [{ path: 'inputs.x', message: expect.stringMatching(unseen) }] } // prettier-ignore
    await expect(acceptRun(engine.context, request)).rejects.toMatchObject(refusal)
    const narrow = { ...engine.caller('member'), scopes: ['runs:write', 'workflows:read'] }
    await expect(accept(definition, { x: fromRun() }, { caller: narrow })).rejects.toMatchObject(refusal)
  })

  test('whose data was removed is refused', async () => {
    const old = await engine.run({ steps: [first] })
    await end(old, 'read', { text: 'x' })
    await engine.context.pool.query('update runs set data_removed_at = now() where id = $1', [old])
    const x = { from_run: old, step: 'read' }
    await expect(given({ x })).rejects.toMatchObject({
      details: [{ message: expect.stringMatching(unseen) }],
    })
  })
})

describe('labels of inputs', () => {
  const confidential = { inputLabels: { x: ['confidential'] } }

  test('reach every step that uses the input in its params, `when` or `for_each`, and the steps after it', async () => {
    const runId = await accept(
      {
        inputs: { x: { type: 'array', default: [1] }, y: { type: 'string' } },
        steps: [
          set('by_params', '{{input.x}}'),
          set('by_when', 1, { when: { value: '{{input.x}}', operator: 'exists' } }),
          set('by_item', '{{item}}', { for_each: '{{input.x}}' }),
          set('apart', '{{input.y}}'),
          set('after', '{{by_params.output.key}}'),
        ],
      },
      {},
      confidential,
    )
    await expandStep(engine.context, runId, 'by_item')
    const sources = [{ label: 'confidential', from: ['input.x'] }]
    for (const [step, item] of [
      ['by_params', -1],
      ['by_when', -1],
      ['by_item', 0],
    ] as const)
      // prettier-ignore
      expect((await end(runId, step, { key: 'k' }, item)).labelSources).toEqual(sources)
    expect((await end(runId, 'apart')).labels).toEqual([])
    expect((await end(runId, 'after')).labelSources).toEqual([{ label: 'confidential', from: ['by_params'] }]) // prettier-ignore
  })

  test('join the labels of the referred output', async () => {
    const runId = await accept({ ...text, steps: [set('s', '{{input.x}}')] }, { x: fromRun() }, { inputLabels: { x: ['pii'] } }) // prettier-ignore
    expect((await decide(runId, 's')).op.labelSources).toEqual([
      { label: 'internal', from: ['input.x', `${earlier}/read`] },
      { label: 'pii', from: ['input.x'] },
    ])
  })

  const mail = { id: 'm', tool: 'mail_send', params: { to: 'a@b.test', subject: '{{input.x}}', text: 'y' } }
  const noSecrets = {
    name: 'no',
    verdict: 'deny',
    tools: ['mail_send'],
    labels: { any_of: ['confidential'] },
  }

  test('are known to the plan: the run is refused before it starts', async () => {
    await engine.rules(noSecrets)
    await expect(given({ x: 'a' }, confidential, [mail])).rejects.toMatchObject({
      code: 'run_denied',
    })
    await engine.rules({ ...noSecrets, labels: undefined, params: [{ param: 'subject', operator: 'from_label', value: ['confidential'] }] }) // prettier-ignore
    await expect(given({ x: 'a' }, confidential, [mail])).rejects.toMatchObject({
      code: 'run_denied',
    })
    await given({ x: 'a', y: 'b' }, { inputLabels: { y: ['confidential'] } }, [mail])
  })

  test('count for a rule that is saved later, for the risk and for the run’s approval', async () => {
    await engine.settings({ approval_required_from: 'critical' })
    try {
      const held = await given({ x: 'a' }, confidential, [mail])
      expect((await engine.runOf(held)).risk.reasons).toContain('`mail_send` sends confidential data out')
      expect(await engine.approvalsOf(held)).toMatchObject([{ kind: 'run', labels: ['confidential'] }])
    } finally {
      await engine.settings({ approval_required_from: null })
    }
    const runId = await given({ x: 'a' }, confidential, [mail])
    await engine.rules(noSecrets)
    expect((await decide(runId, 'm')).verdict).toMatchObject({ go: false, state: 'denied' })
  })

  test('are at most 1,000 for all inputs of a run, with the labels of their outputs', async () => {
    const labels = Array.from({ length: 1_000 }, (_, index) => `label-${index}`)
    const more = given({ x: fromRun(), y: 'b' }, { inputLabels: { y: labels } })
    await expect(more).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'inputs', message: 'the inputs carry more than 1,000 labels' }],
    })
    await given({ x: fromRun(), y: 'b' }, { inputLabels: { y: labels.slice(1) } })
  })

  test('of an input that the workflow does not have are refused', async () => {
    const inputLabels = { z: ['pii'] }
    await expect(given({ x: 'a' }, { inputLabels })).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'input_labels.z', message: 'the workflow has no input `z`' }],
    })
  })
})
