import { spawn, type ChildProcess } from 'node:child_process'
import { afterEach, expect, test } from '@jest/globals'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { createOrganization } from '../../src/governance/people/organizations.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { cancelRun } from '../../src/governance/runs/end/cancel.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { memoryPlace, outputPlace } from '../../src/governance/sealing/places.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { go, opOf, outcomeOf, runOf, stepOf, toolOf } from '../governance/runs/engine-fixture.ts'
import { deadlyText } from '../support/deadly-text.ts'
import { until } from '../stack/until.ts'
import { programEnv } from '../support/program-env.ts'
import { useTestStack, type Stack } from './worker-fixture.ts'

/*
 * Runs that try to end every worker, beside a run of another organization. Workers are processes with a small heap.
 * Like the supervisor, the test restarts a worker that has ended.
 */

let stack: Stack
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

async function start(caller: Caller, definition: object): Promise<string> {
  const workflow = await createWorkflow(stack.context, caller, {
    name: 'w',
    description: '',
    definition: workflowDefinition.parse(definition),
  })
  return (await acceptRun(stack.context, { caller, workflowId: workflow.id, inputs: {} })).runId
}

const plain = {
  steps: [
    { id: 'a', tool: 'memory_set', params: { key: 'k', value: [1, 2, 3] } },
    { id: 'b', tool: 'memory_get', params: { key: 'k' }, depends_on: ['a'] },
    {
      id: 'c',
      tool: 'memory_set',
      for_each: '{{steps.b.output.value}}',
      params: { key: 'k{{item}}', value: '{{steps.b.output.value}}' },
    },
  ],
}
const greedy = {
  steps: [
    { id: 's', tool: 'memory_get', params: { key: 'tiny' } },
    {
      id: 'each',
      tool: 'memory_set',
      for_each: Array.from({ length: 100 }, (_, index) => index),
      params: { key: 'n{{item}}', value: '{{steps.s.output.value.0}}' },
      on_error: 'continue',
    },
  ],
}

/** JSON of a list with this many empty objects: little text, much memory. */
const tiny = (count: number): string => `[${Array.from({ length: count }, () => '{}').join(',')}]`

async function remember(key: string, text: string): Promise<void> {
  const sealed = await stack.context.sealer.seal(memoryPlace(stack.organizationId, key, null), text)
  await stack.context.db
    .insertInto('memory')
    .values({
      organization_id: stack.organizationId,
      key,
      value_sealed: sealed,
      labels: [],
      updated_by: stack.caller('member').userId,
    })
    .onConflict((conflict) =>
      conflict.columns(['organization_id', 'key']).doUpdateSet({ value_sealed: sealed }),
    )
    .execute()
}

async function ended(...runIds: string[]): Promise<string[]> {
  for (const runId of runIds)
    await until('it ends', async () => (await runOf(stack.context, runId)).finished_at !== null)
  return Promise.all(runIds.map(async (runId) => (await runOf(stack.context, runId)).status))
}

test.each([
  ['more values than an output may have', 320_000, 'failed'],
  ['as many values as an output may have', 95_000, 'completed'],
])('tiny values, read by 100 items: %s', async (_, count, expected) => {
  await remember('tiny', tiny(count))
  fleet = new Fleet(...small)
  const runId = await start(stack.caller('member'), greedy)
  const honest = await start(await neighbour(), plain)
  expect(await ended(honest, runId)).toEqual(['completed', expected])
  expect(fleet.deaths).toBe(0)
})

const dying = [
  '--import',
  new URL('../support/dying-worker.ts', import.meta.url).href,
  'src/programs/worker.ts',
]

/** A run whose second step loads a value that ends the worker. The first step ends before the test starts a worker. */
async function deadly(): Promise<string> {
  const runId = await start(stack.caller('member'), {
    steps: [
      { id: 's', tool: 'memory_get', params: { key: 'none' } },
      {
        id: 't',
        tool: 'memory_set',
        params: { key: 't', value: '{{steps.s.output.key}}' },
        depends_on: ['s'],
      },
    ],
  })
  const op = opOf(runId, { tool: toolOf('free') })
  await stack.record(outcomeOf(op, await go(stack, op), 'completed'))
  const output = JSON.stringify({ key: deadlyText, more: 'x'.repeat(300_000) })
  await stack.context.db
    .updateTable('effects')
    .set({ output_sealed: await stack.context.sealer.seal(outputPlace(op.key), output) })
    .where('run_id', '=', runId)
    .execute()
  return runId
}

test('a call that has ended three workers fails, and a run of another organization continues', async () => {
  const runId = await deadly()
  const honest = await start(await neighbour(), plain)
  fleet = new Fleet(...dying)
  expect(await ended(honest, runId)).toEqual(['completed', 'failed'])
  expect((await stepOf(stack.context, runId, 't')).error).toMatchObject({ code: 'resource_exhausted' })
  expect(fleet.deaths).toBe(3)
})

test('a run that is cancelled while its workers die ends at once, and ends no more workers', async () => {
  const runId = await deadly()
  fleet = new Fleet(...dying)
  await until('a worker has died of it', () => (fleet?.deaths ?? 0) > 0)
  await cancelRun(stack.context, { caller: stack.caller('member'), runId })
  const deaths = fleet.deaths
  expect(await runOf(stack.context, runId)).toMatchObject({ status: 'cancelled' })
  // A worker makes the call once more, and reads nothing for it. Then nothing is left to do.
  const workflow = stack.client.workflow.getHandle(runId)
  await until('the workflow has closed', async () => (await workflow.describe()).status.name !== 'RUNNING')
  // A worker may have begun to load the value before the cancellation.
  expect(fleet.deaths).toBeLessThanOrEqual(deaths + 1)
})
