import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach } from '@jest/globals'
import type { Client } from '@temporalio/client'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { run } from '../../src/tools/files/run.ts'
import { ToolError, type Executor } from '../../src/tools/kit/executor.ts'
import type { Config } from '../../src/shared/config.ts'
import { createWorkflowEngine, type WorkflowEngine } from '../../src/governance/delivery/workflow-engine.ts'
import { startRunner, type Runner } from '../../src/governance/lanes/runner.ts'
import { temporalSender } from '../../src/governance/delivery/relay.ts'
import { hasSearchAttributes, createTemporalClient } from '../../src/shared/temporal.ts'
import { startWorker, type RunningWorker } from '../../src/programs/worker.ts'
import { approvalsOf, startEngine, type Engine } from '../governance/runs/engine-fixture.ts'
import { asAdmin } from '../support/postgres.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { testTemporal } from '../support/stack.ts'
import { until } from '../stack/until.ts'

// These tests cause refusals and failures on purpose, so the SDK need not print them.
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { forward: {}, filter: 'ERROR' } },
  shutdownSignals: [],
})

export interface Stack extends Engine {
  readonly client: Client
  readonly motor: WorkflowEngine
  readonly relay: Runner
  readonly sink: SmtpSink
  readonly attributes: () => Promise<boolean>
  /** Environment of a worker process for the same stack. */
  readonly environment: Record<string, string>
  startWorker(over?: Partial<Config>): Promise<RunningWorker>
  stopWorkers(): Promise<void>
  /** Wakes the run this many times without a reason. Repeats each wake-up for which Temporal had no time. */
  noise(runId: string, times: number): Promise<void>
  /** Waits until the run waits for an approval; returns the approval's id. */
  held(runId: string): Promise<string>
  /** Waits for the run's end. Returns the status of the run and of each step. */
  ended(runId: string): Promise<Record<string, string>>
}

/** After this many events the server suggests that a run continues in a new history. */
const suggestion = 'limit.historyCount.suggestContinueAsNew'
type Overrides = Record<string, string> & { suggestAfterEvents?: string }

/** A new engine, mail sink and Temporal server; the test starts the workers. */
async function startTestStack({ suggestAfterEvents, ...overrides }: Overrides = {}): Promise<Stack> {
  const temporal = await testTemporal(
    suggestAfterEvents === undefined ? {} : { [suggestion]: Number(suggestAfterEvents) },
  )
  const sink = await startSmtpSink()
  const environment = {
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: temporal.namespace,
    TEMPORAL_TASK_QUEUE: `test-${randomBytes(4).toString('hex')}`,
    DATA_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    // Long enough for a loaded machine: a call of a live process must not count as dead. Tests of dead processes set a
    // shorter time.
    HEARTBEAT_TIMEOUT_SECONDS: '10',
    RECONCILE_SECONDS: '0.5',
    SMTP_URL: `smtp://127.0.0.1:${sink.port}`,
    ...overrides,
  }
  const engine = await startEngine(environment)
  const { context } = engine
  const client = createTemporalClient(context.config.temporal)
  const motor = createWorkflowEngine(client)
  const attributes = () => hasSearchAttributes(client, context.log)
  const relay = startRunner(context, [temporalSender(context, motor, attributes)])
  context.onOutbox = () => relay.kick('temporal')
  const workers = new Set<RunningWorker>()
  const stopWorkers = async (): Promise<void> => {
    await Promise.all([...workers].map((worker) => worker.stop()))
    workers.clear()
  }
  const status = async (runId: string) =>
    context.db
      .selectFrom('runs')
      .select(['status', 'finished_at'])
      .where('id', '=', runId)
      .executeTakeFirstOrThrow()
  return {
    ...engine,
    client,
    motor,
    relay,
    sink,
    attributes,
    environment: { ...environment, DATABASE_URL: context.config.database.url },
    async startWorker(over = {}) {
      const worker = await startWorker({
        ...context.config,
        processId: randomBytes(4).toString('hex'),
        ...over,
      })
      workers.add(worker)
      return { stop: () => (workers.delete(worker) ? worker.stop() : Promise.resolve()) }
    },
    stopWorkers,
    async noise(runId, times) {
      const wake = (n: number) =>
        motor.wake(runId, { key: `nobody#${n}` }).then(
          () => true,
          () => false,
        )
      for (let sent = 0; sent < times; sent += 1) await until('Temporal takes a signal', () => wake(sent))
    },
    async held(runId) {
      const pending = async () =>
        (await approvalsOf(context, runId)).find((each) => each.status === 'pending')?.id
      await until('an approval waits', async () => (await pending()) !== undefined)
      return (await pending()) ?? ''
    },
    async ended(runId) {
      await until('the run ends', async () => (await status(runId)).finished_at !== null)
      const steps = await context.db
        .selectFrom('run_steps')
        .select(['step_id', 'status'])
        .where('run_id', '=', runId)
        .execute()
      const words = steps.map((step) => [step.step_id, step.status] as const)
      return { run: (await status(runId)).status, ...Object.fromEntries(words) }
    },
    async close() {
      await stopWorkers()
      await relay.stop()
      await client.connection.close()
      await sink.close()
      await engine.close()
    },
  }
}

