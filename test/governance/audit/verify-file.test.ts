import { randomBytes } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { checkpointKeys } from '../../../src/governance/audit/checkpoint.ts'
import {
  chainStart,
  sealEntry,
  type AuditDraft,
  type ChainPosition,
} from '../../../src/governance/audit/entry.ts'
import { lineOf } from '../../../src/governance/audit/verify-entry.ts'
import { linesOf, verifyFile, type FileResult } from '../../../src/governance/audit/verify-file.ts'
import { marked, organizationId, other } from './chain-fixture.ts'
import { canonicalJson, sha256 } from '../../../src/shared/canonical-json.ts'
import {
  openNote,
  readVerifierKey,
  signingKey,
  signNote,
  verifierText,
} from '../../../src/governance/audit/signed-note.ts'

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
/** The lines of a file, or its text. */
type Contents = readonly string[] | string | Buffer

const fileOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')

/** Checks a file that arrives in chunks of `size` bytes. */
function check(file: Contents, { keys = [], notes = [] }: Given = {}, size = 50): Promise<FileResult> {
  const bytes = Buffer.from(Array.isArray(file) ? fileOf(file) : (file as string))
  async function* chunks(): AsyncGenerator<Buffer> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  return verifyFile(linesOf(chunks()), {
    keys,
    notes: notes.map((note, index) => ({ name: `n${index}`, text: note })),
  })
}

describe('a whole file', () => {
  test.each([1, 7, 100, 1_000_000])('is valid, also if it arrives in chunks of %i bytes', async (size) => {
    const result = await check(good.all, {}, size)
    expect(result).toMatchObject({ organizationId, entries: length, verifierKey: good.key })
  })

  test('of an empty chain is valid', async () => {
    expect(await check(exported(0).all)).toMatchObject({ entries: 0, hash: chainStart.hash })
  })

  test('is valid with the right key and with earlier checkpoints', async () => {
    const notes = [good.note(0), good.note(3), good.note(length)]
    await expect(check(good.all, { keys: [good.key], notes })).resolves.toBeDefined()
  })

  test('is valid with several keys, of which each has signed something', async () => {
    const notes = [good.note(3, stranger)]
    const keys = [stranger.verifierKey(organizationId), good.key]
    await expect(check(good.all, { keys, notes })).resolves.toBeDefined()
    await expect(check(good.all, { notes })).rejects.toThrow('no known key has signed the note')
  })
})

const forged = exported(length, organizationId, 'forged', stranger)
const foreign = exported(length, other)
const { all } = good
const whole = fileOf(all)
const entries = fileOf(good.lines)
const lineAt = (seq: number): string => all[seq - 1] as string
const without = (from: number, count: number) => all.toSpliced(from, count)
const edit = (seq: number, from: string | RegExp, to: string) => {
  const line = lineAt(seq).replace(from, () => to)
  return all.with(seq - 1, line)
}
/** The entries with the checkpoint of another export. */
const ending = ({ end }: typeof good) => [...good.lines, end]

