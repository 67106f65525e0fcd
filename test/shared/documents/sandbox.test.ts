import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  canCutNetwork,
  runInSandbox,
  SandboxDied,
  type SandboxLimits,
} from '../../../src/shared/documents/sandbox.ts'

/* A program in the sandbox that does what a hostile file would make a parser do. */

const program = new URL('./hostile-child.ts', import.meta.url)
const run = (args: readonly string[], limits: Partial<SandboxLimits> = {}) =>
  runInSandbox(program, args, Buffer.alloc(0), { limits })

let folder: string
const server = createServer((socket) => socket.end())
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-'))
  process.env['SANDBOX_TEST_SECRET'] = 'planted'
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
})
afterAll(() => {
  delete process.env['SANDBOX_TEST_SECRET']
  rmSync(folder, { recursive: true })
  server.close()
})

test('it reads and writes no file, sees no environment, and starts no process', async () => {
  const { port } = server.address() as AddressInfo
  const answers = JSON.parse((await run(['all', folder, `${port}`])).toString())
  const denied = 'ERR_ACCESS_DENIED'
  expect(answers).toMatchObject({ read: denied, list: denied, write: denied, spawn: denied, worker: denied })
  // A shell sets these two for itself.
  expect(
    answers.environment.filter((name: string) => !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(name)),
  ).toEqual([])
  expect(readdirSync(folder)).toEqual([])
  // Other systems do not let it cut the network (docs/files.md).
  if (canCutNetwork()) expect(answers.network).not.toBe('done')
})

describe('it is ended', () => {
  test('when it uses up its processor time', async () => {
    await expect(run(['loop'], { processorSeconds: 1 })).rejects.toThrow(SandboxDied)
  })
  test('when it writes more than is read', async () => {
    await expect(run(['talk'], { outputBytes: 10 * 1024 * 1024 })).rejects.toThrow(SandboxDied)
  })
  if (process.platform === 'linux')
    test('when it takes memory beside the heap', async () => {
      await expect(run(['memory'])).rejects.toThrow(SandboxDied)
    })
})
