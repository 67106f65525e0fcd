import { whenOperators } from '../../../src/policy/operators/index.ts'
import { samples } from '../../policy/operator-rows.ts'
import { until } from '../../stack/until.ts'
import { nothing, proof, type Proofs, type Reply, type World } from './world.ts'

type Pair = readonly [unknown, unknown]
type Run = Reply['body']

const set = (over: object = {}) => ({
  id: 's',
  tool: 'memory_set',
  params: { key: 'k', value: 'v' },
  ...over,
})
const read = (path: string, over: object = {}) => ({ id: 's', tool: 'file_read', params: { path }, ...over })
const stepsOf = (over: object) => ({ steps: [set(over)] })
const one = stepsOf({})

/** A field of a definition. `seen` reads its effect from the run, which gets `body`, once the run has ended. */
const field = (
  name: string,
  values: Pair,
  effects: Pair,
  seen: (run: Run) => unknown,
  definitionOf: (value: never) => object,
  body: object = {},
): Proofs => ({
  [`definition.${name}`]: proof(values, effects, async (world, value, way) =>
    seen(await world.run(definitionOf(value as never), way, body)),
  ),
})
const statusOf = (run: Run) => run.status
const stepStatus = (run: Run) => run.steps.at(-1)?.status
const outputsOf = (run: Run) => run.outputs
const resultOf = (run: Run) => run.result
const labelsOf = (run: Run) => run.steps[0]?.labels
const itemsOf = (run: Run) => run.outputs.s.length
/** The output of `set` with its usual key. */
const output = { key: 'k', set: true }

/** A field that is only information for readers: the saved workflow shows the value. */
const shown = (
  name: string,
  at: (definition: Reply['body']) => unknown,
  definitionOf: (value: never) => object,
): Proofs => ({
  [`definition.${name}`]: proof(['a', 'b'], ['a', 'b'], async (world, value, way) => {
    const id = await world.workflow(definitionOf(value as never), way)
    return at((await world.ok('member', 'GET', `/workflows/${id}`)).definition)
  }),
})

const behindSkipped = (over: object) => ({
  steps: [set({ when: '{{ 1 > 2 }}' }), set({ id: 't', depends_on: ['s'], ...over })],
})
const input = (declaration: object, value = '{{input.x}}') => ({
  inputs: { x: { type: 'string', ...declaration } },
  steps: [
    set({ params: { key: 'k', value } }),
    { id: 't', tool: 'memory_get', params: { key: '{{s.output.key}}' } },
  ],
  result: { x: '{{t.output.value}}' },
})

/** Starts a new workflow of these steps, and returns the run. */
async function startedRun(world: World, steps: readonly object[], way: string): Promise<string> {
  return (await world.execute(await world.workflow({ steps }, way), {}, 0)).body.execution_id
}
const stepOf = async (world: World, run: string, id: string): Promise<string> =>
  (await world.ok('member', 'GET', `/runs/${run}`)).steps.find((each: { id: string }) => each.id === id)
    .status

async function flakyAttempts(world: World, attempts: number, way: string) {
  const retry = { attempts, backoff_seconds: 0 }
  return stepStatus(await world.run({ steps: [read(`flaky ${world.id}`, { retry })] }, way))
}

/** The first attempt of a step fails. Returns whether the second attempt follows at once. */
async function backoff(world: World, backoff_seconds: number, way: string) {
  const retry = { attempts: 2, backoff_seconds }
  const run = await startedRun(world, [read(`flaky ${world.id}`, { retry })], way)
  if (backoff_seconds === 0) {
    await world.api.stack.ended(run)
    return 'again'
  }
  const states = () =>
    world.api.stack.context.db.selectFrom('effects').select('state').where('run_id', '=', run).execute()
  await until('the first attempt has failed', async () => (await states())[0]?.state === 'retry')
  await world.ok('member', 'POST', `/runs/${run}/cancel`, {})
  return 'waits'
}

