import { until } from '../../stack/until.ts'
import { proof, type Proof, type Proofs, type World } from './world.ts'

const set = (over: object = {}) => ({
  id: 's',
  tool: 'memory_set',
  params: { key: 'k', value: 'v' },
  ...over,
})
const read = (path: string, over: object = {}) => ({ id: 's', tool: 'file_read', params: { path }, ...over })

/** Runs a definition with this value to its end, and returns what `seen` reads from the run. */
const ended =
  (
    definitionOf: (value: never) => object,
    seen: (run: World['ok'] extends (...args: never) => Promise<infer R> ? R : never) => unknown,
    body: object = {},
  ): Proof['observe'] =>
  async (world, value, way) =>
    seen(await world.run(definitionOf(value as never), way, body))

const statusOf = (run: { status: unknown }) => run.status
const stepStatus = (run: { steps: { status: string }[] }) => run.steps.at(-1)?.status
const outputOf = (run: { outputs: Record<string, unknown> }) => run.outputs

/** For a field that is only information for readers: the saved workflow shows the value. */
const shownIn =
  (
    definitionOf: (value: never) => object,
    at: (definition: Record<string, never>) => unknown,
  ): Proof['observe'] =>
  async (world, value, way) => {
    const id = await world.workflow(definitionOf(value as never), way)
    return at((await world.ok('member', 'GET', `/workflows/${id}`)).definition)
  }

const one = { steps: [set()] }
const input = (declaration: object, value = '{{input.x}}') => ({
  inputs: { x: { type: 'string', ...declaration } },
  steps: [
    set({ params: { key: 'k', value } }),
    { id: 't', tool: 'memory_get', params: { key: '{{s.output.key}}' } },
  ],
  result: { x: '{{t.output.value}}' },
})

async function flakyAttempts(world: World, attempts: number, way: string) {
  const { steps } = await world.run(
    { steps: [read(`flaky ${world.id}`, { retry: { attempts, backoff_seconds: 0 } })] },
    way,
  )
  return steps[0].status
}

/** The first attempt of a step fails. Returns whether the second attempt follows at once. */
async function backoff(world: World, backoff_seconds: number, way: string) {
  const path = `flaky ${world.id}`
  const id = await world.workflow({ steps: [read(path, { retry: { attempts: 2, backoff_seconds } })] }, way)
  const { execution_id: run } = (await world.execute(id, {}, 0)).body
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
  const id = await world.workflow(
    { steps: [read(path, { timeout_seconds, retry: { attempts: 1, backoff_seconds: 0 } })] },
    way,
  )
  const { execution_id: run } = (await world.execute(id, {}, 0)).body
  if (timeout_seconds > 1) {
    await until('the body runs', () => world.api.reads.calls.has(path))
    world.api.reads.release(path)
  }
  await world.api.stack.ended(run)
  return (await world.ok('member', 'GET', `/runs/${run}`)).steps[0].status
}

/** Whether step `b` waits for the step `first` while step `a` is still reading. */
async function waitsFor(world: World, first: string, way: string) {
  const path = `wait ${world.id}`
  const steps = [read(path, { id: 'a' }), set({ id: 'c' }), set({ id: 'b', depends_on: [first] })]
  const { execution_id: run } = (await world.execute(await world.workflow({ steps }, way), {}, 0)).body
  const step = async (id: string) =>
    (await world.ok('member', 'GET', `/runs/${run}`)).steps.find((each: { id: string }) => each.id === id)
      .status
  await until(
    'the others have run',
    async () => world.api.reads.calls.has(path) && (await step('c')) === 'completed',
  )
  if (first === 'c') await until('the step runs', async () => (await step('b')) === 'completed')
  const status = await step('b')
  world.api.reads.release(path)
  await world.api.stack.ended(run)
  return status
}

const when = (over: object) => ({
  steps: [set({ when: { value: 'abc', operator: 'equals', compare: 'abc', ...over } })],
})
const ran = ['completed', 'skipped'] as const

