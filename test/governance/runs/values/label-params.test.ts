import { describe, expect, test } from '@jest/globals'
import { prepareCall } from '../../../../src/activities/prepare.ts'
import type { ToolDeclaration } from '../../../../src/catalog/tool.ts'
import { readCallSpec } from '../../../../src/governance/runs/values/call-spec.ts'
import { setMemory } from '../../../../src/activities/tools/memory-set.ts'
import { deleteMemory, setMemory as keepValue } from '../../../../src/governance/tools/memory.ts'
import { recordWithWrite } from '../../../../src/governance/runs/effects/outcome.ts'
import { toolCall, toolContext } from '../../../activities/tools/call.ts'
import { auditOf } from '../../support.ts'
import {
  basisOf,
  effectOf,
  go,
  oneStep,
  opOf,
  outcomeOf,
  runOf,
  useEngine,
  stepOf,
  type Engine,
} from '../engine-fixture.ts'
import { call, done, read, set } from './labelled-calls.ts'

/* The parameters of calls with labels, and the labels of values in the memory. */

let engine: Engine

useEngine((started) => (engine = started))

describe('parameters', () => {
  test.each([
    [100, null],
    [101, 'resource_exhausted'],
  ])('%i values of 1,000 labels each', async (count, code) => {
    const values = Array.from({ length: count }, () => '{{a.output.text}}')
    const runId = await engine.run({ steps: [read('a', 'a'), set('b', values)] })
    await done(engine, runId, 'a', { text: 'x' })
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
    await done(engine, runId, 'a', { text: 'first' })
    const { op } = await call(engine, runId, 'b')
    await engine.context.db.updateTable('effects').set({ output_sealed: Buffer.from('other') }).where('step_id', '=', 'a').where('run_id', '=', runId).execute() // prettier-ignore
    const again = await call(engine, runId, 'b')
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
    await done(engine, runId, 'a', { text: 7 })
    const { verdict } = await call(engine, runId, 'b')
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
