import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import { checkpointKeys } from '../../../src/governance/audit/checkpoint.ts'
import { chainStart, sealEntry, type ChainPosition } from '../../../src/governance/audit/entry.ts'
import { lineOf } from '../../../src/governance/audit/export-lines.ts'
import { linesOf, verifyFile, type FileResult } from '../../../src/governance/audit/verify-file.ts'
import { marked, organizationId } from './chain-fixture.ts'

const other = 'org_01J00000000000000000000001'
const installation = checkpointKeys([randomBytes(32)])
const stranger = checkpointKeys([randomBytes(32)])

/** Returns the lines of an export, and the hashes of its entries. */
function exported(length: number, of = organizationId, mark = 'm', keys = installation) {
  const lines: string[] = []
  const hashes: string[] = [chainStart.hash]
  let head: ChainPosition = chainStart
  for (let seq = 1; seq <= length; seq += 1) {
    const entry = sealEntry(of, head, 1, new Date(0), marked(`${mark} ü ${seq}`))
    lines.push(lineOf(entry))
    hashes.push(entry.hash)
    head = entry
  }
  const note = (seq = length, by = keys) => by.sign({ organizationId: of, seq, hash: hashes[seq] as string })
  const end = JSON.stringify({ checkpoint: note(), verifier_key: keys.verifierKey(of) })
  return { lines, end, note, key: keys.verifierKey(of), all: [...lines, end] }
}

const length = 9
const good = exported(length)

interface Given {
  readonly keys?: readonly string[]
  readonly notes?: readonly string[]
}

/** Checks a file that arrives in chunks of `size` bytes. */
function check(text: string | Buffer, { keys = [], notes = [] }: Given = {}, size = 50): Promise<FileResult> {
  const bytes = Buffer.from(text)
  async function* chunks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  return verifyFile(linesOf(chunks()), {
    keys,
    notes: notes.map((note, index) => ({ name: `n${index}`, text: note })),
  })
}
const fileOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')
const edited = (index: number, edit: (line: string) => string): string =>
  fileOf(good.all.map((line, at) => (at === index ? edit(line) : line)))

describe('a whole file', () => {
  test.each([1, 7, 100, 1_000_000])('is valid, also if it arrives in chunks of %i bytes', async (size) => {
    const result = await check(fileOf(good.all), {}, size)
    expect(result).toMatchObject({ organizationId, entries: length, verifierKey: good.key })
  })

  test('of an empty chain is valid', async () => {
    expect(await check(fileOf(exported(0).all))).toMatchObject({ entries: 0, hash: chainStart.hash })
  })

  test('is valid with the right key and with earlier checkpoints', async () => {
    const notes = [good.note(0), good.note(3), good.note(length)]
    await expect(check(fileOf(good.all), { keys: [good.key], notes })).resolves.toBeDefined()
  })

  test('is valid with several keys, of which each has signed something', async () => {
    const notes = [good.note(3, stranger)]
    const keys = [stranger.verifierKey(organizationId), good.key]
    await expect(check(fileOf(good.all), { keys, notes })).resolves.toBeDefined()
    await expect(check(fileOf(good.all), { notes })).rejects.toThrow('no known key has signed the note')
  })
})

const without = (from: number, count: number): string => fileOf(good.all.toSpliced(from, count))
const forged = exported(length, organizationId, 'forged', stranger)
const rest = fileOf(good.lines.slice(5))

