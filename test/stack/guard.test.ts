import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import {
  endOrphans,
  isOurs,
  recordedProcesses,
  recordProcess,
  runFolder,
  type Role,
} from '../../src/stack/guard.ts'
import { removeWhenUnused } from '../../src/stack/guarded-folder.ts'
import { startGuard } from '../../src/stack/guarded.ts'
import { identify, isRunning } from '../../src/stack/process-identity.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { until } from './until.ts'

const started: ChildProcess[] = []

/** A process that runs until it is ended, with these arguments in its command line. */
function idle(...words: string[]): ChildProcess & { pid: number } {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1e6)', ...words], {
    stdio: 'ignore',
  })
  started.push(child)
  return child as ChildProcess & { pid: number }
}

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

describe('ending processes that an earlier start left behind', () => {
  test.each<Role>(['api', 'worker', 'temporal', 'postgres'])(
    'ends a recorded %s and removes its record',
    async (role) => {
      const dataDir = temporaryFolder()
      const child = idle(dataDir)
      recordProcess(dataDir, role, child.pid)
      const lines: string[] = []
      await endOrphans(dataDir, { log: (line) => lines.push(line) })
      expect(identify(child.pid)).toBeNull()
      expect(recordedProcesses(dataDir)).toEqual([])
      expect(lines).toEqual([`ending ${role} (process ${child.pid}), left by an earlier start`])
    },
  )

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
    const module = new URL('../../src/stack/guarded.ts', import.meta.url).href
    const program = `const { startGuard } = await import(${JSON.stringify(module)})
      startGuard(${JSON.stringify(dataDir)}, { remove: true })
      console.log('guarding')`
    const parent = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(parent.stdout, 'data')
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
