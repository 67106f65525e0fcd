import { execFileSync } from 'node:child_process'
import { appendFileSync, readdirSync, readlinkSync } from 'node:fs'
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { rejection, toolCall, toolContext } from './call.ts'
import { maxOutputLength } from '../../src/activities/attempt.ts'
import { maxFileSize, run } from '../../src/tools/files/run.ts'
import { openBelow, type OpenMethod } from '../../src/tools/files/sandbox.ts'
import { isTooLarge } from '../../src/shared/json-size.ts'

describe('file_read', () => {
  let fileRoot: string
  beforeEach(async () => {
    fileRoot = await mkdtemp(join(tmpdir(), 'file-read-'))
  })
  afterEach(() => rm(fileRoot, { recursive: true, force: true }))

  const read = (path: string) => run.file_read.body(toolCall({ path }), toolContext({ fileRoot }))
  const refusal = (path: string) => rejection(read(path))

  const types: [string, string][] = [
    ['a.md', 'text/markdown'],
    ['a.txt', 'text/plain'],
    ['a.json', 'application/json'],
    ['a.constructor', 'text/plain'],
    ['a', 'text/plain'],
  ]
  test.each(types)('%s is %s', async (path, media_type) => {
    await writeFile(join(fileRoot, path), 'x')
    expect((await read(path)).output).toEqual({ path, text: 'x', media_type, size: 1 })
  })

  const sheets: [string, string, string, object[]][] = [
    [
      'a.csv',
      'text/csv',
      'name,total\nAnn,12\nBob,\n',
      [
        { name: 'Ann', total: '12' },
        { name: 'Bob', total: '' },
      ],
    ],
    ['A.CSV', 'text/csv', 'name;total\r\n"Ann; Bob";"1 ""2"""\r\n', [{ name: 'Ann; Bob', total: '1 "2"' }]],
    ['a.tsv', 'text/tab-separated-values', 'name\ttotal\nAnn\t12', [{ name: 'Ann', total: '12' }]],
    [
      'names.csv',
      'text/csv',
      'a,,a,__proto__\n1,2,3,4',
      [JSON.parse('{"a":"1","column_2":"2","a_2":"3","__proto__":"4"}')],
    ],
    ['header.csv', 'text/csv', 'x', []],
    ['empty.csv', 'text/csv', '', []],
  ]
  test.each(sheets)('%s has rows', async (path, media_type, text, rows) => {
    await writeFile(join(fileRoot, path), text)
    const { output } = await read(path)
    expect(output).toEqual({ path, text, media_type, size: text.length, rows })
    expect(JSON.stringify(output.rows)).toBe(JSON.stringify(rows))
  })

  const longName = 'n'.repeat(900)
  const noTables: [string, string, string][] = [
    ['a stray quote', 'a,b\r\n1,"unclosed\r\n', 'is not CSV'],
    ['lines of different length', 'a,b\n1,2\n3\n', 'line 3 has another number of cells'],
    ['more than 10,000 rows', `a\n${'1\n'.repeat(10_001)}`, 'more than 10000 rows'],
    ['more than 200 columns', ','.repeat(200), 'more than 200 columns'],
    ['more than 80,000 cells', `${','.repeat(199)}\n`.repeat(402), 'more than 80000 cells'],
    [
      'long names of columns, which each row repeats',
      `${longName}\n${'1\n'.repeat(10_000)}`,
      'take more than 8 MiB',
    ],
  ]
  test.each(noTables)('a CSV with %s is text, and says why it has no rows', async (_, text, problem) => {
    await writeFile(join(fileRoot, 'a.csv'), text)
    const { output } = await read('a.csv')
    expect(output).toEqual({
      path: 'a.csv',
      text,
      media_type: 'text/csv',
      size: text.length,
      rows_problem: expect.stringContaining(problem),
    })
  })

  test('the largest CSV is within the limits of an output', async () => {
    const text = `${Array(16).fill('ж'.repeat(45)).join()}\n`.repeat(4_900)
    await writeFile(join(fileRoot, 'a.csv'), text)
    const { output } = await read('a.csv')
    expect(output.rows?.length).toBeGreaterThan(4_000)
    expect(JSON.stringify(output).length).toBeLessThan(maxOutputLength)
    expect(isTooLarge(JSON.stringify(output))).toBe(false)
  })

  test('the size is in bytes, and a byte order mark is not part of the text', async () => {
    await writeFile(join(fileRoot, 'a.txt'), '\uFEFFgrün €')
    expect((await read('a.txt')).output).toMatchObject({ text: 'grün €', size: 12 })
  })

  test('an empty file is text', async () => {
    await writeFile(join(fileRoot, 'a.txt'), '')
    expect((await read('a.txt')).output).toMatchObject({ text: '', size: 0 })
  })

  const binaries: [string, Buffer][] = [
    ['an image', Buffer.from('89504e470d0a1a0a0000000d', 'hex')],
    ['NUL bytes', Buffer.from('a\0b')],
    ['Latin-1', Buffer.from('grün', 'latin1')],
    ['UTF-16', Buffer.from('\uFEFFgrün', 'utf16le')],
    ['a cut character', Buffer.from('€').subarray(0, 2)],
    ['an encoded surrogate', Buffer.from('eda080', 'hex')],
  ]
  test.each(binaries)('refuses %s', async (_, bytes) => {
    await writeFile(join(fileRoot, 'a.txt'), bytes)
    expect(await refusal('a.txt')).toMatchObject({ code: 'file_not_text', retryable: false })
  })

  test('reads a file of exactly the limit and none above it', async () => {
    const file = join(fileRoot, 'a.txt')
    await writeFile(file, Buffer.alloc(maxFileSize, 'x'))
    expect((await read('a.txt')).output).toMatchObject({ size: maxFileSize })
    await truncate(file, maxFileSize + 1)
    expect(await refusal('a.txt')).toMatchObject({ code: 'file_too_large', retryable: false })
  })

  test('the limit also applies to a file that grows while it is read', async () => {
    const file = join(fileRoot, 'a.txt')
    await writeFile(file, Buffer.alloc(maxFileSize, 'x'))
    // This function is called between fstat and each read.
    const signal = new AbortController().signal
    signal.throwIfAborted = () => appendFileSync(file, 'x')
    const reading = run.file_read.body(toolCall({ path: 'a.txt' }), toolContext({ fileRoot }, { signal }))
    expect(await rejection(reading)).toMatchObject({ code: 'file_too_large' })
  })

  test('refuses a path that leads out of the folder', async () => {
    expect(await refusal('../etc/passwd')).toMatchObject({ code: 'file_outside_root' })
  })

  test('stops when cancelled', async () => {
    await writeFile(join(fileRoot, 'a.txt'), 'x')
    const reason = new Error('cancelled')
    const context = toolContext({ fileRoot }, { signal: AbortSignal.abort(reason) })
    expect(await rejection(run.file_read.body(toolCall({ path: 'a.txt' }), context))).toBe(reason)
  })

  // The superuser may read everything.
  if (process.getuid?.() !== 0) {
    test('a file without permission', async () => {
      await writeFile(join(fileRoot, 'a.txt'), 'x')
      await chmod(join(fileRoot, 'a.txt'), 0)
      expect(await refusal('a.txt')).toMatchObject({ code: 'file_not_readable', retryable: false })
    })
  }

  test.each(['reports/q3-summary.md', 'customers.csv', 'notes/service-visit-meander.txt'])(
    'the sample %s is readable',
    async (path) => {
      const samples = join(import.meta.dirname, '../../samples')
      const { output } = await run.file_read.body(toolCall({ path }), toolContext({ fileRoot: samples }))
      expect((output as { text: string }).text.length).toBeGreaterThan(100)
    },
  )
})

describe('a path below a root', () => {
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
    return readdirSync(folder).filter((descriptor) => leadsTo(join(folder, descriptor)).startsWith(base))
      .length
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

    const absent = ['not-there.txt', 'not-there/file.txt', 'top.txt/file.txt', 'x'.repeat(300)]
    test.each(absent)('does not find %.20s', async (path) => {
      const error = await rejection(openBelow(root, path, method))
      expect(error).toMatchObject({ code: 'file_not_found', retryable: false })
      expect((error as Error).message).not.toContain(path)
    })

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
        expect(await rejection(openBelow(root, 'socket', method))).toMatchObject({
          code: 'file_not_readable',
        })
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
})