/**
 * Starts a stack for all tests of a file. Before each test, `use` gets the stack with new fake reads, no rules and a
 * sink that accepts all mails. `prepare` starts the programs that all tests of the file need; by default one worker.
 */
export function useTestStack(
  use: (stack: Stack, reads: FakeReads) => void,
  overrides: Overrides = {},
  prepare: (stack: Stack) => Promise<unknown> = (stack) => stack.startWorker(),
): void {
  let stack: Stack | undefined
  let reads: FakeReads | undefined
  beforeAll(async () => {
    stack = await startTestStack(overrides)
    await prepare(stack)
  })
  afterAll(async () => {
    await stack?.close()
    // The runtime's threads would keep Jest's process alive.
    await Runtime.instance().shutdown()
  })
  beforeEach(async () => {
    if (stack === undefined) throw new Error('the stack did not start')
    reads = fakeReads()
    use(stack, reads)
    stack.sink.behaviour = { kind: 'accept' }
    await stack.rules()
  })
  afterEach(() => {
    reads?.release()
    reads?.restore()
    stack?.sink.release()
  })
}

/** From now on the relay finds nothing to deliver: new rows are due tomorrow. */
export const withholdOutbox = (stack: Stack): Promise<void> =>
  asAdmin(stack.adminUrl, (client) =>
    client.query(`alter table lanes alter column due_at set default now() + interval '1 day'`),
  )

/** New rows are delivered again; the withheld rows are not. */
export const deliverOutbox = (stack: Stack): Promise<void> =>
  asAdmin(stack.adminUrl, (client) =>
    client.query('alter table lanes alter column due_at set default clock_timestamp()'),
  )

/** The state of the fake `file_read`, by path. */
export interface FakeReads {
  /** Calls of the body so far, by path. */
  readonly calls: Map<string, number>
  /** Paths that fail permanently now. */
  readonly failing: Set<string>
  /** Number of bodies that wait now. */
  waiting(): number
  /** Lets bodies end whose path starts with `prefix`: those that wait now, and those that start later. */
  release(prefix?: string): void
  restore(): void
}

/**
 * Replaces the body of `file_read`. Words in the path decide what the new body does. `wait` waits for `release` or
 * the call's signal, and `deaf` waits only for `release`. After the wait, `fail` fails permanently, `flaky` fails at
 * the first call, and `crash` throws an error that is not a ToolError. Every other path returns `{text: path}`.
 * `list:a:b` adds `list: ['a', 'b']`, and `big` returns 25 MB of text.
 */
export function fakeReads(): FakeReads {
  const original = run.file_read.body
  const calls = new Map<string, number>()
  const failing = new Set<string>()
  const gates = new Set<{ path: string; open(): void }>()
  const released: string[] = []
  const wait = (path: string, signal: AbortSignal): Promise<void> => {
    if (released.some((prefix) => path.startsWith(prefix))) return Promise.resolve()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const gate = { path, open: resolve }
    gates.add(gate)
    if (path.includes('wait')) signal.addEventListener('abort', () => reject(signal.reason as Error))
    return promise.finally(() => gates.delete(gate))
  }
  const body: Executor<{ path: string }> = async ({ params: { path } }, { signal }) => {
    const count = (calls.get(path) ?? 0) + 1
    calls.set(path, count)
    if (/wait|deaf/.test(path)) await wait(path, signal)
    if (path.includes('crash')) throw new Error(`crashed on ${path}`)
    const isFlaky = path.includes('flaky')
    if (path.includes('fail') || failing.has(path) || (isFlaky && count === 1))
      throw new ToolError('file_unreadable', 'it cannot be read', { retryable: isFlaky })
    if (path === 'big') return { output: { text: 'x'.repeat(25_000_000) } }
    return { output: { text: path, list: path.startsWith('list:') ? path.split(':').slice(1) : [] } }
  }
  ;(run.file_read as { body: unknown }).body = body
  return {
    calls,
    failing,
    waiting: () => gates.size,
    release(prefix = '') {
      released.push(prefix)
      for (const gate of gates) if (gate.path.startsWith(prefix)) gate.open()
    },
    restore() {
      run.file_read.body = original
    },
  }
}

/** Short forms of steps: `read` a path, `mail` with a subject. */
export const read = (id: string, path: string, over: object = {}) => ({
  id,
  tool: 'file_read',
  params: { path },
  ...over,
})
export const mail = (id: string, over: object = {}) => ({
  id,
  tool: 'mail_send',
  params: { to: 'a@b.test', subject: id, text: 'hello' },
  ...over,
})

/** Steps `s0`, `s1` and so on that read one after the other. */
export const chain = (length: number, over: object = {}) =>
  numbered(length, 's').map((id, n) => read(id, id, { ...over, ...(n > 0 && { depends_on: [`s${n - 1}`] }) }))

export const numbered = (length: number, word: string) => Array.from({ length }, (_, n) => `${word}${n}`)

/** A rule about reads of a path, or of all paths that start with it. */
export const onPath = (verdict: string, value: string, over: object = {}, operator = 'equals') => ({
  name: verdict,
  verdict,
  params: [{ param: 'path', operator, value }],
  ...over,
})
export const onPaths = (verdict: string, prefix: string) => onPath(verdict, prefix, {}, 'startswith')

/** The options of a step whose call is a local activity. */
export const quick = { timeout_seconds: 10 }
