import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, test } from '@jest/globals'
import { DataFolderInUse, lockDataFolder } from '../../src/stack/lock.ts'
import { temporaryFolder } from './temporary-folder.ts'

const module = new URL('../../src/stack/lock.ts', import.meta.url).href

describe('the data folder lock', () => {
  test('a second process is refused with the name of the first, until the first is killed', async () => {
    const dataDir = temporaryFolder()
    const program = `const { lockDataFolder } = await import(${JSON.stringify(module)})
      globalThis.held = lockDataFolder(${JSON.stringify(dataDir)})
      console.log('locked')
      setInterval(() => undefined, 1e6)`
    const holder = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      await once(holder.stdout, 'data')
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