async function timeLimit(world: World, timeout_seconds: number, way: string) {
  const path = `wait ${world.id}`
  const retry = { attempts: 1, backoff_seconds: 0 }
  const run = await startedRun(world, [read(path, { timeout_seconds, retry })], way)
  if (timeout_seconds > 1) {
    await until('the body runs', () => world.api.reads.calls.has(path))
    world.api.reads.release(path)
  }
  await world.api.stack.ended(run)
  return stepOf(world, run, 's')
}

/** Whether step `b` waits for the step `first` while step `a` is still reading. */
async function waitsFor(world: World, first: string, way: string) {
  const path = `wait ${world.id}`
  const steps = [read(path, { id: 'a' }), set({ id: 'c' }), set({ id: 'b', depends_on: [first] })]
  const run = await startedRun(world, steps, way)
  const hasCompleted = async (id: string) => (await stepOf(world, run, id)) === 'completed'
  await until('the others have run', async () => world.api.reads.calls.has(path) && hasCompleted('c'))
  if (first === 'c') await until('the step runs', () => hasCompleted('b'))
  const status = await stepOf(world, run, 'b')
  world.api.reads.release(path)
  await world.api.stack.ended(run)
  return status
}

/** Whether the second item begins while the first one still reads. */
async function bothRead(world: World, parallel: number, way: string) {
  const [first, second] = [`wait ${world.id} a`, `wait ${world.id} b`]
  const { calls } = world.api.reads
  const run = await startedRun(world, [read('{{item}}', { for_each: [first, second], parallel })], way)
  await until('the first item reads', () => calls.has(first))
  if (parallel === 2) await until('the second item reads', () => calls.has(second))
  await world.run(one)
  const both = calls.has(second)
  world.api.reads.release(`wait ${world.id}`)
  await world.api.stack.ended(run)
  return both
}

/** A name of the workflow in its definition. */
const named = (field: 'name' | 'slug' | 'description'): Proofs => ({
  [`definition.${field}`]: proof(['one', 'two'], ['one', 'two'], async (world, text, way) => {
    const definition = { name: 'w', ...one, [field]: text }
    const { id } = await world.ok('member', 'POST', '/workflows', { definition: way === 'POST' ? definition : { name: 'w', ...one } }) // prettier-ignore
    if (way === 'PUT') await world.ok('member', 'PUT', `/workflows/${id}`, { definition })
    return (await world.ok('member', 'GET', `/workflows/${id}`))[field]
  }),
})

const ran = ['completed', 'skipped'] as const
const skipped = ['skipped', 'completed'] as const
const when = (name: string, values: Pair, effects: Pair, over: (value: never) => object): Proofs =>
  field(`steps[].when.${name}`, values, effects, stepStatus, (value) =>
    stepsOf({ when: { value: 'abc', operator: 'equals', compare: 'abc', ...over(value) } }),
  )

/** Whether a member of the group `auditors` sees the values of an admin's run. */
async function auditorSees(world: World, definition: object, way: string, more: object = {}) {
  const groups = { auditors: [world.people.member.userId], others: [] }
  for (const [name, members] of Object.entries(groups))
    await world.ok('owner', 'POST', `${world.path}/groups`, { name, members })
  const id = await world.workflow(definition, way, more)
  const run = await world.ok('admin', 'POST', `/workflows/${id}/execute?wait=0`, {})
  return 'inputs' in (await world.ok('member', 'GET', `/runs/${run.execution_id}`))
}
const auditors = ['auditors', 'others'] as const
const starters = ['member', 'admin'] as const

