import { describe, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../../../src/contract/definition.ts'
import type { Role, Json } from '../../../../src/policy/types.ts'
import { authorsOf, mostAuthors, type Origin } from '../../../../src/governance/runs/values/authors.ts'
import { readOutputs } from '../../../../src/governance/runs/values/outputs.ts'
import { SharedValues } from '../../../../src/governance/runs/values/run-caches.ts'
import { opOf, outcomeOf, toolOf, useEngine, type Engine } from '../engine-fixture.ts'
import { readRunSnapshot } from '../../../../src/governance/runs/values/run-snapshot.ts'
import { outputBinding } from '../../../../src/governance/sealing/bindings.ts'
import { itemsOf } from '../../../../src/calls/runs/items.ts'
import type { DefinedCall } from '../../../../src/calls/runs/call.ts'
import { scope } from '../../../policy/template-scope.ts'

let engine: Engine
useEngine((started) => (engine = started))

const mail = (params: object, id = 'send', more: object = {}) => ({ id, tool: 'mail_send', params, ...more })
const look = { id: 'look', tool: 'memory_get', params: { key: 'k' } }
const evil = mail({ to: 'evil@x.test', subject: 's', text: 'give' })
const save = (origin: Origin | null, user_id: string, role: Role, steps: object[], rest: object = {}) => {
  const definition = workflowDefinition.parse({ steps, ...rest })
  return { definition, ...authorsOf(definition, { user_id, role }, origin) }
}
/** The people who wrote each step, with their roles. The last place is for the defaults of inputs. */
const written = ({ authors, step_authors }: Origin) =>
  step_authors.map((places) => places.map((place) => `${authors[place]?.user_id}:${authors[place]?.role}`))

describe('the authors of a version that ben saves on top of ann’s', () => {
  const byAnn = save(null, 'ann', 'member', [evil])
  const both = ['ann:member', 'ben:admin']
  test.each<[string, object[], string[][]]>([
    ['without a change', [evil], [both]],
    ['with another summary', [{ ...evil, summary: 'a mail' }], [both]],
    ['with another id of the step', [{ ...evil, id: 'other' }], [both]],
    ['with one other parameter', [mail({ ...evil.params, subject: 't' })], [both]],
    ['with one more step', [look, evil], [['ben:admin'], both]],
    ['with another id and another parameter', [mail({ ...evil.params, text: 'u' }, 'other')], [both]],
    ['twice the same step', [evil, { ...evil, id: 'b' }], [both, both]],
    ['written anew', [mail({ to: 'a@b.test', subject: 't', text: 'u' })], [['ben:admin']]],
    ['with another tool', [{ ...look, id: 'send' }], [['ben:admin']]],
  ])('%s', (_, steps, expected) => {
    expect(written(save(byAnn, 'ben', 'admin', steps))).toEqual([...expected, ['ben:admin']])
  })

  test.each<[string, object, object]>([
    ['in another tool', mail({ to: 'a@b.test', subject: 's', text: 'Send all of it.' }), { tool: 'memory_set', params: { key: 'k', value: 'Send all of it!' } }],
    ['with more sentences', mail({ to: 'a@b.test', text: 'Hello. Send all of it.' }), mail({ to: 'c@d.test', text: 'Send all of it. Thanks' })],
    ['inside a list', mail({ to: ['evil@x.test'] }), { tool: 'memory_set', params: { key: 'k', value: { to: 'evil@x.test' } } }],
    ['in the list of items', mail({ to: '{{item}}' }, 'a', { for_each: ['evil@x.test'] }), mail({ to: 'evil@x.test', text: 't' })],
    ['in the condition', mail({ to: 'a' }, 'a', { when: { value: '{{today}}', operator: 'exists' } }), mail({ to: 'b' }, 'a', { when: { value: '{{today}}', operator: 'exists' } })],
  ])('contain whoever wrote a text that stays %s', (_, before, after) => {
    const first = save(null, 'ann', 'member', [before])
    expect(written(save(first, 'ben', 'admin', [{ id: 'a', ...after }]))[0]).toEqual(both)
  }) // prettier-ignore

  test('contain whoever wrote a text that moves to the default of an input, or back', () => {
    const inputs = { t: { type: 'string', default: 'Send all of it' } }
    const inStep = save(null, 'ann', 'member', [mail({ to: 'a', text: 'Send all of it' })])
    const inInput = save(inStep, 'ben', 'admin', [mail({ to: 'b', text: '{{input.t}}' })], { inputs })
    expect(written(inInput)).toEqual([['ben:admin'], both])
    const renamed = { u: inputs.t }
    expect(written(save(inInput, 'cy', 'owner', [look], { inputs: renamed }))[1]).toContain('ann:member')
    expect(written(save(inInput, 'cy', 'owner', [mail({ text: 'Send all of it' })]))[0]).toContain(
      'ann:member',
    )
  })

  test('do not contain whoever wrote only the same reference, tool, operator or short value', () => {
    const when = (compare: string) => ({ when: { value: '{{today}}', operator: 'startswith', compare } })
    const first = save(null, 'ann', 'member', [
      mail({ to: 'me', subject: '{{input.subject}}', text: 'x' }, 'send', when('20')),
    ])
    const next = [
      mail({ to: 'us', subject: 'y', text: '{{input.subject}}' }, 'send', when('19')),
      { ...look, params: { key: 'me' } },
    ]
    expect(written(save(first, 'ben', 'admin', next))).toEqual([['ben:admin'], ['ben:admin'], ['ben:admin']])
  })

  test('contain whoever changed a step before it, which can change what this step does', () => {
    const first = save(null, 'ben', 'admin', [look, evil])
    const second = save(first, 'ann', 'member', [{ ...look, params: { key: 'other' } }, evil])
    expect(written(second)).toEqual([['ann:member'], ['ben:admin', 'ann:member'], ['ann:member']])
    const third = save(second, 'ben', 'admin', [{ ...look, params: { key: 'mine' } }, evil])
    expect(written(third)).toEqual([['ben:admin'], ['ben:admin', 'ann:member'], ['ben:admin']])
  })

  test('contain who wrote the default of an input as long as it stays', () => {
    const inputs = { to: { type: 'string', default: 'evil@x.test' }, text: { type: 'string' } }
    const first = save(null, 'ann', 'member', [evil], { inputs })
    const defaults = (changed: object) =>
      written(save(first, 'ben', 'admin', [look], { inputs: { ...inputs, ...changed } })).at(-1)
    expect(defaults({ more: { type: 'string' } })).toEqual(['ann:member', 'ben:admin'])
    expect(defaults({ to: { type: 'string' } })).toEqual(['ben:admin'])
  })

  test('have the role of the last time when they saved it', () => {
    const promoted = save(byAnn, 'ann', 'owner', [evil, look])
    expect(promoted.authors).toEqual([{ user_id: 'ann', role: 'owner' }])
  })
})

test('a version has a limited number of authors', () => {
  let version = save(null, 'p0', 'member', [evil])
  for (let n = 1; n < mostAuthors; n++) version = save(version, `p${n}`, 'member', [evil])
  expect(version.authors).toHaveLength(mostAuthors)
  expect(save(version, 'p0', 'admin', [evil]).authors).toHaveLength(mostAuthors)
  expect(() => save(version, 'last', 'admin', [evil])).toThrow('save the definition as a new workflow')
  expect(save(version, 'last', 'admin', [look]).authors).toHaveLength(1)
})

test('callers that ask at the same time share one making, also one that fails', async () => {
  const values = new SharedValues<object>(1_000)
  let made = 0
  const making = Promise.withResolvers<{ value: object; bytes: number }>()
  const make = () => {
    made += 1
    return making.promise
  }
  const asked = Array.from({ length: 100 }, () => values.get('a', make))
  const value = {}
  making.resolve({ value, bytes: 10 })
  for (const each of await Promise.all(asked)) expect(each).toBe(value)
  expect(await values.get('a', make)).toBe(value)
  expect(made).toBe(1)

  let failed = 0
  const fail = async (): Promise<never> => {
    failed += 1
    throw new Error('it cannot be read')
  }
  const results = await Promise.allSettled([values.get('b', fail), values.get('b', fail)])
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(failed).toBe(1)
  expect(await values.get('b', async () => ({ value, bytes: 1 }))).toBe(value)
})

test('items that read an output at the same time share one parsed value', async () => {
  const op = opOf(await engine.run(), { tool: toolOf('free') })
  await engine.record(outcomeOf(op, await engine.go(op), 'completed'))
  const { context } = engine
  const all = await Promise.all(
    Array.from({ length: 50 }, () => readOutputs(context, op.key.runId, [op.key.stepId])),
  )
  const [first] = all.map((each) => each.get('s'))
  expect(first).toEqual({ ok: true })
  for (const each of all) expect(each.get('s')).toBe(first)
})

/** Changes rows that the service never changes. A test can then see which values were read from memory. */
async function change(runId: string): Promise<void> {
  const { db } = engine.context
  const place = outputBinding({ runId, stepId: 's', itemIndex: -1 })
  await db.updateTable('runs').set({ requester_email: 'changed@example.com' }).where('id', '=', runId).execute() // prettier-ignore
  await db
    .updateTable('effects')
    .set({ output_sealed: await engine.context.sealer.seal(place, '"changed"') })
    .where('run_id', '=', runId)
    .execute()
}

async function read(runId: string): Promise<unknown[]> {
  const { requesterEmail } = await readRunSnapshot(engine.context, runId)
  return [requesterEmail, (await readOutputs(engine.context, runId, ['s'])).get('s')]
}

test('values of a run are read once, and dropped when it has ended', async () => {
  const runId = await engine.run()
  const op = opOf(runId)
  await engine.record(outcomeOf(op, await engine.go(op), 'completed'))
  const first = await read(runId)
  expect(first).toEqual([expect.not.stringContaining('changed'), { ok: true }])
  await change(runId)
  expect(await read(runId)).toEqual(first)
  await engine.finish(runId, 'completed')
  expect(await read(runId)).toEqual(['changed@example.com', 'changed'])
})

const items = (list: Json) =>
  itemsOf({ step: { for_each: '{{input.list}}' } } as DefinedCall, { ...scope, inputs: { list } })

test('the items of a `for_each` are those of its list, and there are none without a list', () => {
  expect(items(['a', null, { b: 1 }])).toEqual(['a', null, { b: 1 }])
  expect(items([])).toEqual([])
  expect(items(null)).toEqual([])
  expect(items(Array(10_000).fill(1))).toHaveLength(10_000)
})

test.each<[Json, string]>([
  ['text', 'it resolved to text'],
  [5, 'it resolved to a number'],
  [false, 'it resolved to true or false'],
  [{ a: 1 }, 'it resolved to an object'],
  [Array(10_001).fill(1), 'resolved to 10,001 items, more than 10,000: split the list'],
])('a value that is no list of at most 10,000 items is refused: %#', (value, message) => {
  expect(() => items(value)).toThrow(message)
})
