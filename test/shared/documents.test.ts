import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { deflateSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { parseDocument } from '../../src/shared/documents/parse.ts'
import {
  canCutNetwork,
  runInSandbox,
  SandboxDied,
  type SandboxLimits,
} from '../../src/shared/documents/sandbox.ts'
import { docxOf, docxParts, pdfOf, pdfOfObjects, xlsxOf, xlsxParts, zipOf } from '../support/documents.ts'

const parse = (bytes: Buffer, name: string, limits = {}) =>
  parseDocument(bytes, { name, mediaType: null, limits })
async function textOf(bytes: Buffer, name: string): Promise<string> {
  return (await parse(bytes, name)).text.toString()
}
const rowsOf = async (bytes: Buffer, name: string): Promise<unknown> => {
  const { rows } = await parse(bytes, name)
  return rows === null ? null : JSON.parse(rows.toString())
}

describe('the text of', () => {
  test('a PDF is that of its pages', async () => {
    expect(await textOf(pdfOf('Invoice 7\nTotal 12', 'Page two'), 'a.pdf')).toBe(
      'Invoice 7\nTotal 12\n\nPage two',
    )
  })
  test('a Word file is that of its paragraphs', async () => {
    expect(await textOf(docxOf('Grüße & <more>', 'Second'), 'a.docx')).toBe('Grüße & <more>\n\nSecond')
  })
  test('an Excel file is CSV below the name of each sheet', async () => {
    const sheet = [
      ['name', 'total'],
      ['Smith, "J"', 12.5],
    ]
    expect(await textOf(xlsxOf(sheet), 'a.xlsx')).toBe('# Invoices\nname,total\n"Smith, ""J""",12.5')
  })
  test('a text is itself, without the byte order mark', async () => {
    expect(await textOf(Buffer.from('\uFEFFhello'), 'a.txt')).toBe('hello')
  })
})

describe('the rows of', () => {
  test('an Excel file are those of its first sheet, and numbers stay numbers', async () => {
    const sheet = [
      ['name', 'total'],
      ['a', 1.5],
      ['b', 2],
    ]
    expect(await rowsOf(xlsxOf(sheet), 'a.xlsx')).toEqual([
      { name: 'a', total: 1.5 },
      { name: 'b', total: 2 },
    ])
  })
  test('a CSV are its lines', async () => {
    expect(await rowsOf(Buffer.from('\uFEFFname;total\r\n"a;b";1\r\n'), 'a.csv')).toEqual([
      { name: 'a;b', total: '1' },
    ])
  })
  test('a text that is not a table are null', async () => {
    expect(await rowsOf(Buffer.from('name,total\na,1\n'), 'a.txt')).toBeNull()
  })
  test('a table of more than 10,000 rows are null, but its text is read', async () => {
    const many = Buffer.from(`n\n${'1\n'.repeat(10_001)}`)
    expect(await rowsOf(many, 'a.csv')).toBeNull()
    expect(await textOf(many, 'a.csv')).toBe(many.toString())
  })
})

test('the type is judged by content: a PDF named as a text is read as a PDF', async () => {
  expect(await parse(pdfOf('Hi'), 'a.txt')).toMatchObject({ kind: 'pdf' })
  expect(await parse(xlsxOf([['a']]), 'a.docx')).toMatchObject({ kind: 'xlsx' })
})

test('a text that mentions the marker of a PDF remains a text', async () => {
  const text = 'A file begins with %PDF- if it is a PDF.'
  expect(await parse(Buffer.from(text), 'notes.txt')).toMatchObject({ kind: 'text' })
  expect(await parse(Buffer.from('name,marker\npdf,%PDF-1.7\n'), 'a.csv')).toMatchObject({ kind: 'csv' })
})

test.each([
  ['bytes that are no text', Buffer.from([0, 255]), 'a'],
  ['white space', Buffer.from('\n'), 'a.txt'],
  ['text, and the name of a PDF', Buffer.from('from the printer\n'), 'a.pdf'],
])('a PDF may have %s before its marker', async (_what, before, name) => {
  expect(await parse(Buffer.concat([before, pdfOf('Hi')]), name)).toMatchObject({ kind: 'pdf' })
})

describe('refused, with a sentence that says why:', () => {
  const image = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
  const old = Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.alloc(512)])
  test.each<[string, Buffer, string, string]>([
    ['an image', image, 'a.pdf', 'is no PDF, DOCX, XLSX, CSV or text'],
    ['an empty file', Buffer.alloc(0), 'a.txt', 'is empty'],
    ['a text named as a PDF', Buffer.from('hello'), 'a.pdf', 'ends with `.pdf`, but the file is text'],
    ['an old Word file', old, 'a.doc', 'old Office file'],
    ['a cut PDF', pdfOf('x').subarray(0, 200), 'a.pdf', 'the PDF is damaged'],
    ['a PDF without text', pdfOf(''), 'a.pdf', 'holds no text'],
    ['a cut archive', docxOf('x').subarray(0, 300), 'a.docx', 'the archive is damaged'],
    ['another archive', zipOf({ 'a.txt': Buffer.from('x') }), 'a.zip', 'no Word or Excel file'],
    [
      'a CSV with lines of different lengths',
      Buffer.from('a,b\n1,2\n3\n'),
      'a.csv',
      'line 3 has another number',
    ],
    ['a CSV with a stray quote', Buffer.from('a,b\n1,x"y"\n'), 'a.csv', 'line 2 is not CSV'],
    ['a Windows text', Buffer.from([0x67, 0x72, 0xfc, 0xdf]), 'a.csv', 'save CSV and text as UTF-8'],
  ])('%s', async (_what, bytes, name, why) => {
    await expect(parse(bytes, name)).rejects.toThrow(why)
  })
})