export const workflowProofs: Proofs = {
  'readers[]': proof(auditors, [true, false], (world, name, way) =>
    auditorSees(world, nothing, way, { readers: [name] }),
  ),
  'definition.readers[]': proof(auditors, [true, false], (world, name, way) =>
    auditorSees(world, { ...nothing, readers: [name] }, way),
  ),
  'run_by[]': proof(starters, [true, false], async (world, name, way) => {
    const id = await world.workflow(nothing, way, { run_by: [name] })
    return (await world.execute(id)).status < 400
  }),
  organization_id: proof(['own', 'other'], [201, 404], async (world, which) => {
    const organization_id = which === 'own' ? world.id : 'org_none'
    const body = { organization_id, name: 'w', definition: one }
    return (await world.send('member', 'POST', '/workflows', body)).status
  }),
  name: proof(['one', 'two'], ['one', 'two'], async (world, name, way) => {
    const id = await world.workflow(one, way, { name })
    return (await world.listed('member', '/workflows', id)).name
  }),
  description: proof(['a', 'b'], ['a', 'b'], async (world, description, way) => {
    const id = await world.workflow(one, way, { description })
    return (await world.ok('member', 'GET', `/workflows/${id}`)).description
  }),
  slug: proof(['one', 'two'], ['one', 'two'], async (world, slug, way) => {
    await world.workflow(one, way, { slug })
    return (await world.ok('member', 'GET', `/workflows/${slug}`)).slug
  }),
  ...named('name'),
  ...named('slug'),
  ...named('description'),
  message: proof(['a', 'b'], ['a', 'b'], async (world, message, way) => {
    const id = await world.workflow(one, way, { message })
    return (await world.ok('member', 'GET', `/workflows/${id}/versions`)).versions[0].message
  }),
  protected: proof([false, true], [200, 403], async (world, isProtected, way) => {
    const created = { name: 'w', definition: one, ...(way === 'POST' ? { protected: isProtected } : {}) }
    const { id } = await world.ok('owner', 'POST', '/workflows', created)
    if (way === 'PUT') await world.ok('owner', 'PUT', `/workflows/${id}`, { protected: isProtected })
    return (await world.send('member', 'PUT', `/workflows/${id}`, { name: 'mine' })).status
  }),
  ...field('inputs.*.type', ['string', 'number'], ['completed', 422], statusOf, (type) => input({ type }), {
    inputs: { x: 'a' },
  }),
  ...field('inputs.*.required', [true, false], [422, 'completed'], statusOf, (required) =>
    input({ required }),
  ),
  ...field('inputs.*.default', ['a', 'b'], [{ x: 'a' }, { x: 'b' }], resultOf, (x) => input({ default: x })),
  ...field('inputs.*.format', ['text', 'date'], ['completed', 422], statusOf, (format) => input({ format }), {
    inputs: { x: 'a' },
  }),
  ...field('inputs.*.options[]', ['a', 'b'], ['completed', 422], statusOf, (x) => input({ options: [x] }), {
    inputs: { x: 'a' },
  }),
  ...field('inputs.*.labels[]', ['pii', 'code'], [['pii'], ['code']], labelsOf, (label) =>
    input({ labels: [label], default: 'a' }),
  ),
  ...shown(
    'inputs.*.description',
    ({ inputs }) => inputs.x.description,
    (text) => input({ description: text }),
  ),
  ...field('steps[].id', ['one', 'two'], [{ one: output }, { two: output }], outputsOf, (id) =>
    stepsOf({ id }),
  ),
  'definition.steps[].tool': proof(
    ['memory_get', 'file_read'],
    [422, 'completed'],
    async (world, tool, way) => {
      const definition = { steps: [{ id: 's', tool, params: { path: 'a' } }] }
      if (tool === 'file_read') return (await world.run(definition, way)).status
      return (await world.send('member', 'POST', '/workflows', { name: 'w', definition })).status
    },
  ),
  ...field('steps[].params', ['k', 'l'], [{ s: output }, { s: { key: 'l', set: true } }], outputsOf, (key) =>
    stepsOf({ params: { key, value: 1 } }),
  ),
  'definition.steps[].depends_on[]': proof(['a', 'c'], ['pending', 'completed'], waitsFor),
  ...field('steps[].when', ['{{ 1 < 2 }}', '{{ 2 < 1 }}'], ['completed', 'skipped'], stepStatus, (text) =>
    stepsOf({ when: text }),
  ),
  ...when('value', ['abc', 'x'], ran, (value) => ({ value })),
  ...Object.assign(
    {},
    ...whenOperators.map((operator) => {
      const { other, value: compare, text: value, fits } = samples[operator]
      const effects = fits ? ran : skipped
      return when(`operator=${operator}`, [operator, other], effects, (each) => ({
        operator: each,
        value,
        compare,
      }))
    }),
  ),
  ...when('compare', ['abc', 'x'], ran, (compare) => ({ compare })),
  ...field('steps[].for_each', [['a'], ['a', 'b']], [1, 2], itemsOf, (for_each) => stepsOf({ for_each })),
  'definition.steps[].retry.attempts': proof([1, 2], ['failed', 'completed'], flakyAttempts),
  'definition.steps[].retry.backoff_seconds': proof([0, 3600], ['again', 'waits'], backoff),
  'definition.steps[].timeout_seconds': proof([1, 3600], ['failed', 'completed'], timeLimit),
  ...field('steps[].on_error', ['fail', 'continue'], ['failed', 'completed'], statusOf, (on_error) => ({
    steps: [read('fail', { on_error })],
  })),
  'definition.steps[].parallel': proof([1, 2], [false, true], bothRead),
  ...field('steps[].otherwise', ['a', 'b'], [{ it: 'a' }, { it: 'b' }], resultOf, (otherwise) => ({
    steps: [read('fail', { on_error: 'continue', otherwise })],
    result: { it: '{{s.output}}' },
  })),
  ...field('steps[].if_skipped', ['skip', 'run'], skipped, stepStatus, (if_skipped) =>
    behindSkipped({ if_skipped }),
  ),
  ...field('if_skipped', ['skip', 'run'], skipped, stepStatus, (if_skipped) => ({
    ...behindSkipped({}),
    if_skipped,
  })),
  ...shown(
    'steps[].summary',
    ({ steps }) => steps[0]?.summary,
    (summary) => stepsOf({ summary }),
  ),
  ...field('result.*', ['{{s.output.key}}', 'x'], [{ it: 'k' }, { it: 'x' }], resultOf, (it) => ({
    ...one,
    result: { it },
  })),
  'definition.run_by[]': proof(starters, [true, false], async (world, name, way) => {
    const id = await world.workflow({ ...nothing, run_by: [name] }, way)
    return (await world.execute(id)).status < 400
  }),
  'definition.categories[]': proof(
    ['financial', 'other'],
    ['awaiting_approval', 'completed'],
    async (world, category, way) => {
      await world.settings({ approvals_enabled: true, category_flags: { financial: true } })
      const id = await world.workflow({ ...one, categories: [category] }, way)
      return (await world.execute(id, {}, category === 'financial' ? 0 : 60)).body.status
    },
  ),
}

