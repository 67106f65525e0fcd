import { hash as digest } from 'node:crypto'
import { chainStart, type ChainPosition } from './entry.ts'

/** The first position at which a chain fails verification, and the reason. */
export interface Mismatch {
  readonly seq: number
  /** Is null if no entry exists at that position, or if the entry has no readable id. */
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

/** Whether a code is the one that the service has made for this entry (entry-macs.ts). */
export type CheckCode = (entry: ChainPosition, mac: string | null) => boolean

/** The code of each hundredth entry is checked, see `ChainChecker`. Bounds the memory, too. */
const entriesForOneCode = 100

/**
 * Checks one organization's chain from its first entry. Pass the stored entries to `next` in order of `seq`, then pass
 * the head to `end`. The first result that is not null ends the check. No content of an entry makes the checker throw.
 *
 * The service appends only to a head with a valid code. So a valid code proves all entries before it, whatever their
 * codes are. Without `checkCode`, no code is checked, because an export has none.
 */
export class ChainChecker {
  readonly #organizationId: string
  readonly #ownerText: string
  readonly #checkCode: CheckCode
  #seq = chainStart.seq
  #hash = chainStart.hash
  #policyVersion = 0
  #last: StoredEntry | null = null
  /** The newest entries: no later code proves them yet. */
  #unproved: { readonly entry: StoredEntry; readonly mac: string | null }[] = []
  // The positions of `metadataText` and of the two other parts in the previous entry's text. An entry of the same kind
  // has its parts at the same positions. So these positions are tried first.
  #metadata = -1
  #policy = -1
  #owner = -1

  constructor(organizationId: string, checkCode: CheckCode = () => true) {
    this.#checkCode = checkCode
    this.#organizationId = organizationId
    this.#ownerText = `,"organization_id":${JSON.stringify(organizationId)},"prev_hash":"`
  }

  /** Number of valid entries so far. */
  get entries(): number {
    return this.#seq
  }

  /**
   * Checks the next stored entry. Returns null if it correctly follows the previous entry. A mismatch can also be about
   * one of the last hundred entries.
   */
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

  /** Returns the first of the unproved entries that this service has not written. Null if it has written all. */
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

  /**
   * Checks the head after the last entry. Returns null if the head describes exactly the last entry. Each organization
   * has a head from its beginning, so if there is none (null), somebody has removed it.
   */
  end(head: StoredHead | null): Mismatch | null {
    const foreign = this.#firstForeign()
    if (foreign !== null) return foreign
    const seq = this.#seq
    if (head === null)
      return {
        seq: seq + 1,
        id: null,
        reason: 'truncated',
        expected: 'the head of the log',
        found: 'no head',
      }
    if (seq < head.seq)
      return {
        seq: seq + 1,
        id: null,
        reason: 'truncated',
        expected: `${head.seq} entries`,
        found: `${seq} entries`,
      }
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
   * Reads the policy version from the entry's text without parsing the text. Returns null if the text differs from what
   * `sealEntry` writes, or if the entry is not linked as expected. The caller then parses the entry.
   *
   * Searches for three parts: `metadata`, the policy version, and the owner. The owner is `organization_id` followed by
   * `prev_hash`. Strings and nested objects of an entry may contain similar texts. The search never takes such a text
   * for a part, for three reasons:
   *
   * - A part contains quotes. Quotes inside a string are escaped, so no part can be inside a string.
   * - No object opens between `metadata` and the version. So the version is not in an object inside `metadata`.
   * - After the start of the owner, the only closing brace is the last character. So the owner is not in a nested
   *   object.
   */
  #readSealed(canonical: string): number | null {
    const metadata = (this.#metadata = place(canonical, metadataText, this.#metadata, 0))
    if (metadata < 0) return null
    const first = metadata + metadataText.length
    const policy = (this.#policy = place(canonical, policyText, this.#policy, first))
    const owner = (this.#owner = place(canonical, this.#ownerText, this.#owner, policy))
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

  /** Parses the entry. Returns its policy version if the entry is linked as expected, else the mismatch. */
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

/**
 * Returns the position of `part`. Tries the position `guess` first, then searches from `from` on. Returns -1 if `part`
 * is not found.
 */
function place(text: string, part: string, guess: number, from: number): number {
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

/** Shows only a short part of a value, because an edited entry can contain anything. */
function brief(value: unknown): string {
  const shown = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return shown.length > 100 ? `${shown.slice(0, 100)}...` : shown
}

/*
 * The export of a chain has a line for each entry, and a last line with the checkpoint. `hash` is the first field of an
 * entry's line. The hash covers the line without `"hash":"…",`, which still begins with `{`. So a reader does not need
 * RFC 8785.
 */

const hashField = '{"hash":"'
const hashLength = 64
const afterHash = '",'

/** Returns the line of an entry, without a line break. */
export const lineOf = ({ canonical, hash }: StoredEntry): string =>
  `${hashField}${hash}${afterHash}${canonical.slice(1)}`

/** Reads a line that `lineOf` has made. Returns null if the line has another form. */
export function entryOf(line: string): StoredEntry | null {
  const end = hashField.length + hashLength
  const rest = end + afterHash.length
  if (!line.startsWith(hashField) || line.slice(end, rest) !== afterHash) return null
  return { canonical: `{${line.slice(rest)}`, hash: line.slice(hashField.length, end) }
}

/** The last line of an export. */
export interface LastLine {
  /** A signed note (checkpoint.ts). */
  readonly checkpoint: string
  readonly verifier_key: string
}
