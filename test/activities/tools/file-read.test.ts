import { appendFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { maxFileSize, readFileTool } from '../../../src/activities/tools/file-read.ts'
import { rejection, toolCall, toolContext } from './call.ts'

let fileRoot: string
beforeEach(async () => {
  fileRoot = await mkdtemp(join(tmpdir(), 'file-read-'))
})
afterEach(() => rm(fileRoot, { recursive: true, force: true }))

const read = (path: string) => readFileTool(toolCall({ path }), toolContext({ fileRoot }))
const refusal = (path: string) => rejection(read(path))

describe('file_read', () => {
  const types: [string, string][] = [
    ['a.md', 'text/markdown'],
    ['a.csv', 'text/csv'],
    ['A.CSV', 'text/csv'],
    ['a.txt', 'text/plain'],
    ['a.json', 'application/json'],
    ['a.constructor', 'text/plain'],
    ['a', 'text/plain'],
  ]
  test.each(types)('%s is %s', async (path, media_type) => {
    await writeFile(join(fileRoot, path), 'x')
    expect((await read(path)).output).toEqual({ path, text: 'x', media_type, size: 1 })
  })

  test('a CSV stays unchanged text, including stray quotes', async () => {
    const text = 'a,b\r\n1,"unclosed\r\n'
    await writeFile(join(fileRoot, 'a.csv'), text)
    expect((await read('a.csv')).output).toMatchObject({ text, size: text.length })
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
    // called between fstat and each read
    const signal = new AbortController().signal
    signal.throwIfAborted = () => appendFileSync(file, 'x')
    const reading = readFileTool(toolCall({ path: 'a.txt' }), toolContext({ fileRoot }, { signal }))
    expect(await rejection(reading)).toMatchObject({ code: 'file_too_large' })
  })

  test('refuses a path that leads out of the folder', async () => {
    expect(await refusal('../etc/passwd')).toMatchObject({ code: 'file_outside_root' })
  })

  test('stops when cancelled', async () => {
    await writeFile(join(fileRoot, 'a.txt'), 'x')
    const reason = new Error('cancelled')
    const context = toolContext({ fileRoot }, { signal: AbortSignal.abort(reason) })
    expect(await rejection(readFileTool(toolCall({ path: 'a.txt' }), context))).toBe(reason)
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
      const samples = join(import.meta.dirname, '../../../samples')
      const { output } = await readFileTool(toolCall({ path }), toolContext({ fileRoot: samples }))
      expect((output as { text: string }).text.length).toBeGreaterThan(100)
    },
  )
})