export const workflowProofs: Proofs = {
  organization_id: proof(['own', 'other'], [201, 404], async (world, which) => {
    const organization_id = which === 'own' ? world.id : 'org_none'
    return (await world.send('member', 'POST', '/workflows', { organization_id, name: 'w', definition: one }))
      .status
  }),
  name: proof(['one', 'two'], ['one', 'two'], async (world, name, way) => {
    const id = await world.workflow(one, way, { name })
    return (await world.ok('member', 'GET', '/workflows')).data.find((each: { id: string }) => each.id === id)
      .name
  }),
  description: proof(['a', 'b'], ['a', 'b'], async (world, description, way) => {
    const id = await world.workflow(one, way, { description })
    return (await world.ok('member', 'GET', `/workflows/${id}`)).description
  }),
  message: proof(['a', 'b'], ['a', 'b'], async (world, message, way) => {
    const id = await world.workflow(one, way, { message })
    return (await world.ok('member', 'GET', `/workflows/${id}/versions`)).versions[0].message
  }),
  protected: proof([false, true], [200, 403], async (world, isProtected, way) => {
    const { id } = await world.ok('owner', 'POST', '/workflows', {
      name: 'w',
      definition: one,
      ...(way === 'POST' ? { protected: isProtected } : {}),
    })
    if (way === 'PUT') await world.ok('owner', 'PUT', `/workflows/${id}`, { protected: isProtected })
    return (await world.send('member', 'PUT', `/workflows/${id}`, { name: 'mine' })).status
  }),
  'definition.inputs.*.type': proof(
    ['string', 'number'],
    ['completed', 422],
    ended((type) => input({ type }), statusOf, { inputs: { x: 'a' } }),
  ),
  'definition.inputs.*.required': proof(
    [true, false],
    [422, 'completed'],
    ended((required) => input({ required }), statusOf),
  ),
  'definition.inputs.*.default': proof(
    ['a', 'b'],
    [{ x: 'a' }, { x: 'b' }],
    ended(
      (value) => input({ default: value }),
      (run) => run.result,
    ),
  ),
  'definition.inputs.*.description': proof(
    ['a', 'b'],
    ['a', 'b'],
    shownIn(
      (description) => input({ description }),
      (definition) => definition['inputs']?.['x']?.['description'],
    ),
  ),
  'definition.steps[].id': proof(
    ['one', 'two'],
    [{ one: { key: 'k' } }, { two: { key: 'k' } }],
    ended((id) => ({ steps: [set({ id })] }), outputOf),
  ),
  'definition.steps[].tool': proof(
    ['memory_get', 'file_read'],
    [422, 'completed'],
    async (world, tool, way) => {
      const body = { name: 'w', definition: { steps: [{ id: 's', tool, params: { path: 'a' } }] } }
      if (tool === 'memory_get') return (await world.send('member', 'POST', '/workflows', body)).status
      return (await world.run(body.definition, way)).status
    },
  ),
  'definition.steps[].params': proof(
    ['a', 'b'],
    [{ s: { key: 'a' } }, { s: { key: 'b' } }],
    ended((key) => ({ steps: [set({ params: { key, value: 1 } })] }), outputOf),
  ),
  'definition.steps[].depends_on[]': proof(['a', 'c'], ['pending', 'completed'], waitsFor),
  'definition.steps[].when.value': proof(
    ['abc', 'x'],
    ran,
    ended((value) => when({ value }), stepStatus),
  ),
  ...Object.fromEntries(
    (
      [
        ['equals', 'startswith', 'ab', ['skipped', 'completed']],
        ['not_equals', 'equals', 'x', ran],
        ['in', 'not_in', ['abc'], ran],
        ['not_in', 'in', ['abc'], ['skipped', 'completed']],
        ['contains', 'equals', 'b', ran],
        ['startswith', 'equals', 'ab', ran],
        ['domain_in', 'domain_not_in', ['acme.com'], ['skipped', 'completed']],
        ['domain_not_in', 'domain_in', ['acme.com'], ran],
        ['exists', 'equals', true, ran],
      ] as const
    ).map(([operator, other, compare, seen]) => [
      `definition.steps[].when.operator=${operator}`,
      proof(
        [operator, other],
        seen,
        ended((each) => when({ operator: each, compare }), stepStatus),
      ),
    ]),
  ),
  'definition.steps[].when.compare': proof(
    ['abc', 'x'],
    ran,
    ended((compare) => when({ compare }), stepStatus),
  ),
  'definition.steps[].for_each': proof(
    [['a'], ['a', 'b']],
    [1, 2],
    ended(
      (for_each) => ({ steps: [set({ for_each })] }),
      (run) => run.outputs.s.length,
    ),
  ),
  'definition.steps[].retry.attempts': proof([1, 2], ['failed', 'completed'], flakyAttempts),
  'definition.steps[].retry.backoff_seconds': proof([0, 3600], ['again', 'waits'], backoff),
  'definition.steps[].timeout_seconds': proof([1, 3600], ['failed', 'completed'], timeLimit),
  'definition.steps[].on_error': proof(
    ['fail', 'continue'],
    ['failed', 'completed'],
    ended((on_error) => ({ steps: [read('fail', { on_error })] }), statusOf),
  ),
  'definition.steps[].summary': proof(
    ['a', 'b'],
    ['a', 'b'],
    shownIn(
      (summary) => ({ steps: [set({ summary })] }),
      (definition) => (definition['steps'] as unknown as { summary: string }[])[0]?.summary,
    ),
  ),
  'definition.result.*': proof(
    ['{{s.output.key}}', 'x'],
    [{ it: 'k' }, { it: 'x' }],
    ended(
      (it) => ({ ...one, result: { it } }),
      (run) => run.result,
    ),
  ),
  'definition.categories[]': proof(
    ['financial', 'other'],
    ['awaiting_approval', 'completed'],
    async (world, category, way) => {
      await world.settings({ approvals_enabled: true, category_flags: { financial: true } })
      const id = await world.workflow({ ...one, categories: [category] }, way)
      const { body } = await world.execute(id, {}, category === 'financial' ? 0 : 60)
      return body.status
    },
  ),
}