const inFile = 'the checkpoint in the file'
const nine = `${inFile} has 9 entries`
const four = 'entry 4 is missing: entry 5 is in its place'
const neither = (after: string): string => `${after}, is neither an entry nor`
const wrong: readonly (readonly [what: string, file: Contents, message: string])[] = [
  ['an edited entry', edit(5, '"ok"', '"no"'), 'line 5: entry 5 was changed'],
  ['an edited hash', edit(5, /"[0-9a-f]{64}"/, `"${'0'.repeat(64)}"`), 'entry 5 was changed'],
  ['other white space', edit(5, ',"id"', ', "id"'), 'entry 5 was changed'],
  ['other line breaks', whole.replaceAll('\n', '\r\n'), 'entry 1 was changed'],
  ['a mark before the first byte', `\uFEFF${whole}`, neither('line 1, before the first entry')],
  ['an empty line', all.toSpliced(4, 0, ''), neither('line 5, after entry 4')],
  ['another first field', edit(5, '{', '{"x":1,'), neither('line 5, after entry 4')],
  ['bytes that are no text', Buffer.from([...Buffer.from(entries), 0xff, 10]), 'line 10 is not UTF-8'],
  ['an entry less', without(4, 1), 'line 5: entry 5 is missing: entry 6 is in its place'],
  ['the first entry less', without(0, 1), 'line 1: entry 1 is missing'],
  ['the last entries less', without(7, 2), `entry 8 is missing: ${nine}, and the file has 7`],
  ['all entries less', without(0, length), `entry 1 is missing: ${nine}`],
  ['no checkpoint', entries, 'the file is cut: it has no checkpoint after entry 9'],
  ['no line', '', 'the file is cut: it has no checkpoint before the first entry'],
  ['half an entry at its end', whole.slice(0, 5_000), 'is cut, after entry'],
  ['no line break at its end', whole.slice(0, -1), 'line 10 is cut, after entry 9'],
  ['another order', [...all.slice(0, 3), ...[5, 4, 6, 7, 8, 9, 10].map(lineAt)], `line 4: ${four}`],
  ['an entry twice', all.toSpliced(4, 0, lineAt(4)), 'line 5: entry 5 does not follow the entry before it'],
  [
    'another export behind it',
    [...all, ...all],
    'line 11 is behind the checkpoint, which must be the last line',
  ],
  [
    'an entry of another organization',
    all.with(4, foreign.lines[4] as string),
    'line 5: entry 5 does not follow',
  ],
  [
    'the tail of another chain',
    [...forged.lines.slice(0, 5), ...all.slice(5)],
    'line 6: entry 6 does not follow',
  ],
  ['the checkpoint of another chain', ending(forged), `entry 9 is not the entry of ${inFile}`],
  ['the checkpoint of another organization', ending(foreign), `${inFile} is of ${other}`],
  ['an older checkpoint', ending(exported(8)), `${inFile} has 8 entries, and the file has 9`],
  ['an edited checkpoint', edit(10, '\\n9\\n', '\\n8\\n'), `${inFile}: the signature is wrong`],
  ['a field twice in its last line', edit(10, '{', '{"checkpoint":"x",'), neither('line 10, after entry 9')],
  ['another line break behind its last line', edit(10, /$/, '\r'), neither('line 10, after entry 9')],
  ['an owner with another form of id', exported(1, 'org_\u202e').all, 'line 1 is not an audit entry'],
]

describe('a file is refused that has', () => {
  test.each(wrong)('%s', async (_what, file, message) => {
    await expect(check(file)).rejects.toThrow(message)
  })
})

describe('a forged chain with a key of its own', () => {
  test('is refused with the key of the service', async () => {
    await expect(check(forged.all)).resolves.toBeDefined()
    await expect(check(forged.all, { keys: [good.key] })).rejects.toThrow('no known key has signed the note')
  })

  test('that the service has signed is refused with an earlier checkpoint', async () => {
    const resigned = exported(length, organizationId, 'forged')
    const given = { keys: [good.key], notes: [good.note(5)] }
    await expect(check(resigned.all, given)).rejects.toThrow(
      'entry 5 is not the entry of the checkpoint `n0`',
    )
  })

  test('that is shorter is refused with a later checkpoint', async () => {
    await expect(check(exported(7).all, { notes: [good.note()] })).rejects.toThrow(
      'entry 8 is missing: the checkpoint `n0` has 9 entries, and the file has 7',
    )
  })
})

