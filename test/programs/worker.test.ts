import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { testKey } from '../governance/support.ts'
import { until } from '../stack/until.ts'
import { createTestDatabase, type TestDatabase } from '../support/stack.ts'
import { programEnv } from '../support/program-env.ts'

let database: TestDatabase
let child: ChildProcess
let output: string
beforeEach(async () => {
  database = await createTestDatabase()
  output = ''
  child = fork(fileURLToPath(new URL('../../src/programs/worker.ts', import.meta.url)), [], {
    env: {
      ...programEnv(),
      APP_ENV: 'test',
      DATABASE_URL: database.appUrl,
      DATA_ENCRYPTION_KEY: testKey.toString('base64'),
      // Nothing listens at this address.
      TEMPORAL_ADDRESS: '127.0.0.1:1',
    },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text))
})
afterEach(async () => {
  child.kill('SIGKILL')
  await database.drop()
})

describe('a worker that waits for Temporal at its start', () => {
  test.each([
    ['is told to stop', (process: ChildProcess) => process.kill('SIGTERM')],
    ['has lost its supervisor', (process: ChildProcess) => process.disconnect()],
  ])('ends when it %s', async (_, end) => {
    const exited = new Promise((resolve) => child.once('exit', (code) => resolve(code)))
    await until('it says that it waits', () => output.includes('Temporal cannot be reached yet'))
    end(child)
    expect(await exited).toBe(0)
  })
})
