import { hash as digest } from 'node:crypto'
import { chainStart, type ChainPosition } from './entry.ts'

export interface Mismatch {
  readonly seq: number
  /** null if there is no such entry, or none with a readable id. */
  readonly id: string | null
  readonly reason: 'hash' | 'link' | 'gap' | 'truncated' | 'foreign' | 'checkpoint'
  readonly expected: string
  readonly found: string
}

export interface StoredEntry {
  readonly canonical: string
  readonly hash: string
}

export interface StoredHead {
  readonly seq: number
  readonly hash: string
  readonly mac: string | null
  readonly policy_version: number
}

export type CheckCode = (entry: ChainPosition, mac: string | null) => boolean

/** Bounds the memory, too. */
const entriesForOneCode = 100

/**
 * Pass the stored entries to `next` in order of `seq`, then the head to `end`. The first result that is not null ends
 * the check. No content of an entry makes it throw.
 *
 * The service appends only to a head with a valid code, so a valid code proves all entries before it. An export has no
 * codes: without `checkCode`, none is checked.
 */
export class ChainChecker {
  readonly #organizationId: string
  readonly #ownerText: string
  readonly #checkCode: CheckCode
  #seq = chainStart.seq
  #hash = chainStart.hash
  #policyVersion = 0
  #last: StoredEntry | null = null
  /** No later code proves them yet. */
  #unproved: { readonly entry: StoredEntry; readonly mac: string | null }[] = []
  // Where the previous entry has its parts. An entry of the same kind has them at the same positions, which are tried
  // first.
  #metadata = -1
  #policy = -1
  #owner = -1

  constructor(organizationId: string, checkCode: CheckCode = () => true) {
    this.#checkCode = checkCode
    this.#organizationId = organizationId
    this.#ownerText = `,"organization_id":${JSON.stringify(organizationId)},"prev_hash":"`
  }

  get entries(): number {
    return this.#seq
  }

