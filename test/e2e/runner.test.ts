import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { globSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { byDepth } from '../support/depth.ts'
import { programEnv } from '../support/program-env.ts'

/* `npm test` itself: the last line and the exit code. The command must leave nothing behind, however it ends. */

const runner = fileURLToPath(new URL('../support/run.ts', import.meta.url))

interface Started {
  readonly child: ChildProcess
  readonly folder: string
  readonly ended: Promise<{ code: number | null; lastLine: string | undefined }>
  /** Everything that the runner has printed so far. */
  output(): string
}

const start = (...args: string[]): Started => run(process.execPath, runner, ...args)

function run(program: string, ...args: string[]): Started {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'runner-')))
  const child = spawn(program, args, {
    env: { ...programEnv(), TMPDIR: folder, TEST_DATABASE_FOLDER: folder },
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ended = new Promise<Awaited<Started['ended']>>((resolve) => {
    child.once('close', (code) => resolve({ code, lastLine: output.trimEnd().split('\n').at(-1) }))
  })
  return { child, folder, ended, output: () => output }
}

test('tells what it has done, counts the passed tests, and leaves nothing behind', async () => {
  const { folder, ended, output } = start('test/support/counts')
  expect(await ended).toEqual({ code: 0, lastLine: '9 passed, 0 failed' })
  expect(output()).toContain('1 of 1 files, 9 tests passed')
  expect(readdirSync(folder)).toEqual([])
})

test('fails when no test ran', async () => {
  const { folder, ended } = start('no-such-test')
  expect(await ended).toEqual({ code: 1, lastLine: '0 passed, 0 failed' })
  expect(readdirSync(folder)).toEqual([])
})

test.each(byDepth(['SIGKILL'] as const, ['SIGKILL', 'SIGTERM'] as const))(
  'leaves nothing behind when ended by %s while a test runs a stack',
  async (signal) => {
    const { child, folder, ended } = start('test/stack/run.test')
    await until(
      'a test starts a stack',
      () => globSync('*/data/run/postgres.json', { cwd: folder }).length > 0,
    )
    child.kill(signal)
    const { code, lastLine } = await ended
    if (signal === 'SIGTERM') expect({ code, lastLine }).toEqual({ code: 1, lastLine: '0 passed, 1 failed' })
    await until('the run folder is gone', () => readdirSync(folder).length === 0)
  },
)

// npm passes SIGTERM and SIGINT on to the program that it has started, and dies of all other signals alone.
test.each(byDepth(['SIGTERM'] as const, ['SIGTERM', 'SIGKILL'] as const))(
  'leaves nothing behind when npm alone gets %s while a test runs a stack',
  async (signal) => {
    const { child, folder, ended } = run('npm', 'test', '--', 'test/stack/run.test')
    await until(
      'a test starts a stack',
      () => globSync('*/data/run/postgres.json', { cwd: folder }).length > 0,
    )
    child.kill(signal)
    await ended
    await until('the run folder is gone', () => readdirSync(folder).length === 0)
  },
)

test('a worker that gets its data before it asks is answered all the same', async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'runner-')))
  const worker = join(folder, 'tinypool', 'dist', 'entry', 'process.js')
  mkdirSync(dirname(worker), { recursive: true })
  // The parent's first message is the early answer. After its second message, the worker begins to listen and asks.
  writeFileSync(
    worker,
    `process.on('message', (message) => {
       if (message !== 'begin') return
       process.on('message', ({ workerData }) => process.send({ got: workerData }, () => process.disconnect()))
       process.send('jest-light-runner-get-worker-data')
     })`,
  )
  const preload = new URL('../support/jest-process.ts', import.meta.url).href
  const child = fork(worker, { execArgv: [`--import=${preload}`] })
  child.send({ type: 'jest-light-runner-worker-data', workerData: 'mine' })
  child.send('begin')
  const [said] = (await once(child, 'message')) as unknown[]
  expect(said).toEqual({ got: 'mine' })
})
