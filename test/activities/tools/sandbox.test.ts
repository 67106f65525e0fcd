import { execFileSync } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, readFile, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { openBelow, type OpenMethod } from '../../../src/activities/tools/sandbox.ts'
import { rejection } from './call.ts'

let base: string
let root: string
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'sandbox-'))
  root = join(base, 'root')
  await mkdir(join(root, 'folder', 'deep'), { recursive: true })
  await mkdir(join(base, 'outside', 'deep'), { recursive: true })
  await writeFile(join(root, 'folder', 'deep', 'file.txt'), 'inside')
  await writeFile(join(root, 'top.txt'), 'inside')
  await writeFile(join(base, 'outside', 'deep', 'file.txt'), 'SECRET')
  await writeFile(join(base, 'outside', 'secret.txt'), 'SECRET')
})
afterEach(() => rm(base, { recursive: true, force: true }))

async function read(path: string, method: OpenMethod, from = root): Promise<string> {
  const file = await openBelow(from, path, method)
  try {
    return await file.readFile('utf8')
  } finally {
    await file.close()
  }
}

/** Open descriptors of this process for paths under `base`. */
function openDescriptors(): number {
  const folder = `/proc/${process.pid}/fd`
  return readdirSync(folder).filter((descriptor) => leadsTo(join(folder, descriptor)).startsWith(base)).length
}

/** The path of an open descriptor; empty if the descriptor was closed after the listing. */
function leadsTo(descriptor: string): string {
  try {
    return readlinkSync(descriptor)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

const onLinux = process.platform === 'linux'
const methods: OpenMethod[] = onLinux ? ['descriptors', 'compare'] : ['compare']

describe.each(methods)('opening by %s', (method) => {
  test.each(['top.txt', 'folder/deep/file.txt'])('reads %s', async (path) => {
    expect(await read(path, method)).toBe('inside')
  })

  test('the root itself may be a link', async () => {
    await symlink(root, join(base, 'link-to-root'))
    expect(await read('top.txt', method, join(base, 'link-to-root'))).toBe('inside')
  })

  const outside: [string, string][] = [
    ['leads up', '../outside/secret.txt'],
    ['leads up and back', 'folder/../top.txt'],
    ['ends in ..', 'folder/..'],
    ['is absolute', '/etc/hostname'],
    ['is absolute below the root', '//top.txt'],
    ['has a backslash', 'folder\\deep\\file.txt'],
    ['has a NUL', 'top.txt\0.csv'],
    ['starts with ./', './top.txt'],
    ['has a . in the middle', 'folder/./deep/file.txt'],
    ['has two slashes', 'folder//deep/file.txt'],
    ['ends with a slash', 'top.txt/'],
    ['is empty', ''],
  ]
  test.each(outside)('refuses a path that %s', async (_, path) => {
    const error = await rejection(openBelow(root, path, method))
    expect(error).toMatchObject({ name: 'ToolError', code: 'file_outside_root', retryable: false })
  })

  const links: [string, string, string][] = [
    ['a file outside', '../outside/secret.txt', 'link'],
    ['an absolute file', '/etc/hostname', 'link'],
    ['a file inside', 'top.txt', 'link'],
    ['a folder outside', '../outside', 'link/secret.txt'],
    ['a folder inside', 'folder', 'link/deep/file.txt'],
    ['the folder above', '..', 'link/outside/secret.txt'],
    ['nothing', 'not-there', 'link'],
    ['itself', 'link', 'link'],
  ]
  test.each(links)('refuses a link to %s', async (_, target, path) => {
    await symlink(target, join(root, 'link'))
    const error = await rejection(openBelow(root, path, method))
    expect((error as { code: string }).code).toMatch(/^file_(outside_root|not_found)$/)
    if (target !== 'not-there' && target !== 'link')
      expect(error).toMatchObject({ code: 'file_outside_root' })
  })

  test('refuses a link in the second folder', async () => {
    await symlink(join(base, 'outside', 'deep'), join(root, 'folder', 'link'))
    expect(await rejection(openBelow(root, 'folder/link/file.txt', method))).toMatchObject({
      code: 'file_outside_root',
    })
  })

  test.each(['not-there.txt', 'not-there/file.txt', 'top.txt/file.txt', 'x'.repeat(300)])(
    'does not find %.20s',
    async (path) => {
      const error = await rejection(openBelow(root, path, method))
      expect(error).toMatchObject({ code: 'file_not_found', retryable: false })
      expect((error as Error).message).not.toContain(path)
    },
  )

  test('refuses a folder', async () => {
    expect(await rejection(openBelow(root, 'folder', method))).toMatchObject({ code: 'file_not_readable' })
  })

  test('refuses a FIFO without waiting for a writer', async () => {
    execFileSync('mkfifo', [join(root, 'fifo')])
    expect(await rejection(openBelow(root, 'fifo', method))).toMatchObject({ code: 'file_not_readable' })
  })

  test('refuses a socket', async () => {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(join(root, 'socket'), resolve))
    try {
      expect(await rejection(openBelow(root, 'socket', method))).toMatchObject({ code: 'file_not_readable' })
    } finally {
      server.close()
    }
  })

  test('refuses a device', async () => {
    expect(await rejection(openBelow('/dev', 'null', method))).toMatchObject({ code: 'file_not_readable' })
  })

  test('an error says what to set if the root is missing', async () => {
    const error = await rejection(openBelow(join(base, 'gone'), 'top.txt', method))
    expect(error).toMatchObject({ code: 'file_not_readable', retryable: false })
    expect((error as Error).message).toContain('FILE_ROOT')
  })

  if (onLinux) {
    test('leaves no descriptor open, whatever the outcome', async () => {
      await symlink('../outside', join(root, 'link'))
      await read('folder/deep/file.txt', method)
      for (const path of ['link/secret.txt', 'folder', 'folder/deep/gone', 'top.txt/x']) {
        await rejection(openBelow(root, path, method))
      }
      expect(openDescriptors()).toBe(0)
    })
  }

  test('replacing a folder with a link repeatedly never leads outside', async () => {
    const folder = join(root, 'folder')
    const race = new AbortController()
    let swaps = 0
    const swapping = (async () => {
      while (!race.signal.aborted) {
        await rename(folder, join(root, 'aside'))
        await symlink('../outside', folder)
        await unlink(folder)
        await rename(join(root, 'aside'), folder)
        swaps++
        // A pause of varying length, so that some whole reads fit between two swaps.
        for (let pause = swaps % 40; pause > 0; pause--) await lstat(root)
      }
    })()
    const seen = { inside: 0, refused: 0 }
    try {
      // Reads during the swaps until the read has won and lost the race at least 20 times.
      for (
        let tries = 0;
        tries < 1000 || (tries < 60_000 && (seen.inside < 20 || seen.refused < 20));
        tries++
      ) {
        const text = await read('folder/deep/file.txt', method).catch((error: { code: string }) => {
          expect(error.code).toMatch(/^file_(outside_root|not_found)$/)
          return null
        })
        if (text === null) seen.refused++
        else {
          expect(text).toBe('inside')
          seen.inside++
        }
      }
    } finally {
      race.abort()
      await swapping
    }
    expect(seen.inside).toBeGreaterThanOrEqual(20)
    expect(seen.refused).toBeGreaterThanOrEqual(20)
    expect(swaps).toBeGreaterThan(20)
    expect(await readFile(join(base, 'outside', 'deep', 'file.txt'), 'utf8')).toBe('SECRET')
  })
})
