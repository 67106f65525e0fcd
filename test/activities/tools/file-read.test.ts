import { appendFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { maxFileSize, readFileTool } from '../../../src/activities/tools/file-read.ts'
import { maxOutputLength } from '../../../src/activities/ended.ts'
import { isTooLarge } from '../../../src/shared/json-size.ts'
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
