import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate as tick } from 'node:timers/promises'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { temporaryFolder } from './temporary-folder.ts'
import { until } from './until.ts'
import type { Running } from '../../src/stack/child.ts'
import {
  endOrphans,
  isOurs,
  recordedProcesses,
  recordProcess,
  runFolder,
  startGuard,
  removeWhenUnused,
  type Role,
} from '../../src/stack/guard.ts'
import { DataFolderInUse, lockDataFolder } from '../../src/stack/start.ts'
import { portLike, rememberPorts, freePort, isFree, listens } from '../../src/stack/ports.ts'
import { v8Flags } from '../../src/stack/server.ts'
import { Patience } from '../../src/stack/healthy.ts'
import { identify, isRunning, processorTime } from '../../src/stack/process-identity.ts'
import { createSteps, createSupervisor, type Service } from '../../src/stack/supervise.ts'

const started: ChildProcess[] = []

/** A process that runs until it is ended, with these arguments in its command line. */
function idle(...words: string[]): ChildProcess & { pid: number } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1e6)', ...words], {
    stdio: 'ignore',
  })
  started.push(child)
  return child as ChildProcess & { pid: number }
}

/** A process that has called a function of a module of the stack, and runs until it is ended. */
async function calling(name: string, call: string): Promise<ChildProcess> {
  const module = new URL(`../../src/stack/${name}.ts`, import.meta.url).href
  const program = `const module = await import('${module}')
    globalThis.held = module.${call}
    console.log('called')
    setInterval(() => undefined, 1e6)`
  const args = ['--input-type=module', '-e', program]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  started.push(child)
  const ended = once(child, 'exit').then(() =>
    Promise.reject(new Error(`the program of ${name}.ts ended early`)),
  )
  await Promise.race([once(child.stdout, 'data'), ended])
  ended.catch(() => undefined)
  return child
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

describe('ending processes that an earlier start left behind', () => {
  const roles: Role[] = ['api', 'worker', 'temporal', 'postgres']
  test.each(roles)('ends a recorded %s and removes its record', async (role) => {
    const dataDir = temporaryFolder()
    const child = idle(dataDir)
    recordProcess(dataDir, role, child.pid)
    const lines: string[] = []
    await endOrphans(dataDir, { log: (line) => lines.push(line) })
    expect(identify(child.pid)).toBeNull()
    expect(recordedProcesses(dataDir)).toEqual([])
    expect(lines).toEqual([`ending ${role} (process ${child.pid}), left by an earlier start`])
  })

  test('never touches a process that is not provably ours', async () => {
    const dataDir = temporaryFolder()
    const stranger = idle('a stranger')
    const namesake = idle(dataDir)
    // This record has the right pid and start time, but the command line does not name the data folder.
    recordProcess(dataDir, 'postgres', stranger.pid)
    // This command line names the folder, but the start time differs: another process has the pid now.
    const record = { ...recordProcess(dataDir, 'temporal', namesake.pid), startedAt: '1' }
    writeFileSync(join(runFolder(dataDir), 'temporal.json'), JSON.stringify(record))
    // These records have no usable pid.
    writeFileSync(join(runFolder(dataDir), 'api.json'), '{"pid": -1')
    writeFileSync(join(runFolder(dataDir), 'worker.json'), '{"pid": -1, "startedAt": "1", "boot": ""}')
    await endOrphans(dataDir)
    expect(identify(stranger.pid)).not.toBeNull()
    expect(identify(namesake.pid)).not.toBeNull()
    expect(recordedProcesses(dataDir)).toEqual([])
  })

  test('a folder whose name only starts like ours is not ours', () => {
    const dataDir = temporaryFolder()
    const neighbour = idle(`${dataDir}-2/postgres`)
    const record = recordProcess(dataDir, 'postgres', neighbour.pid)
    if (record === null) throw new Error('not recorded')
    expect(isOurs(dataDir, record)).toBe(false)
  })
})

describe('the guard process', () => {
  test('ends the recorded processes when its parent is killed, and removes the folder if asked to', async () => {
    const dataDir = temporaryFolder()
    const guarded = idle(dataDir)
    recordProcess(dataDir, 'temporal', guarded.pid)
    const parent = await calling('guard', `startGuard(${JSON.stringify(dataDir)}, { remove: true })`)
    parent.kill('SIGKILL')
    await until('the guarded process is ended', () => identify(guarded.pid) === null)
    await until('the folder is removed', () => !existsSync(dataDir))
  })

  test('is replaced when it dies, and has ended after close', async () => {
    const dataDir = temporaryFolder()
    const guard = startGuard(dataDir)
    const path = join(runFolder(dataDir), 'guard.json')
    const pid = (): number => (JSON.parse(readFileSync(path, 'utf8')) as { pid: number }).pid
    const first = pid()
    process.kill(first, 'SIGKILL')
    await until('another guard is on record', () => existsSync(path) && pid() !== first)
    const [second] = recordedProcesses(dataDir)
    if (second === undefined) throw new Error('no guard is recorded')
    await guard.close()
    expect(isRunning(second)).toBe(false)
    expect(recordedProcesses(dataDir)).toEqual([])
  })
})

describe('a guarded folder that must be removed', () => {
  test('stays until the processes recorded in a folder below it have ended', async () => {
    const outer = temporaryFolder()
    const inner = join(outer, 'countersign-1', 'data')
    mkdirSync(inner, { recursive: true })
    recordProcess(inner, 'temporal', idle(inner).pid)
    const removed = removeWhenUnused(outer)
    // A guard that removes the folder at once would have done so by now.
    expect(recordedProcesses(inner)).toHaveLength(1)
    // The guard of the inner folder does this.
    await endOrphans(inner)
    await removed
    expect(existsSync(outer)).toBe(false)
  })
})

describe('the data folder lock', () => {
  test('a second process is refused with the name of the first, until the first is killed', async () => {
    const dataDir = temporaryFolder()
    const holder = await calling('start', `lockDataFolder(${JSON.stringify(dataDir)})`)
    try {
      expect(() => lockDataFolder(dataDir)).toThrow(DataFolderInUse)
      expect(() => lockDataFolder(dataDir)).toThrow(`in use by process ${holder.pid}:`)
    } finally {
      holder.kill('SIGKILL')
      await once(holder, 'exit')
    }
    lockDataFolder(dataDir).release()
  })

  test('is free again after release, and folders do not exclude each other', () => {
    const one = temporaryFolder()
    const first = lockDataFolder(one)
    lockDataFolder(temporaryFolder()).release()
    first.release()
    lockDataFolder(one).release()
  })
})

describe('process identity', () => {
  test('names this process with its command line, the same every time', () => {
    const me = identify(process.pid)
    expect(me?.command).toContain(process.argv[1] ?? 'no file')
    expect(identify(process.pid)).toEqual(me)
  })

  test('a process that has ended has none', async () => {
    const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    const found = identify(child.pid ?? 0)
    if (found === null) throw new Error('the child is not there')
    expect(isRunning(found)).toBe(true)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(identify(found.pid)).toBeNull()
    expect(isRunning(found)).toBe(false)
  })

  test.each([
    ['another start time', { startedAt: '1' }],
    ['another boot', { boot: 'earlier' }],
  ])('%s makes the same pid another process', (_, change) => {
    const me = identify(process.pid)
    if (me === null) throw new Error('this process is not there')
    expect(isRunning({ ...me, ...change })).toBe(false)
  })
})

const minute = 60_000

/** Returns after how many minutes a start is given up, if `step` says what the processes do in each second. */
function givenUpAfter(step: (second: number) => { worked?: number; said?: number }): number {
  let [now, worked, said] = [0, 0, 0]
  const patience = new Patience('/nowhere', { clock: () => now, worked: () => worked, said: () => said })
  for (let second = 1; !patience.isOver(); second += 1) {
    const did = step(second)
    now += 1_000
    worked += did.worked ?? 0
    said += did.said ?? 0
  }
  return Math.floor(now / minute)
}

test.each([
  ['that does nothing', 1, () => ({})],
  ['that only wakes up at times', 1, () => ({ worked: 10 })],
  ['that gets a twentieth of a processor for five minutes', 5, (s: number) => ({ worked: s < 300 ? 50 : 0 })],
  [
    'that says something every 50 seconds, four times',
    4,
    (s: number) => ({ said: s % 50 === 0 && s <= 200 ? 1 : 0 }),
  ],
  ['whose process is started anew after 50 seconds', 1, (s: number) => ({ worked: s === 50 ? -10 : 0 })],
  ['that goes round in circles', 20, () => ({ worked: 1_000, said: 1 })],
])('a start %s is given up after %d minutes', (_what, minutes, step) => {
  expect(givenUpAfter(step)).toBe(minutes)
})

test('the processor time of a process contains that of its descendants', async () => {
  const busy = 'const end = Date.now() + 600_000; while (Date.now() < end);'
  const child = spawn('sh', ['-c', '"$0" -e "$1"; exit', process.execPath, busy], { detached: true })
  const pid = child.pid as number
  try {
    await until('the grandchild works', () => processorTime([pid]) > 300)
    expect(processorTime([process.pid])).toBeGreaterThan(processorTime([pid]))
    expect(processorTime([])).toBe(0)
  } finally {
    process.kill(-pid, 'SIGKILL')
  }
})

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
/** A supervisor with the lines that it logs, and a service that it has not started yet. */
function supervised(name: string, options: object = {}) {
  const lines: string[] = []
  const supervisor = createSupervisor({ log: (line) => void lines.push(line), ...quick, ...options })
  return { supervisor, lines, ...fake(name) }
}

describe('the supervisor', () => {
  test('restarts a service that ends unasked, and reports it', async () => {
    const { supervisor, service, state, lines } = supervised('worker')
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
    const { supervisor, service, state } = supervised('worker', { limit: 3 })
    await supervisor.add(service)
    state.fail = true
    state.end('exit code 3')
    await expect(supervisor.gaveUp).resolves.toThrow('worker failed 4 times in a row right after its start (will not start)') // prettier-ignore
    expect(state.starts).toBe(4)
    await supervisor.stop(['worker'])
  })

  test('a service that has run for a while starts with a clean record', async () => {
    const { supervisor, service, state } = supervised('worker', { limit: 2, settled: 0 })
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
    const { supervisor, service, state } = supervised('api')
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

test('a free port is not one that the system could give to an outgoing connection meanwhile', async () => {
  const ports = await Promise.all(Array.from({ length: 100 }, () => freePort()))
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(12_000)
    expect(port).toBeLessThan(32_000)
  }
})

test('a port with a listener is not free, and answers', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  expect(await isFree(port)).toBe(false)
  expect(await listens(`127.0.0.1:${port}`)).toBe(true)
  await new Promise((resolve) => server.close(resolve))
  expect(await isFree(port)).toBe(true)
})

test('a port is the one of the last start, unless another program uses it by now', async () => {
  const dataDir = temporaryFolder()
  const port = await freePort()
  rememberPorts(dataDir, { temporal_ui: port })
  rememberPorts(dataDir, { postgres: 1 })
  expect(await portLike(dataDir, 'temporal_ui')).toBe(port)
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(port, '127.0.0.1', resolve))
  try {
    expect(await portLike(dataDir, 'temporal_ui')).not.toBe(port)
  } finally {
    await new Promise((resolve) => other.close(resolve))
  }
  expect(await portLike(dataDir, 'temporal_ui')).toBe(port)
})

const noPorts = ['', '{"postgres": "x"}', '[]', '{"postgres": 99999999}']
test.each(noPorts)('a ports.json with %j names no port of the last start', async (text) => {
  const dataDir = temporaryFolder()
  writeFileSync(join(dataDir, 'ports.json'), text)
  expect(await portLike(dataDir, 'postgres')).toBeGreaterThan(0)
  rememberPorts(dataDir, { temporal: 4 })
})

const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  scripts: Record<string, string>
}

test.each([
  ['api', v8Flags.api],
  ['worker', v8Flags.worker],
  ['bench', v8Flags.worker],
])('`npm run %s` gives V8 the same options as `npm start`', (name, flags) => {
  expect(scripts[name]).toMatch(new RegExp(`node ${flags.join(' ')} (src|bench)/`))
})

test.each([[v8Flags.api], [v8Flags.worker]])('this Node knows the flags %j', (flags) => {
  const ended = spawnSync(process.execPath, [...flags, '--eval', ''], { encoding: 'utf8' })
  expect([ended.status, ended.stderr]).toEqual([0, ''])
})

describe('progress', () => {
  afterEach(() => void jest.useRealTimers())

  test('a slow step is announced after a second, repeated later, and closed with its duration', async () => {
    jest.useFakeTimers()
    const lines: string[] = []
    const work = Promise.withResolvers<string>()
    const done = createSteps((line) => lines.push(line))('Temporal', () => work.promise)
    jest.advanceTimersByTime(999)
    expect(lines).toEqual([])
    jest.advanceTimersByTime(1)
    expect(lines).toEqual(['Temporal ... (1.0 s)'])
    jest.advanceTimersByTime(15_000)
    expect(lines.at(-1)).toBe('Temporal ... (16.0 s)')
    work.resolve('result')
    await expect(done).resolves.toBe('result')
    expect(lines.at(-1)).toBe('Temporal: done (16.0 s)')
    jest.advanceTimersByTime(60_000)
    expect(lines).toHaveLength(3)
  })

  test('a failed step is not called done', async () => {
    const lines: string[] = []
    const step = createSteps((line) => lines.push(line))
    await expect(step('PostgreSQL', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(lines).toEqual([])
  })
})