/** A field of the start of a run. `seen` reads its effect from the ended run. */
const started = (
  name: string,
  values: Pair,
  effects: Pair,
  definition: object,
  seen: (run: Run) => unknown,
  bodyOf: (value: never) => object,
): Proofs => ({
  [name]: proof(values, effects, async (world, value) =>
    seen(await world.run(definition, 'POST', bodyOf(value as never))),
  ),
})
/** These time zones are 25 hours apart, so they never have the same date. */
const zones = ['Pacific/Kiritimati', 'Pacific/Pago_Pago'] as const

export const executeProofs: Proofs = {
  ...started('inputs.*', ['a', 'b'], [{ x: 'a' }, { x: 'b' }], input({}), resultOf, (x) => ({
    inputs: { x },
  })),
  ...started('input_labels.*[]', ['pii', 'code'], [['pii'], ['code']], input({}), labelsOf, (label) => ({
    input_labels: { x: [label] },
  })),
  ...started('files[]', [undefined, 'file_none'], ['completed', 422], one, statusOf, (file) =>
    file === undefined ? {} : { files: [file] },
  ),
  time_zone: proof(zones, zones, async (world, time_zone) => {
    const run = await world.run(input({}, '{{today}}'), 'POST', { time_zone })
    const dateIn = (timeZone: string) =>
      new Intl.DateTimeFormat('en-CA', { timeZone }).format(new Date(run.created_at))
    return zones.find((zone) => dateIn(zone) === run.result.x)
  }),
  version: proof([1, 2], [{ first: output }, { second: output }], async (world, version) => {
    const id = await world.workflow(stepsOf({ id: 'first' }))
    await world.ok('member', 'PUT', `/workflows/${id}`, { definition: stepsOf({ id: 'second' }) })
    return (await world.execute(id, { version })).body.outputs
  }),
}
