import { spawn, type ChildProcess } from 'node:child_process'
import { describe, expect, test, afterAll, afterEach } from '@jest/globals'
import { readStepOutput } from '../../src/governance/runs/read/read.ts'
import { holdRule, opOf, outcomeOf, toolOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { callsIn, historiesOf } from './histories.ts'
import { chain, numbered, onPaths, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'
import { mostValues } from '../../src/api/json-body.ts'
import type { JsonObject } from '../../src/policy/types.ts'
import { startMeasured, type MeasuredProgram } from '../api/bodies/measured-program.ts'
import { worstJson } from '../api/bodies/worst-json.ts'
import { createOrganization } from '../../src/governance/people/organizations.ts'
import { outputBinding } from '../../src/governance/sealing/bindings.ts'
import { sealMemory } from '../../src/governance/tools/memory.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { byDepth } from '../support/depth.ts'
import { deadlyText } from '../support/deadly-text.ts'
import { programEnv } from '../support/program-env.ts'

let stack: Stack

describe('the largest runs that the product supports, with Temporal’s own limits', () => {
  let reads: FakeReads
  useTestStack((...both) => ([stack, reads] = both))

  const names = (length: number) => numbered(length, 's')

  const steps = byDepth(100, 500)
  const items = 2 * steps

  test(`${steps} steps in a chain, ${steps} at once, and ${items} items, some held until the others have finished: each runs once`, async () => {
    await stack.rules(onPaths('require_approval', 'hold'))
    const wide = [
      ...names(steps - 1).map((id) => read(id, 'wide')),
      read('last', 'wide', { depends_on: names(steps - 1) }),
    ]
    const each = names(items).map((_, n) => (n % 20 === 0 ? `hold${n}` : 'item'))
    const free = each.filter((path) => path === 'item').length
    for (const [path, definition, count] of [
      ['chain', chain(steps, { params: { path: 'chain' } }), steps],
      ['wide', wide, steps],
      ['item', [read('each', '{{item}}', { for_each: each })], items],
    ] as const) {
      const runId = await stack.run({ steps: definition })
      if (path === 'item') {
        await until('all others are done', () => reads.calls.get('item') === free)
        for (const { id } of await stack.approvalsOf(runId)) await stack.vote(id, 'admin')
      }
      const states = await stack.ended(runId)
      expect(new Set(Object.values(states))).toEqual(new Set(['completed']))
      expect(await stack.runOf(runId)).toMatchObject({ nodes_executed: count, nodes_failed: 0 })
      expect(reads.calls.get(path)).toBe(path === 'item' ? free : count)
    }
    expect(Object.fromEntries(reads.calls)).toMatchObject({ hold0: 1, hold180: 1 })
  })

  test('a run leaves its history long before Temporal suggests it, whatever made the history long', async () => {
    await stack.rules(holdRule({ tools: ['file_read'] }))
    const runId = await stack.run({ steps: [read('a', 'a')] })
    const approvalId = await stack.held(runId)
    const describe = async () => (await stack.client.workflow.getHandle(runId).describe()).raw
    const history = async () => (await describe()).workflowExecutionInfo?.execution?.runId
    const first = await history()
    await until('another history', async () => {
      await stack.noise(runId, 100)
      // Waits until the worker has taken all wake-ups before the test adds more, however slow the worker is.
      await until('it stands still', async () => !(await describe()).pendingWorkflowTask)
      return (await history()) !== first
    })
    await stack.vote(approvalId, 'admin')
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
    const all = await historiesOf(stack, runId)
    expect(all.map(callsIn)).toEqual([['a'], ['a']])
    expect(all[0]?.events?.length).toBeGreaterThan(1_500)
    expect(all[0]?.events?.length).toBeLessThan(1_800)
  })

  test('25 MB of output stay out of Temporal, and the next step gets them', async () => {
    const runId = await stack.run({
      steps: [read('a', 'big'), read('b', 'b', { when: { value: '{{a.output.text}}', operator: 'exists', compare: true } })], // prettier-ignore
    })
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed', b: 'completed' })
    await stack.client.workflow.getHandle(runId).result()
    const { historySize } = await stack.client.workflow.getHandle(runId).describe()
    expect(historySize).toBeGreaterThan(0)
    expect(historySize).toBeLessThan(20_000)
    expect(JSON.stringify(await historiesOf(stack, runId))).not.toContain('xxxxxxxx')
    const output = await readStepOutput(stack.context, stack.organizationId, runId, 'a')
    expect(JSON.stringify(output).length).toBeGreaterThan(25_000_000)
  })
})

/*
 * The processor time that a run costs a worker if the run's input is as expensive as a body may be. A run with a small
 * input is the base. The large input may add at most 50 ms, plus 50 ms for each MiB and 5 µs for each value. A call
 * reads, checks, hashes, seals and stores its parameters, and each of these acts visits every value. The minimum of
 * several tries counts. The test allows four times as much, since machines differ.
 */
describe('the processor time of a worker', () => {
  const mostTries = 4
  const megabyte = 1024 * 1024
  /**
   * A slow or busy machine takes several times the processor time for the same work. Work that grows faster than its
   * input takes seconds here, so this bound finds such work on any machine.
   */
  const slowness = 4
  const boundOf = (text: string): number => slowness * (50 + (50 * text.length) / megabyte + mostValues / 200)

  let worker: MeasuredProgram
  useTestStack(
    (started) => (stack = started),
    {},
    async ({ environment }) => {
      worker = await startMeasured('worker', { APP_ENV: 'test', LOG_LEVEL: 'silent', ...environment })
    },
  )
  afterAll(() => worker.end())

  async function costOf(x: JsonObject[string]): Promise<{ spent: number; status: string }> {
    const type = Array.isArray(x) ? 'array' : typeof x
    const before = await worker.cpu('clean')
    const runId = await stack.run({ inputs: { x: { type } }, steps: [step] }, { x })
    const { run: status = '' } = await stack.ended(runId)
    return { spent: (await worker.cpu()) - before, status }
  }

  async function leastCost(x: JsonObject[string], bound: number) {
    let least = await costOf(x)
    for (let tries = 1; tries < mostTries && least.spent > bound; tries += 1) {
      const again = await costOf(x)
      if (again.spent < least.spent) least = again
    }
    return least
  }

  const step = { id: 's', tool: 'memory_set', params: { key: 'k', value: '{{input.x}}' } }
  /** The size of each shape in MiB: the most that a memory value may have, or the most that a body may have. */
  const shapes: Readonly<Record<string, number>> = {
    'many short keys': 0.9,
    'many objects with keys of their own': 0.9,
    'many deep objects': 0.9,
    'many texts of templates': 7.9,
    'one long text of control characters': 7.9,
  }
  const textOf = (name: string, size: number): string =>
    worstJson(size * megabyte, mostValues).find((each) => each.name === name)?.text ?? 'null'

  test('an input that a call passes on costs no more than its bytes and values may', async () => {
    const bases = [await costOf('a'), await costOf('a')]
    const base = Math.min(...bases.map(({ spent }) => spent))
    const found: string[] = []
    for (const [name, size] of Object.entries(shapes)) {
      const text = textOf(name, size)
      const bound = boundOf(text)
      const { spent, status } = await leastCost(JSON.parse(text) as JsonObject[string], base + bound)
      if (spent > base + bound) found.push(`${name}: ${spent - base} ms, not ${bound} (${status})`)
    }
    expect(found).toEqual([])
  })
})

/*
 * Runs that try to end every worker, beside a run of another organization. Workers are processes with a small heap.
 * Like the supervisor, the test restarts a worker that has ended.
 */
describe('runs that try to end every worker', () => {
  useTestStack(
    (started) => (stack = started),
    { HEARTBEAT_TIMEOUT_SECONDS: '2', RECONCILE_SECONDS: '1' },
    async () => {},
  )

  let fleet: Fleet | undefined
  afterEach(async () => fleet?.stop())

  /** One worker at a time, restarted whenever it ends. */
  class Fleet {
    deaths = 0
    #child: ChildProcess | undefined
    #stopped = false
    #ended: Promise<unknown> = Promise.resolve()
    readonly #program: readonly string[]
    constructor(...program: readonly string[]) {
      this.#program = program
      this.#start()
    }
    #start(): void {
      const child = spawn(process.execPath, this.#program, {
        env: { ...programEnv(), ...stack.environment, APP_ENV: 'test', LOG_LEVEL: 'silent' },
        stdio: 'ignore',
      })
      this.#child = child
      this.#ended = new Promise((resolve) =>
        child.once('exit', () => {
          if (!this.#stopped) {
            this.deaths += 1
            this.#start()
          }
          resolve(undefined)
        }),
      )
    }
    async stop(): Promise<void> {
      this.#stopped = true
      this.#child?.kill('SIGKILL')
      await this.#ended
    }
  }

  const small = ['--max-old-space-size=256', 'src/programs/worker.ts']

  /** A person with another organization. */
  async function neighbour(): Promise<Caller> {
    const caller = stack.caller('approver')
    const { id } = await createOrganization(stack.context, caller, 'Neighbour', null)
    return { ...caller, organizationId: id, role: 'owner' }
  }

  const get = (id: string, key: string, over: object = {}) => ({
    id,
    tool: 'memory_get',
    params: { key },
    ...over,
  })
  const set = (id: string, key: string, value: unknown, over: object = {}) => ({
    id,
    tool: 'memory_set',
    params: { key, value },
    ...over,
  })
  const list = '{{steps.b.output.value}}'
  const plain = {
    steps: [
      set('a', 'k', [1, 2, 3]),
      get('b', 'k', { depends_on: ['a'] }),
      set('c', 'k{{item}}', list, { for_each: list }),
    ],
  }
  const hundred = { for_each: numbered(100, ''), on_error: 'continue' }
  const greedy = {
    steps: [get('s', 'tiny'), set('each', 'n{{item}}', '{{steps.s.output.value.0}}', hundred)],
  }

  /** JSON of a list with this many empty objects: little text, much memory. */
  const tiny = (count: number): string => `[${Array.from({ length: count }, () => '{}').join(',')}]`

  async function remember(key: string, text: string): Promise<void> {
    const { organizationId: organization_id, context } = stack
    const sealed = await sealMemory(context.sealer, organization_id, key, text)
    const { userId: updated_by } = stack.caller('member')
    await context.db.deleteFrom('memory').where('organization_id', '=', organization_id).execute()
    await context.db
      .insertInto('memory')
      .values({ organization_id, key, ...sealed, labels: [], updated_by })
      .execute()
  }

  const ended = (...runIds: string[]) =>
    Promise.all(runIds.map(async (runId) => (await stack.ended(runId))['run']))

  test.each([
    ['more values than an output may have', 320_000, 'failed'],
    ['as many values as an output may have', 95_000, 'completed'],
  ])('tiny values, read by 100 items: %s', async (_, count, expected) => {
    await remember('tiny', tiny(count))
    fleet = new Fleet(...small)
    const runId = await stack.runAs(stack.caller('member'), greedy)
    const honest = await stack.runAs(await neighbour(), plain)
    expect(await ended(honest, runId)).toEqual(['completed', expected])
    expect(fleet.deaths).toBe(0)
  })

  const dyingWorker = new URL('../support/dying-worker.ts', import.meta.url).href
  const dying = ['--import', dyingWorker, 'src/programs/worker.ts']

  /** A run whose second step loads a value that ends the worker. The first step ends before the test starts a worker. */
  async function deadly(): Promise<string> {
    const steps = [get('s', 'none'), set('t', 't', '{{steps.s.output.key}}', { depends_on: ['s'] })]
    const runId = await stack.runAs(stack.caller('member'), { steps })
    const op = opOf(runId, { tool: toolOf('free') })
    await stack.record(outcomeOf(op, await stack.go(op), 'completed'))
    const output = JSON.stringify({ key: deadlyText, more: 'x'.repeat(300_000) })
    await stack.context.db
      .updateTable('effects')
      .set({ output_sealed: await stack.context.sealer.seal(outputBinding(op.key), output) })
      .where('run_id', '=', runId)
      .execute()
    return runId
  }

  test('a call that has ended three workers fails, and a run of another organization continues', async () => {
    const runId = await deadly()
    const honest = await stack.runAs(await neighbour(), plain)
    fleet = new Fleet(...dying)
    expect(await ended(honest, runId)).toEqual(['completed', 'failed'])
    expect((await stack.stepOf(runId, 't')).error).toMatchObject({ code: 'resource_exhausted' })
    expect(fleet.deaths).toBe(3)
  })

  test('a run that is cancelled while its workers die ends at once, and ends no more workers', async () => {
    const runId = await deadly()
    fleet = new Fleet(...dying)
    await until('a worker has died of it', () => (fleet?.deaths ?? 0) > 0)
    await stack.cancel(runId)
    const deaths = fleet.deaths
    expect(await stack.runOf(runId)).toMatchObject({ status: 'cancelled' })
    // A worker makes the call once more, and reads nothing for it. Then nothing is left to do.
    const workflow = stack.client.workflow.getHandle(runId)
    await until('the workflow has closed', async () => (await workflow.describe()).status.name !== 'RUNNING')
    // A worker may have begun to load the value before the cancellation.
    expect(fleet.deaths).toBeLessThanOrEqual(deaths + 1)
  })
})