/** A PDF with one page, whose content is read `times` times. */
function pdfWithContent(content: Buffer, times: number): Buffer {
  let packed = content
  for (let level = 0; level < 2; level += 1) packed = deflateSync(packed, { level: 9 })
  return pdfOfObjects([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents [${'4 0 R '.repeat(times)}] >>`,
    `<< /Length ${packed.length} /Filter [/FlateDecode /FlateDecode] >>\nstream\n${packed.toString('latin1')}\nendstream`,
  ])
}

/** A ZIP bomb whose header, and the list at its end, name a small size. */
function lyingBomb(): Buffer {
  const bomb = zipOf({ ...docxParts(['x']), 'word/document.xml': new Uint8Array(10 * 1024 * 1024).fill(32) })
  const [size, small] = [Buffer.alloc(4), Buffer.alloc(4)]
  size.writeUInt32LE(10 * 1024 * 1024)
  small.writeUInt32LE(1_000)
  for (let at = bomb.indexOf(size); at >= 0; at = bomb.indexOf(size)) small.copy(bomb, at)
  return bomb
}

describe('a hostile file is refused:', () => {
  const entities = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd"><!ENTITY b "&a;&a;">]>
    <w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>&b;</w:t></w:r></w:p></w:body></w:document>`
  function big(): Buffer {
    const bomb = zipOf({ ...docxParts(['x']), 'word/big.xml': new Uint8Array(110 * 1024 * 1024) })
    expect(bomb.length).toBeLessThan(1024 * 1024)
    return bomb
  }
  const far = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
  const rows = () =>
    Array.from(
      { length: 1_000_000 },
      (_, at) => `<row r="${at + 1}"><c r="A${at + 1}"><v>1</v></c></row>`,
    ).join('')
  const catalog = '<< /Type /Catalog /Pages 2 0 R >>'
  const names = `${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`
  const deep = [`<< /Type /Catalog /Pages 2 0 R /Names ${names} >>`, '<< /Type /Pages /Kids [] /Count 0 >>']
  const circle = [catalog, '<< /Type /Pages /Kids [2 0 R] /Count 3 >>']
  const soon = { processorSeconds: 5 }
  test.each<[string, string, () => Buffer, string | RegExp, object?]>([
    [
      'a Word file with XML entities',
      'a.docx',
      () => zipOf(docxParts([], entities)),
      'declares XML entities',
    ],
    ['a ZIP bomb, before it is unpacked', 'a.docx', big, 'unpacks to more than 100 MiB'],
    ['a ZIP bomb that names a small size', 'a.docx', lyingBomb, 'damaged'],
    [
      'an Excel file with a cell in the last row and column',
      'a.xlsx',
      () => zipOf(xlsxParts([], far)),
      /too much|damaged/,
      soon,
    ],
    [
      'an Excel file with 1,000,000 rows',
      'a.xlsx',
      () => zipOf(xlsxParts([], rows()), 1),
      'more than 100000 rows',
    ],
    ['a PDF whose pages lead in a circle', 'a.pdf', () => pdfOfObjects(circle), /damaged|too much/, soon],
    ['a PDF with a million levels of lists', 'a.pdf', () => pdfOfObjects(deep), /damaged|too much|no text/],
    [
      'a PDF whose content unpacks to gigabytes',
      'a.pdf',
      () => pdfWithContent(Buffer.alloc(256 * 1024 * 1024, 32), 4),
      /too much|no text|damaged/,
    ],
  ])('%s', async (_what, name, make, why, limits = {}) => {
    await expect(parse(make(), name, limits)).rejects.toThrow(why)
  })

  test('a PDF of 3 kB with forty million commands, after five seconds of processor time', async () => {
    const slow = pdfWithContent(Buffer.from('q Q '.repeat(4 * 1024 ** 2)), 5)
    expect(slow.length).toBeLessThan(3_000)
    await expect(parse(slow, 'a.pdf')).rejects.toThrow('takes more than 5 seconds of processor time')
  })

  test('a parser that is killed is a refusal', async () => {
    const refused = parseDocument(pdfOf('x'), {
      name: 'a.pdf',
      mediaType: null,
      started: (pid) => process.kill(pid, 'SIGKILL'),
    })
    await expect(refused).rejects.toThrow('too much time or memory')
  })
  test('a parser that is no longer wanted ends', async () => {
    const gone = new AbortController()
    const parsing = parseDocument(pdfOf('x'), {
      name: 'a.pdf',
      mediaType: null,
      signal: gone.signal,
      started: () => gone.abort(new Error('the client has gone')),
    })
    await expect(parsing).rejects.toThrow('the client has gone')
  })
})

test('files are read too if `node_modules` is a link to another folder', () => {
  const root = join(import.meta.dirname, '../..')
  const folder = mkdtempSync(join(tmpdir(), 'linked-'))
  try {
    cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true })
    cpSync(join(root, 'package.json'), join(folder, 'package.json'))
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const parser = pathToFileURL(join(folder, 'src/shared/documents/parse.ts')).href
    const program = `const { parseDocument } = await import('${parser}')
      console.log((await parseDocument(Buffer.from('a,b'), { name: 'x.csv', mediaType: null })).kind)`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
    })
    expect([stdout, stderr]).toEqual(['csv\n', ''])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('a program in the sandbox', () => {
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
    expect(answers).toMatchObject({
      read: denied,
      list: denied,
      write: denied,
      spawn: denied,
      worker: denied,
    })
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
})
