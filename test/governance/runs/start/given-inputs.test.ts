import { beforeAll, describe, expect, test } from '@jest/globals'
import { prepareCall } from '../../../../src/activities/prepare.ts'
import type { ToolDeclaration } from '../../../../src/catalog/tool.ts'
import { workflowDefinition } from '../../../../src/contract/definition.ts'
import { hashOf } from '../../../../src/shared/canonical-json.ts'
import { callOf } from '../../../../src/governance/runs/effects/decide-call.ts'
import { acceptRun, type AcceptRequest } from '../../../../src/governance/runs/start/accept.ts'
import { openInputs } from '../../../../src/governance/runs/values/run-snapshot.ts'
import { readCallSpec } from '../../../../src/governance/runs/values/call-spec.ts'
import { expandStep } from '../../../../src/governance/runs/effects/items.ts'
import { readRun } from '../whole-run.ts'
import { readReceipt, type ReceiptView } from '../../../../src/governance/runs/read/receipt.ts'
import { createWorkflow } from '../../../../src/governance/workflows/workflows.ts'
import type { Json, JsonObject } from '../../../../src/policy/types.ts'
import { addOrganization } from '../../../api/fixtures.ts'
import { approvalsOf, outputOf, runOf, useEngine, type Engine } from '../engine-fixture.ts'

let engine: Engine
let earlier: string
useEngine((started) => (engine = started))

/** Decides a call as the interceptor does, and completes it with this output. */
async function done(runId: string, stepId: string, output: object | null, item = -1) {
  const frame = await readCallSpec(engine.context, { runId, stepId, itemIndex: item })
  const { value: op } = await prepareCall(
    engine.context,
    frame,
    frame.tool as ToolDeclaration,
    new AbortController().signal,
  )
  const verdict = await engine.decide(op)
  if (verdict.go && output !== null) {
    const result = { state: 'completed', output: outputOf(op.key, output as Json), labels: [...op.tool.outputLabels], call: callOf(op, verdict.to) } as const // prettier-ignore
    await engine.record({ key: op.key, attempt: verdict.attempt, durationMs: 1, result })
  }
  return { op, verdict }
}

const read = { id: 'read', tool: 'file_read', params: { path: 'a.md' } }
const later = { id: 'later', tool: 'file_read', params: { path: '{{read.output.text}}' } }
const set = (id: string, value: unknown, over: object = {}) => ({ id, tool: 'memory_set', params: { key: 'k', value }, ...over }) // prettier-ignore

beforeAll(async () => {
  earlier = await engine.run({ steps: [read, later] })
  await done(earlier, 'read', { text: 'secret', rows: [{ name: 'Ann' }], nothing: null })
})

async function accept(definition: object, inputs: JsonObject, over: Partial<AcceptRequest> = {}) {
  const caller = engine.caller('member')
  const parsed = workflowDefinition.parse(definition)
  const { id } = await createWorkflow(engine.context, caller, {
    name: 'w',
    description: '',
    definition: parsed,
  })
  return (await acceptRun(engine.context, { caller, workflowId: id, inputs, ...over })).runId
}

const text = { inputs: { x: { type: 'string', required: true }, y: { type: 'string' } } }
const fromRun = (path = 'text') => ({ from_run: earlier, step: 'read', path })

