import { z } from 'zod'
import { idPattern, openCheckpoint, readCheckpoint, type OpenedCheckpoint } from './checkpoint.ts'
import { chainStart, type ChainPosition } from './entry.ts'
import { entryOf, type LastLine, ChainChecker, type Mismatch, type StoredEntry } from './verify-entry.ts'
import { readVerifierKey, uncheckedText, WrongNote, type VerifierKey } from './signed-note.ts'

/** No complete export of a valid chain, or not in agreement with a given key or checkpoint. One sentence. */
export class WrongFile extends Error {
  override readonly name = 'WrongFile'
}

export interface Trusted {
  /** If empty, the key in the file is used. */
  readonly keys: readonly string[]
  /** Signed notes of the same chain. The file must agree with each of them. */
  readonly notes: readonly GivenNote[]
}

export interface GivenNote {
  /** For messages. */
  readonly name: string
  readonly text: string
}

export interface FileResult {
  readonly organizationId: string
  readonly entries: number
  readonly hash: string
  readonly verifierKey: string
}

export interface FileLine {
  readonly text: string
  readonly isWhole: boolean
}

/** Entries and checkpoints are much shorter. */
const mostLineBytes = 16 * 1024 * 1024
const lineBreak = 10

/** Has at most one line and one chunk in memory. Throws WrongFile for a line that is too long or not UTF-8. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<FileLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let number = 1
  let held: Buffer[] = []
  let heldBytes = 0
  const take = (last: Buffer): string => {
    const bytes = held.length === 0 ? last : Buffer.concat([...held, last])
    held = []
    heldBytes = 0
    try {
      return decoder.decode(bytes)
    } catch {
      throw new WrongFile(`line ${number} is not UTF-8 text`)
    }
  }
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(lineBreak); end >= 0; end = chunk.indexOf(lineBreak, from)) {
      yield { text: take(chunk.subarray(from, end)), isWhole: true }
      from = end + 1
      number += 1
    }
    if (from === chunk.length) continue
    held.push(chunk.subarray(from))
    heldBytes += chunk.length - from
    if (heldBytes > mostLineBytes) throw new WrongFile(`line ${number} is too long for an export`)
  }
  if (heldBytes > 0) yield { text: take(Buffer.alloc(0)), isWhole: false }
}

const lastLine = z.strictObject({ checkpoint: z.string(), verifier_key: z.string() })

/** Checks hashes, links and checkpoints, without the service. Throws WrongFile for the first problem. */
export async function verifyFile(lines: AsyncIterable<FileLine>, trusted: Trusted): Promise<FileResult> {
  const keys = trusted.keys.map(verifierKey)
  const chain = new FileChain(trusted.notes)
  let end: LastLine | null = null
  let number = 0
  for await (const { text, isWhole } of lines) {
    number += 1
    if (end !== null)
      throw new WrongFile(`line ${number} is behind the checkpoint, which must be the last line`)
    if (!isWhole) throw new WrongFile(`line ${number} is cut, ${chain.place}`)
    const entry = entryOf(text)
    if (entry === null) end = lastLineOf(text, `line ${number}, ${chain.place},`)
    else chain.add(entry, number)
  }
  if (end === null) throw new WrongFile(`the file is cut: it has no checkpoint ${chain.place}`)
  return chain.end(end, keys.length > 0 ? keys : [verifierKey(end.verifier_key)])
}

const verifierKey = (text: string): VerifierKey => noteRead('', () => readVerifierKey(text.trim()))

/** Makes a WrongNote a WrongFile whose message begins with `what`. */
function noteRead<T>(what: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof WrongNote) throw new WrongFile(`${what}${error.message}`)
    throw error
  }
}

function lastLineOf(text: string, where: string): LastLine {
  try {
    const parsed = lastLine.parse(JSON.parse(text))
    // One form only, so that other programs read the same: no field twice, and no other white space.
    if (JSON.stringify(parsed) === text) return parsed
  } catch {
    // The error below says more.
  }
  throw new WrongFile(`${where} is neither an entry nor a checkpoint`)
}

