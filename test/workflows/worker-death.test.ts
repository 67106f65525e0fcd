import { spawn, type ChildProcess } from 'node:child_process'
import { beforeEach, describe, expect, test } from '@jest/globals'
import proto from '@temporalio/proto'
import type { RunningWorker } from '../../src/programs/worker.ts'
import { runOf, stepOf } from '../governance/runs/engine-fixture.ts'
import { until } from '../stack/until.ts'
import { sql } from 'kysely'
import { asAdmin } from '../support/postgres.ts'
import { programEnv } from '../support/program-env.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
let worker: RunningWorker
useTestStack(
  (...both) => ([stack, reads] = both),
  { HEARTBEAT_TIMEOUT_SECONDS: '2', RECONCILE_SECONDS: '3600' },
  async (started) => (worker = await started.startWorker()),
)

const start = (...steps: object[]) => stack.run({ steps })
const handleOf = (runId: string) => stack.client.workflow.getHandle(runId)

describe('workers that stop, die or hang', () => {
  test('a worker that is asked to stop during a read hands the read over', async () => {
    await worker.stop()
    const first = await stack.startWorker()
    const runId = await start(read('a', 'wait'))
    await until('it reads', () => reads.waiting() === 1)
    const stopped = first.stop()
    worker = await stack.startWorker()
    await stopped
    await until('it reads again', () => (reads.calls.get('wait') ?? 0) >= 2 && reads.waiting() === 1)
    reads.release()
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
    expect((await stepOf(stack.context, runId, 'a')).attempts).toBeGreaterThanOrEqual(2)
  })

  describe('whose heartbeats do not arrive', () => {
    beforeEach(async () => {
      await worker.stop()
      // The worker sends a heartbeat every seven seconds; the workflow expects one every two.
      worker = await stack.startWorker({ heartbeatTimeoutSeconds: 20 })
    })

    test('is superseded during a read: the newer attempt counts, once', async () => {
      const runId = await start(read('a', 'deaf'))
      await until('another attempt', () => (reads.calls.get('deaf') ?? 0) >= 2)
      reads.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
      expect((await stepOf(stack.context, runId, 'a')).attempts).toBeGreaterThanOrEqual(2)
      expect(await runOf(stack.context, runId)).toMatchObject({ nodes_executed: 1 })
    })

    test('after the dot: the outcome is unknown, until the server answers the old attempt after all', async () => {
      stack.sink.behaviour = { kind: 'hold' }
      const runId = await start(mail('slow'))
      await until(
        'unknown',
        async () => (await stepOf(stack.context, runId, 'slow')).status === 'unknown_outcome',
      )
      expect((await runOf(stack.context, runId)).status).toBe('paused')
      stack.sink.release()
      expect(await stack.ended(runId)).toEqual({ run: 'completed', slow: 'completed' })
      expect(stack.sink.count('slow')).toBe(1)
    })
  })

  test('a worker killed after the dot leaves an unknown outcome, not a second mail', async () => {
    await worker.stop()
    const child = await startChild(stack)
    try {
      stack.sink.behaviour = { kind: 'hold' }
      const dots = stack.sink.dots
      const runId = await start(mail('killed'))
      await stack.sink.dotsReached(dots + 1)
      child.kill('SIGKILL')
      await exited(child)
      worker = await stack.startWorker()
      await until(
        'unknown',
        async () => (await stepOf(stack.context, runId, 'killed')).status === 'unknown_outcome',
      )
      expect(stack.sink.count('killed')).toBe(1)
      // Missing heartbeats show that the worker died, long before the time limit of the call.
      const failures = async () =>
        (await handleOf(runId).fetchHistory()).events?.flatMap(
          (event) =>
            event.activityTaskStartedEventAttributes?.lastFailure?.timeoutFailureInfo?.timeoutType ?? [],
        )
      await until('the workflow knows', async () => (await failures())?.length === 1)
      expect(await failures()).toEqual([proto.temporal.api.enums.v1.TimeoutType.TIMEOUT_TYPE_HEARTBEAT])
      await handleOf(runId).cancel()
      await stack.ended(runId)
    } finally {
      child.kill('SIGKILL')
    }
  })
})

test('another worker takes over the quick call of a killed one', async () => {
  await worker.stop()
  const child = await startChild(stack)
  let free = () => Promise.resolve()
  try {
    // The worker sleeps until the organization's lock is taken, so that it dies while it decides the call.
    child.kill('SIGSTOP')
    const runId = await start({ id: 'a', tool: 'memory_get', params: { key: 'none' } })
    free = await takeLock(stack)
    child.kill('SIGCONT')
    await until('the worker decides the call', async () => {
      const { rows } = await sql<{ waiting: boolean }>`select exists (
        select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()) as waiting`.execute(
        stack.context.db,
      )
      return rows[0]?.waiting === true
    })
    child.kill('SIGKILL')
    await exited(child)
    await free()
    worker = await stack.startWorker()
    expect(await stack.ended(runId)).toEqual({ run: 'completed', a: 'completed' })
    const events = (await handleOf(runId).fetchHistory()).events ?? []
    expect(events.some((event) => event.workflowTaskTimedOutEventAttributes)).toBe(true)
    expect(events.some((event) => event.activityTaskScheduledEventAttributes)).toBe(false)
  } finally {
    await free()
    child.kill('SIGKILL')
  }
})

/** Takes the lock of the organization's audit chain. Returns a function that releases it. */
async function takeLock(of: Stack): Promise<() => Promise<void>> {
  const [taken, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const done = asAdmin(of.adminUrl, async (client) => {
    await client.query('begin')
    await client.query('select 1 from chain_head where organization_id = $1 for update', [of.organizationId])
    taken.resolve()
    await free.promise
    await client.query('rollback')
  })
  await taken.promise
  return () => {
    free.resolve()
    return done
  }
}

/** A worker in a separate process; its first heartbeat in the database shows that it polls. */
async function startChild(of: Stack): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['src/programs/worker.ts'], {
    env: { ...programEnv(), ...of.environment, APP_ENV: 'test', LOG_LEVEL: 'silent' },
    stdio: 'ignore',
  })
  await until('the child works', async () => {
    if (child.exitCode !== null) throw new Error(`the worker ended with ${child.exitCode}`)
    const rows = await of.context.db.selectFrom('process_heartbeats').select('process_id').execute()
    return rows.some((row) => row.process_id.includes(`-${child.pid}-`))
  })
  return child
}

const exited = (child: ChildProcess): Promise<unknown> =>
  child.exitCode === null && child.signalCode === null
    ? new Promise((resolve) => child.once('exit', resolve))
    : Promise.resolve()
