import { setImmediate as tick } from 'node:timers/promises'
import { describe, expect, test } from '@jest/globals'
import type { Running } from '../../src/stack/child.ts'
import { createSupervisor, type Service } from '../../src/stack/supervise.ts'
import { until } from './until.ts'

/** A service whose ends and failures the test controls. */
function fake(name: string, needs: string[] = []) {
  const state = {
    starts: 0,
    fail: false,
    stops: 0,
    recovery: Promise.resolve(),
    end: (_how: string): void => undefined,
  }
  const service: Service<string> = {
    name,
    needs,
    start: async () => {
      state.starts += 1
      await tick()
      await state.recovery
      if (state.fail) throw new Error('will not start')
      const ended = Promise.withResolvers<string>()
      let gone = false
      state.end = (how) => {
        gone = true
        ended.resolve(how)
      }
      const running: Running = {
        pid: state.starts,
        exited: ended.promise,
        gone: () => gone,
        stop: async () => {
          state.stops += 1
          state.end('stopped')
          await ended.promise
        },
      }
      return running
    },
  }
  return { service, state }
}

const quick = { pause: 1, longestPause: 4 }

describe('the supervisor', () => {
  test('restarts a service that ends unasked, and reports it', async () => {
    const lines: string[] = []
    const supervisor = createSupervisor({ log: (line) => lines.push(line), ...quick })
    const { service, state } = fake('worker')
    await supervisor.add(service)
    state.end('signal SIGKILL')
    await until('it is started again', () => lines.length === 2)
    expect(state.starts).toBe(2)
    expect(lines[0]).toBe('worker ended unexpectedly (signal SIGKILL): starting it again in 0.0 s')
    expect(lines[1]).toMatch(/^worker is up again/)
    await supervisor.stop(['worker'])
    expect(state.starts).toBe(2)
  })

  test('gives up after repeated immediate failures, with the last reason', async () => {
    const supervisor = createSupervisor({ log: () => undefined, ...quick, limit: 3 })
    const { service, state } = fake('worker')
    await supervisor.add(service)
    state.fail = true
    state.end('exit code 3')
    await expect(supervisor.gaveUp).resolves.toThrow('worker failed 4 times in a row right after its start (will not start)') // prettier-ignore
    expect(state.starts).toBe(4)
    await supervisor.stop(['worker'])
  })

  test('a service that has run for a while starts with a clean record', async () => {
    const supervisor = createSupervisor({ log: () => undefined, ...quick, limit: 2, settled: 0 })
    const { service, state } = fake('worker')
    await supervisor.add(service)
    for (let life = 2; life < 12; life += 1) {
      state.end('signal SIGKILL')
      await until(`life ${life}`, () => state.starts === life)
      await tick()
      await tick()
    }
    await supervisor.stop(['worker'])
  })

  test('waits for its dependencies before it restarts', async () => {
    const lines: string[] = []
    const supervisor = createSupervisor({ log: (line) => lines.push(line), ...quick })
    const database = fake('postgres')
    const worker = fake('worker', ['postgres'])
    await supervisor.add(database.service)
    await supervisor.add(worker.service)
    const recovered = Promise.withResolvers<void>()
    database.state.recovery = recovered.promise
    database.state.end('signal SIGKILL')
    await until('the database starts again', () => database.state.starts === 2)
    worker.state.end('exit code 1')
    await until('the worker waits', () => lines.includes('worker waits for postgres'))
    expect(worker.state.starts).toBe(1)
    recovered.resolve()
    await until('the worker follows', () => worker.state.starts === 2)
    await supervisor.stop(['worker', 'postgres'])
  })

  test('a failed first start is passed on to the caller', async () => {
    const supervisor = createSupervisor({ log: () => undefined, ...quick })
    const { service, state } = fake('api')
    state.fail = true
    await expect(supervisor.add(service)).rejects.toThrow('will not start')
    expect(state.starts).toBe(1)
  })

  test('stop ends the pause before a restart, and a service that is just starting', async () => {
    const supervisor = createSupervisor({ log: () => undefined, pause: 1e6 })
    const { service, state } = fake('api')
    await supervisor.add(service)
    state.end('exit code 1')
    await supervisor.stop(['api'])
    expect(state.starts).toBe(1)
    await expect(supervisor.add(service)).rejects.toThrow('stopped')

    const second = createSupervisor({ log: () => undefined })
    const late = fake('worker')
    const adding = second.add(late.service)
    await second.stop(['worker'])
    await adding
    expect(late.state.stops).toBe(1)
  })
})