/** Remembers the hashes of the last entry and of those that a given checkpoint names. */
class FileChain {
  readonly #notes: readonly GivenNote[]
  readonly #hashes: Map<number, string | null>
  #checker: ChainChecker | null = null
  #organizationId: string | null = null
  #last: ChainPosition = chainStart

  constructor(notes: readonly GivenNote[]) {
    this.#notes = notes
    this.#hashes = new Map(
      notes.map(({ name, text }) => [
        noteRead(`${noteNamed(name)}: `, () => readCheckpoint(uncheckedText(text))).seq,
        null,
      ]),
    )
  }

  /** In words, for example `after entry 3`. */
  get place(): string {
    return this.#last.seq === 0 ? 'before the first entry' : `after entry ${this.#last.seq}`
  }

  add(entry: StoredEntry, line: number): void {
    this.#organizationId ??= ownerOf(entry, line)
    this.#checker ??= new ChainChecker(this.#organizationId)
    const mismatch = this.#checker.next(entry)
    if (mismatch !== null) throw new WrongFile(`line ${line}: ${inWords(mismatch)}`)
    this.#last = { seq: this.#checker.entries, hash: entry.hash }
    if (this.#hashes.has(this.#last.seq)) this.#hashes.set(this.#last.seq, entry.hash)
  }

  end(last: LastLine, keys: readonly VerifierKey[]): FileResult {
    const own = 'the checkpoint in the file'
    const { organizationId, seq } = this.#compare(own, last.checkpoint, keys)
    if (seq < this.#last.seq)
      throw new WrongFile(`${own} has ${seq} entries, and the file has ${this.#last.seq}`)
    for (const { name, text } of this.#notes) this.#compare(noteNamed(name), text, keys)
    return { organizationId, entries: seq, hash: this.#last.hash, verifierKey: last.verifier_key }
  }

  #compare(what: string, note: string, keys: readonly VerifierKey[]): OpenedCheckpoint {
    const checkpoint = noteRead(`${what}: `, () => openCheckpoint(note, keys))
    const { organizationId, seq, hash } = checkpoint
    const own = this.#organizationId ?? organizationId
    if (organizationId !== own)
      throw new WrongFile(`${what} is of ${organizationId}, and the file is of ${own}`)
    if (seq > this.#last.seq)
      throw new WrongFile(
        `entry ${this.#last.seq + 1} is missing: ${what} has ${seq} entries, and the file has ${this.#last.seq}`,
      )
    const found = this.#hashAt(seq)
    if (found !== null && found !== hash)
      throw new WrongFile(`entry ${seq} is not the entry of ${what}: its hash is ${found}, and not ${hash}`)
    return checkpoint
  }

  /** null for an entry that no given checkpoint names. */
  #hashAt(seq: number): string | null {
    if (seq === chainStart.seq) return chainStart.hash
    return seq === this.#last.seq ? this.#last.hash : (this.#hashes.get(seq) ?? null)
  }
}

const noteNamed = (name: string): string => `the checkpoint \`${name}\``

function ownerOf({ canonical }: StoredEntry, line: number): string {
  try {
    return entryOwner.parse(JSON.parse(canonical)).organization_id
  } catch {
    throw new WrongFile(`line ${line} is not an audit entry`)
  }
}

const entryOwner = z.object({ organization_id: z.string().regex(idPattern) })

function inWords({ seq, reason, expected, found }: Mismatch): string {
  switch (reason) {
    case 'hash':
      return `entry ${seq} was changed: its hash is ${found}, and not ${expected}`
    case 'gap':
      return `entry ${seq} is missing: ${found} is in its place`
    default:
      return `entry ${seq} does not follow the entry before it: expected ${expected}, found ${found}`
  }
}