const wrong: readonly (readonly [what: string, file: string | Buffer, message: string])[] = [
  ['an edited entry', edited(4, (line) => line.replace('"ok"', '"no"')), 'line 5: entry 5 was changed'],
  [
    'an edited hash',
    edited(4, (line) => line.replace(/"[0-9a-f]{64}"/, `"${'0'.repeat(64)}"`)),
    'entry 5 was changed',
  ],
  ['other white space', edited(4, (line) => line.replace(',"id"', ', "id"')), 'entry 5 was changed'],
  ['other line breaks', fileOf(good.all).replaceAll('\n', '\r\n'), 'entry 1 was changed'],
  [
    'a mark before the first byte',
    `\uFEFF${fileOf(good.all)}`,
    'line 1, before the first entry, is neither an entry nor',
  ],
  ['an empty line', fileOf(good.all.toSpliced(4, 0, '')), 'line 5, after entry 4, is neither an entry nor'],
  [
    'an entry with another first field',
    edited(4, (line) => `{"x":1,${line.slice(1)}`),
    'line 5, after entry 4, is neither',
  ],
  [
    'bytes that are no text',
    Buffer.concat([Buffer.from(fileOf(good.lines)), Buffer.from([0xff, 10])]),
    'line 10 is not UTF-8',
  ],
  ['an entry less', without(4, 1), 'line 5: entry 5 is missing: entry 6 is in its place'],
  ['the first entry less', without(0, 1), 'line 1: entry 1 is missing'],
  [
    'the last entries less',
    without(7, 2),
    'entry 8 is missing: the checkpoint in the file has 9 entries, and the file has 7',
  ],
  ['all entries less', without(0, length), 'entry 1 is missing: the checkpoint in the file has 9 entries'],
  ['no checkpoint', fileOf(good.lines), 'the file is cut: it has no checkpoint after entry 9'],
  ['no line', '', 'the file is cut: it has no checkpoint before the first entry'],
  ['half an entry at its end', fileOf(good.all).slice(0, 5_000), 'is cut, after entry'],
  ['no line break at its end', fileOf(good.all).slice(0, -1), 'line 10 is cut, after entry 9'],
  [
    'two entries in another order',
    fileOf(good.all.with(3, good.all[4] as string).with(4, good.all[3] as string)),
    'line 4: entry 4 is missing: entry 5 is in its place',
  ],
  [
    'an entry twice',
    fileOf(good.all.toSpliced(4, 0, good.all[3] as string)),
    'line 5: entry 5 does not follow the entry before it',
  ],
  [
    'another export behind it',
    fileOf([...good.all, ...good.all]),
    'line 11 is behind the checkpoint, which must be the last line',
  ],
  [
    'entries of another organization between',
    fileOf(good.all.with(4, exported(length, other).lines[4] as string)),
    'line 5: entry 5 does not follow',
  ],
  [
    'the tail of another chain',
    fileOf(forged.lines.slice(0, 5)) + rest + fileOf([good.end]),
    'line 6: entry 6 does not follow',
  ],
  [
    'the checkpoint of another chain',
    fileOf([...good.lines, forged.end]),
    'entry 9 is not the entry of the checkpoint in the file',
  ],
  [
    'the checkpoint of another organization',
    fileOf([...good.lines, exported(length, other).end]),
    'the checkpoint in the file is of org_01J00000000000000000000001',
  ],
  [
    'an older checkpoint',
    fileOf([...good.lines, exported(length - 1).end]),
    'the checkpoint in the file has 8 entries, and the file has 9',
  ],
  [
    'an edited checkpoint',
    edited(length, (line) => line.replace('\\n9\\n', '\\n8\\n')),
    'the checkpoint in the file: the signature is wrong',
  ],
  [
    'a field twice in its last line',
    edited(length, (line) => line.replace('{', '{"checkpoint":"x",')),
    'line 10, after entry 9, is neither an entry nor',
  ],
  [
    'another line break behind its last line',
    edited(length, (line) => `${line}\r`),
    'line 10, after entry 9, is neither an entry nor',
  ],
  ['an owner with another form of id', fileOf(exported(1, 'org_\u202e').all), 'line 1 is not an audit entry'],
]

describe('a file is refused that has', () => {
  test.each(wrong)('%s', async (_what, file, message) => {
    await expect(check(file)).rejects.toThrow(message)
  })
})

describe('a forged chain with a key of its own', () => {
  test('is refused with the key of the service', async () => {
    await expect(check(fileOf(forged.all))).resolves.toBeDefined()
    await expect(check(fileOf(forged.all), { keys: [good.key] })).rejects.toThrow(
      'no known key has signed the note',
    )
  })

  test('that the service has signed is refused with an earlier checkpoint', async () => {
    const resigned = exported(length, organizationId, 'forged')
    const given = { keys: [good.key], notes: [good.note(5)] }
    await expect(check(fileOf(resigned.all), given)).rejects.toThrow(
      'entry 5 is not the entry of the checkpoint `n0`',
    )
  })

  test('that is shorter is refused with a later checkpoint', async () => {
    await expect(check(fileOf(exported(7).all), { notes: [good.note()] })).rejects.toThrow(
      'entry 8 is missing: the checkpoint `n0` has 9 entries, and the file has 7',
    )
  })
})

test.each(['', 'no note', good.note().replace('countersign/', 'elsewhere/')])(
  'a text that is no checkpoint is refused before the file is read: %j',
  async (note) => {
    await expect(check(fileOf(good.all), { notes: [note] })).rejects.toThrow('the checkpoint `n0`: ')
  },
)

test('a line without an end is refused before it fills the memory', async () => {
  let sent = 0
  async function* endless(): AsyncGenerator<Buffer> {
    for (; sent < 1_000; sent += 1) yield Buffer.alloc(1024 * 1024, 'x')
  }
  await expect(verifyFile(linesOf(endless()), { keys: [], notes: [] })).rejects.toThrow('line 1 is too long')
  expect(sent).toBeLessThan(20)
})