  /** A mismatch can also be about one of the last hundred entries. */
  next(entry: StoredEntry, mac: string | null = null): Mismatch | null {
    const hash = digest('sha256', entry.canonical, 'hex')
    const sealed = hash === entry.hash ? this.#readSealed(entry.canonical) : null
    const version = sealed ?? this.#readAny(entry, hash)
    if (typeof version !== 'number') return this.#firstForeign() ?? version
    this.#seq += 1
    this.#unproved.push({ entry, mac })
    if (version < this.#policyVersion) return this.#firstForeign() ?? this.#olderPolicy(entry, version)
    this.#hash = hash
    this.#last = entry
    this.#policyVersion = version
    return this.#unproved.length < entriesForOneCode ? null : this.#firstForeign()
  }

  #olderPolicy(entry: StoredEntry, version: number): Mismatch {
    // The entry is already counted, but it is not valid.
    this.#seq -= 1
    return this.#wrong(
      entry,
      'link',
      `policy version ${this.#policyVersion} or later`,
      `policy version ${version}`,
    )
  }

  #firstForeign(): Mismatch | null {
    const newest = this.#unproved.at(-1)
    if (newest === undefined) return null
    const before = this.#seq - this.#unproved.length
    const ours = ({ entry, mac }: typeof newest, seq: number): boolean =>
      this.#checkCode({ seq, hash: entry.hash }, mac)
    if (!ours(newest, this.#seq)) {
      const index = this.#unproved.findIndex((each, at) => !ours(each, before + at + 1))
      const { entry, mac } = this.#unproved[index] ?? newest
      this.#seq = before + index
      return this.#wrong(entry, 'foreign', 'an entry of this service', codeInWords(mac))
    }
    this.#unproved = []
    return null
  }

  /** null if the head is the last entry. Every organization has a head: somebody has removed a missing one. */
  end(head: StoredHead | null): Mismatch | null {
    const foreign = this.#firstForeign()
    if (foreign !== null) return foreign
    const seq = this.#seq
    const cut = { seq: seq + 1, id: null, reason: 'truncated' } as const
    if (head === null) return { ...cut, expected: 'the head of the log', found: 'no head' }
    if (seq < head.seq) return { ...cut, expected: `${head.seq} entries`, found: `${seq} entries` }
    const differs = (expected: string, found: string): Mismatch => {
      const id = this.#last === null ? null : idOf(parse(this.#last.canonical))
      return { seq, id, reason: 'link', expected, found }
    }
    if (seq > head.seq) return differs(`the head at ${seq}`, `the head at ${head.seq}`)
    if (this.#hash !== head.hash) return differs(head.hash, this.#hash)
    if (seq > 0 && !this.#checkCode({ seq, hash: head.hash }, head.mac))
      return { ...differs('a head of this service', codeInWords(head.mac)), reason: 'foreign' }
    if (head.policy_version >= this.#policyVersion) return null
    return differs(
      `policy version ${head.policy_version} or earlier`,
      `policy version ${this.#policyVersion}`,
    )
  }

  /**
   * Reads the policy version without parsing the text. Returns null if the text differs from what `sealEntry` writes,
   * or is not linked as expected; the caller then parses it.
   *
   * Searches for `metadata`, the policy version, and the owner (`organization_id` followed by `prev_hash`). A similar
   * text in a string or nested object is never taken for one of them:
   *
   * - A part contains quotes, which are escaped inside a string.
   * - No object opens between `metadata` and the version, so the version is not in an object inside `metadata`.
   * - After the start of the owner, the only closing brace is the last character, so the owner is not in a nested
   *   object.
   */
  #readSealed(canonical: string): number | null {
    const metadata = (this.#metadata = positionOf(canonical, metadataText, this.#metadata, 0))
    if (metadata < 0) return null
    const first = metadata + metadataText.length
    const policy = (this.#policy = positionOf(canonical, policyText, this.#policy, first))
    const owner = (this.#owner = positionOf(canonical, this.#ownerText, this.#owner, policy))
    if (policy < first || owner < policy) return null
    const nested = canonical.indexOf('{', first)
    if (nested >= 0 && nested < policy) return null
    if (policy !== first && canonical[policy - 1] !== ',') return null
    if (canonical.indexOf('}', owner) !== canonical.length - 1) return null
    const prev = owner + this.#ownerText.length
    if (!canonical.startsWith(this.#hash, prev)) return null
    if (canonical.indexOf(`,"seq":${this.#seq + 1},"status":"`, prev) < 0) return null
    wholeNumber.lastIndex = policy + policyText.length
    const version = wholeNumber.exec(canonical)?.[1]
    return version === undefined ? null : Number(version)
  }

  #readAny(entry: StoredEntry, hash: string): number | Mismatch {
    const expected = this.#seq + 1
    const fields = parse(entry.canonical)
    const seq = fields?.['seq']
    if (typeof seq === 'number' && seq > expected)
      return { seq: expected, id: null, reason: 'gap', expected: `entry ${expected}`, found: `entry ${seq}` }
    if (hash !== entry.hash) return this.#wrong(entry, 'hash', entry.hash, hash)
    if (fields === null) return this.#wrong(entry, 'link', 'an audit entry', 'text that is not one')
    if (seq !== expected) return this.#wrong(entry, 'link', `entry ${expected}`, `entry ${brief(seq)}`)
    const { organization_id: owner, prev_hash: prev, metadata } = fields
    if (owner !== this.#organizationId)
      return this.#wrong(entry, 'link', `an entry of ${this.#organizationId}`, `an entry of ${brief(owner)}`)
    if (prev !== this.#hash) return this.#wrong(entry, 'link', this.#hash, brief(prev))
    const version = isObject(metadata) ? metadata['policy_version'] : undefined
    if (typeof version === 'number' && Number.isSafeInteger(version)) return version
    return this.#wrong(entry, 'link', 'a policy version', brief(version))
  }

  #wrong(entry: StoredEntry, reason: 'hash' | 'link' | 'foreign', expected: string, found: string): Mismatch {
    return { seq: this.#seq + 1, id: idOf(parse(entry.canonical)), reason, expected, found }
  }
}

const codeInWords = (mac: string | null): string => (mac === null ? 'no code' : 'a wrong code')

const metadataText = ',"metadata":{'
const policyText = '"policy_version":'
const wholeNumber = /(\d{1,15})[,}]/y

/** Tries the position `guess` first, then searches from `from` on. */
function positionOf(text: string, part: string, guess: number, from: number): number {
  return guess >= from && text.startsWith(part, guess) ? guess : text.indexOf(part, from)
}

function idOf(fields: Record<string, unknown> | null): string | null {
  const id = fields?.['id']
  return typeof id === 'string' ? id : null
}

function parse(canonical: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(canonical)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An edited entry can contain anything. */
function brief(value: unknown): string {
  const shown = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return shown.length > 100 ? `${shown.slice(0, 100)}...` : shown
}

/*
 * An export has a line for each entry, and a last line with the checkpoint. `hash` comes first in an entry's line and
 * covers the line without `"hash":"…",`, so a reader does not need RFC 8785.
 */

const hashField = '{"hash":"'
const afterHash = '",'

export const lineOf = ({ canonical, hash }: StoredEntry): string =>
  `${hashField}${hash}${afterHash}${canonical.slice(1)}`

/** null if the line has another form. */
export function entryOf(line: string): StoredEntry | null {
  const end = hashField.length + 64
  const rest = end + afterHash.length
  if (!line.startsWith(hashField) || line.slice(end, rest) !== afterHash) return null
  return { canonical: `{${line.slice(rest)}`, hash: line.slice(hashField.length, end) }
}

export interface LastLine {
  /** A signed note (checkpoint.ts). */
  readonly checkpoint: string
  readonly verifier_key: string
}