test.each(['', 'no note', good.note().replace('countersign/', 'elsewhere/')])(
  'a text that is no checkpoint is refused before the file is read: %j',
  async (note) => {
    await expect(check(good.all, { notes: [note] })).rejects.toThrow('the checkpoint `n0`: ')
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

const at = new Date('2026-03-04T05:06:07.089Z')
const draft: AuditDraft & { readonly status: string } = {
  eventType: 'workflow.execute',
  action: 'execute',
  status: 'accepted',
  actor: { type: 'user', id: 'usr_1', apiKeyId: 'key_1', ip: '192.0.2.7' },
  workflowId: 'wf_1',
  runId: 'run_1',
  durationMs: 12,
  metadata: { input_hash: 'a'.repeat(64) },
}

describe('sealEntry', () => {
  test('returns the documented entry without its hash, and the hash of its RFC 8785 bytes', () => {
    const entry = sealEntry('org_1', { seq: 6, hash: 'b'.repeat(64) }, 3, at, draft)
    const fields = JSON.parse(entry.canonical)
    expect(fields).toEqual({
      seq: 7,
      id: expect.stringMatching(/^evt_[0-9A-HJKMNP-TV-Z]{26}$/),
      timestamp: '2026-03-04T05:06:07.089Z',
      event_type: 'workflow.execute',
      organization_id: 'org_1',
      actor: { type: 'user', id: 'usr_1' },
      user_id: 'usr_1',
      workflow_id: 'wf_1',
      run_id: 'run_1',
      ip_address: '192.0.2.7',
      action: 'execute',
      status: 'accepted',
      duration_ms: 12,
      metadata: { input_hash: 'a'.repeat(64), api_key_id: 'key_1', policy_version: 3 },
      prev_hash: 'b'.repeat(64),
    })
    expect(entry.canonical).toBe(canonicalJson(fields))
    expect(entry).toMatchObject({ seq: 7, hash: sha256(entry.canonical) })
  })

  test('unknown values are null, never absent', () => {
    const { eventType, action, status } = draft
    const bare = { eventType, action, status, actor: { type: 'system', id: 'sweeper' } as const }
    expect(JSON.parse(sealEntry('org_1', chainStart, 1, at, bare).canonical)).toMatchObject({
      seq: 1,
      prev_hash: '0'.repeat(64),
      user_id: null,
      workflow_id: null,
      run_id: null,
      ip_address: null,
      duration_ms: null,
      metadata: { policy_version: 1 },
    })
  })

  test('law: metadata cannot replace the policy version or the key', () => {
    const forged = fc.dictionary(fc.constantFrom('policy_version', 'api_key_id', 'x'), fc.integer())
    fc.assert(
      fc.property(forged, fc.nat(), (metadata, version) => {
        const entry = sealEntry('org_1', chainStart, version, at, { ...draft, metadata })
        expect(JSON.parse(entry.canonical).metadata).toMatchObject({
          policy_version: version,
          api_key_id: 'key_1',
        })
      }),
    )
  })
})

/** The example in the documentation of golang.org/x/mod/sumdb/note. */
const go = {
  key: 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
  text: "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
  signature:
    '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n',
}

const [present, old] = [signingKey(randomBytes(32)), signingKey(randomBytes(32))]
const [name, text] = ['example.com/log', 'example.com/log\n3\nhash\n']
const keyOf = (key: typeof present, as = name) => readVerifierKey(verifierText(as, key))

describe('a signed note', () => {
  test('of the Go package is accepted with the verifier key of the Go package', () => {
    expect(openNote(`${go.text}\n${go.signature}`, [readVerifierKey(go.key)]).text).toBe(go.text)
  })

  test('is accepted with any of its keys, and names those', () => {
    const note = signNote(text, name, [present, old])
    for (const key of [keyOf(present), keyOf(old)])
      expect(openNote(note, [key])).toEqual({ text, signers: [key] })
  })

  test('keeps empty lines of its text, and ignores signatures of others', () => {
    const note = signNote('a\n\nb\n', name, [present])
    expect(openNote(note + go.signature, [keyOf(present)]).text).toBe('a\n\nb\n')
  })

  const good = signNote(text, name, [present])
  const signature = good.split('\n\n')[1]
  test.each([
    ['another text', good.replace('\n3\n', '\n4\n'), 'the signature is wrong: the note was changed'],
    [
      'a wrong signature beside a right one',
      signNote(text, name, [old]) + signature?.replace(/.{8}=\n/, 'AAAAAAAA=\n'),
      'the signature is wrong: the note was changed',
    ],
    ['a short signature', `${text}\n— ${name} ${keyOf(present).id.toString('base64')}\n`, 'another length'],
    ['no known key', signNote(text, name, [signingKey(randomBytes(32))]), 'no known key has signed the note'],
    ['the key under another name', signNote(text, 'example.com/other', [present]), 'no known key'],
    ['no signature', `${text}\n`, 'malformed'],
    ['a signature line in another form', `${text}\n- ${name} AAAA\n`, 'malformed'],
    ['no empty line', text, 'the text is not a signed note'],
    ['no line break at the end', good.trimEnd(), 'the text is not a signed note'],
    ['a control character', good.replace('hash', 'ha\rsh'), 'the text is not a signed note'],
    ['many signatures', good + signature?.repeat(64), 'too many signatures'],
  ])('with %s is refused', (_what, note, reason) => {
    expect(() => openNote(note, [keyOf(present), keyOf(old)])).toThrow(reason)
  })
})

test.each([
  ['an empty text', ''],
  ['another id', go.key.replace('c74f', 'c74e')],
  ['another name', go.key.replace('Peter', 'Paul')],
  ['another algorithm', go.key.replace('+ARpc', '+AhpC')],
  ['a part', go.key.slice(0, -4)],
])('%s is no verifier key', (_what, key) => {
  expect(() => readVerifierKey(key)).toThrow('the verifier key is not complete')
})