const execution =
  (definition: object, bodyOf: (value: never) => object, seen: (run: never) => unknown): Proof['observe'] =>
  async (world, value) =>
    seen((await world.run(definition, 'POST', bodyOf(value as never))) as never)

/** These time zones are 25 hours apart, so they never have the same date. */
const zones = ['Pacific/Kiritimati', 'Pacific/Pago_Pago'] as const

export const executeProofs: Proofs = {
  'inputs.*': proof(
    ['a', 'b'],
    [{ x: 'a' }, { x: 'b' }],
    execution(
      input({}),
      (x) => ({ inputs: { x } }),
      (run: { result: unknown }) => run.result,
    ),
  ),
  'input_labels.*[]': proof(
    ['pii', 'internal'],
    [['pii'], ['internal']],
    execution(
      input({}),
      (label) => ({ input_labels: { x: [label] } }),
      (run: { steps: { labels: string[] }[] }) => run.steps[0]?.labels,
    ),
  ),
  'files[]': proof(
    [undefined, 'file_none'],
    ['completed', 422],
    execution(one, (file) => (file === undefined ? {} : { files: [file] }), statusOf),
  ),
  time_zone: proof([zones[0], zones[1]], zones, async (world, time_zone) => {
    const run = await world.run(input({}, '{{today}}'), 'POST', { time_zone })
    const dateIn = (timeZone: string) =>
      new Intl.DateTimeFormat('en-CA', { timeZone }).format(new Date(run.created_at))
    return zones.find((zone) => dateIn(zone) === run.result.x)
  }),
  version: proof([1, 2], [{ first: { key: 'k' } }, { second: { key: 'k' } }], async (world, version) => {
    const id = await world.workflow({ steps: [set({ id: 'first' })] })
    await world.ok('member', 'PUT', `/workflows/${id}`, { definition: { steps: [set({ id: 'second' })] } })
    return (await world.execute(id, { version })).body.outputs
  }),
}