describe('an input that refers to an output', () => {
  test('has its value and its labels, and receipts name the input and the run', async () => {
    const runId = await accept({ ...text, steps: [set('keep', 'The {{input.x}}'), set('apart', '{{input.y}}')] }, { x: fromRun(), y: 'plain' }) // prettier-ignore
    const from = ['input.x', `${earlier}/read`]
    expect(await readRun(engine.context, engine.organizationId, runId)).toMatchObject({
      inputs: { x: 'secret', y: 'plain' },
      input_labels: { x: [{ label: 'internal', from }] },
    })
    const { op } = await done(runId, 'keep', {})
    expect(op.params['value']).toBe('The secret')
    expect(op.labels).toEqual(['internal'])
    expect([...op.paramLabels]).toEqual([['value', ['internal']]])
    expect((await done(runId, 'apart', {})).op.labels).toEqual([])
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
    expect(await openInputs(engine.context, await runOf(engine.context, runId))).toEqual({ x: value })
  })

  test('is hashed as given, so the hash reveals nothing about an output', async () => {
    const { input_hash } = await runOf(
      engine.context,
      await accept({ ...text, steps: [set('s', 1)] }, { x: fromRun() }),
    )
    expect(input_hash).toBe(hashOf({ x: fromRun() }))
  })

  test('a null in an output counts as absent', async () => {
    const steps = [set('s', 1)]
    await expect(accept({ ...text, steps }, { x: fromRun('nothing') })).rejects.toMatchObject({
      details: [{ path: 'inputs.x', message: 'input `x` is required' }],
    })
  })

  const other = async () => {
    const { id, owner } = await addOrganization(engine.context)
    return { ...engine.caller('owner'), organizationId: id, userId: owner.userId, keyId: owner.keyId }
  }
  const unseen = /^you can see no completed step `.*` of a run `.*`, or its output was removed$/

  test.each<[string, () => unknown, RegExp]>([
    ['a missing run', () => ({ from_run: 'run_none', step: 'read' }), unseen],
    ['a missing step', () => ({ from_run: earlier, step: 'none' }), unseen],
    ['a step that has not ended', () => ({ from_run: earlier, step: 'later' }), unseen],
    ['a path without a value', () => fromRun('none'), /there is no `none` in the value/],
    ['an invalid path', () => fromRun('a}} {{b'), /write `path` as in templates/],
    [
      'an additional key',
      () => ({ ...fromRun(), more: 1 }),
      /give only `from_run`, `step` and optionally `path`, as text$/,
    ],
    [
      'no step',
      () => ({ from_run: earlier }),
      /give only `from_run`, `step` and optionally `path`, as text$/,
    ],
    [
      'a run that is not text',
      () => ({ from_run: 7, step: 'read' }),
      /give only `from_run`, `step` and optionally `path`, as text$/,
    ],
    ['a value of another type', () => fromRun('rows'), /must be of type string, not array/],
  ])('%s is refused', async (_, value, message) => {
    const inputs = { x: value() } as JsonObject
    await expect(accept({ ...text, steps: [set('s', 1)] }, inputs)).rejects.toMatchObject({
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
    const old = await engine.run({ steps: [read] })
    await done(old, 'read', { text: 'x' })
    await engine.context.pool.query('update runs set data_removed_at = now() where id = $1', [old])
    const x = { from_run: old, step: 'read' }
    await expect(accept({ ...text, steps: [set('s', 1)] }, { x })).rejects.toMatchObject({
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
      expect((await done(runId, step, { key: 'k' }, item)).op.labelSources).toEqual(sources)
    expect((await done(runId, 'apart', {})).op.labels).toEqual([])
    expect((await done(runId, 'after', {})).op.labelSources).toEqual([{ label: 'confidential', from: ['by_params'] }]) // prettier-ignore
  })

  test('join the labels of the referred output', async () => {
    const runId = await accept({ ...text, steps: [set('s', '{{input.x}}')] }, { x: fromRun() }, { inputLabels: { x: ['pii'] } }) // prettier-ignore
    expect((await done(runId, 's', null)).op.labelSources).toEqual([
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
    await expect(accept({ ...text, steps: [mail] }, { x: 'a' }, confidential)).rejects.toMatchObject({
      code: 'run_denied',
    })
    await engine.rules({ ...noSecrets, labels: undefined, params: [{ param: 'subject', operator: 'from_label', value: ['confidential'] }] }) // prettier-ignore
    await expect(accept({ ...text, steps: [mail] }, { x: 'a' }, confidential)).rejects.toMatchObject({
      code: 'run_denied',
    })
    await accept({ ...text, steps: [mail] }, { x: 'a', y: 'b' }, { inputLabels: { y: ['confidential'] } })
  })

  test('count for a rule that is saved later, for the risk and for the run’s approval', async () => {
    await engine.settings({ approval_required_from: 'critical' })
    try {
      const held = await accept({ ...text, steps: [mail] }, { x: 'a' }, confidential)
      expect((await runOf(engine.context, held)).risk.reasons).toContain(
        '`mail_send` sends confidential data out',
      )
      expect(await approvalsOf(engine.context, held)).toMatchObject([
        { kind: 'run', labels: ['confidential'] },
      ])
    } finally {
      await engine.settings({ approval_required_from: null })
    }
    const runId = await accept({ ...text, steps: [mail] }, { x: 'a' }, confidential)
    await engine.rules(noSecrets)
    expect((await done(runId, 'm', null)).verdict).toMatchObject({ go: false, state: 'denied' })
  })

  test('are at most 1,000 for all inputs of a run, with the labels of their outputs', async () => {
    const definition = { ...text, steps: [set('s', 1)] }
    const labels = Array.from({ length: 1_000 }, (_, index) => `label-${index}`)
    const more = accept(definition, { x: fromRun(), y: 'b' }, { inputLabels: { y: labels } })
    await expect(more).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'inputs', message: 'the inputs carry more than 1,000 labels' }],
    })
    await accept(definition, { x: fromRun(), y: 'b' }, { inputLabels: { y: labels.slice(1) } })
  })

  test('of an input that the workflow does not have are refused', async () => {
    const inputLabels = { z: ['pii'] }
    await expect(
      accept({ ...text, steps: [set('s', 1)] }, { x: 'a' }, { inputLabels }),
    ).rejects.toMatchObject({
      code: 'validation_error',
      details: [{ path: 'input_labels.z', message: 'the workflow has no input `z`' }],
    })
  })
})
