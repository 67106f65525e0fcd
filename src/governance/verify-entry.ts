import { hash as digest } from 'node:crypto'
import { chainStart } from './audit.ts'

/** Where and why a chain stops proving itself (contract section 8). */
export interface Mismatch {
  readonly seq: number
  /** null when there is no entry at that place. */
  readonly id: string | null
  readonly reason: 'hash' | 'link' | 'gap' | 'truncated' | 'checkpoint'
  readonly expected: string
  readonly found: string
}

export interface StoredEntry {
  readonly seq: number
  readonly canonical: string
  readonly hash: string
}

export interface StoredHead {
  readonly seq: number
  readonly hash: string
  readonly policy_version: number
}

/**
 * Follows one organization's chain from its first entry. Give it the stored entries in order of `seq`, then the head;
 * the first answer that is not null ends it. It never throws, whatever an entry holds.
 */
export class ChainChecker {
  readonly #organizationId: string
  readonly #ownerText: string
  #seq = chainStart.seq
  #hash = chainStart.hash
  #policyVersion = 0
  #last: StoredEntry | null = null

  constructor(organizationId: string) {
    this.#organizationId = organizationId
    this.#ownerText = `,"organization_id":${JSON.stringify(organizationId)},"prev_hash":"`
  }

  /** Entries that held so far. */
  get entries(): number {
    return this.#seq
  }

  /** The next stored entry: null when it follows from the one before it. */
  next(entry: StoredEntry): Mismatch | null {
    const expected = this.#seq + 1
    if (entry.seq !== expected) return this.#misplaced(entry, expected)
    const hash = digest('sha256', entry.canonical, 'hex')
    if (hash !== entry.hash) return mismatch(entry, 'hash', entry.hash, hash)
    const version = this.#readSealed(entry) ?? this.#readAny(entry)
    if (typeof version !== 'number') return version
    if (version < this.#policyVersion)
      return mismatch(
        entry,
        'link',
        `policy version ${this.#policyVersion} or later`,
        `policy version ${version}`,
      )
    this.#seq = expected
    this.#hash = hash
    this.#policyVersion = version
    this.#last = entry
    return null
  }

  /** After the last entry: null when the chain ends exactly where its head says. */
  end(head: StoredHead): Mismatch | null {
    if (this.#seq < head.seq)
      return absent(this.#seq + 1, 'truncated', `${head.seq} entries`, `${this.#seq} entries`)
    const last = this.#last ?? { seq: 0, canonical: '', hash: '' }
    if (this.#seq > head.seq)
      return mismatch(last, 'link', `the head at ${this.#seq}`, `the head at ${head.seq}`)
    if (this.#hash !== head.hash) return mismatch(last, 'link', head.hash, this.#hash)
    if (head.policy_version < this.#policyVersion)
      return mismatch(
        last,
        'link',
        `policy version ${head.policy_version} or earlier`,
        `policy version ${this.#policyVersion}`,
      )
    return null
  }

  #misplaced(entry: StoredEntry, expected: number): Mismatch {
    if (entry.seq > expected) return absent(expected, 'gap', `entry ${expected}`, `entry ${entry.seq}`)
    return mismatch(entry, 'link', `entry ${expected}`, `entry ${entry.seq}`)
  }

  /**
   * Policy version of an entry written the way `sealEntry` writes it and linked as expected, read off its text; null
   * when only a parse can tell. Sound because keys are sorted: the tail it demands is flat up to the closing brace of
   * the whole entry, so none of it can be part of a nested value, and a raw quote cannot be inside a string.
   */
  #readSealed({ canonical }: StoredEntry): number | null {
    const owner = canonical.lastIndexOf(this.#ownerText)
    if (owner < 0) return null
    const prev = owner + this.#ownerText.length
    if (!canonical.startsWith(this.#hash, prev)) return null
    tail.lastIndex = prev + this.#hash.length
    if (Number(tail.exec(canonical)?.[1]) !== this.#seq + 1) return null
    const metadata = canonical.indexOf(metadataText)
    const policy = canonical.indexOf(policyText, metadata)
    if (metadata < 0 || policy < 0 || policy > owner) return null
    const first = metadata + metadataText.length
    const nested = canonical.indexOf('{', first)
    if (nested >= 0 && nested < policy) return null
    if (policy !== first && canonical[policy - 1] !== ',') return null
    wholeNumber.lastIndex = policy + policyText.length
    const version = wholeNumber.exec(canonical)?.[1]
    return version === undefined ? null : Number(version)
  }

  /** The same by parsing: policy version of an entry that is linked as expected, else what is wrong with it. */
  #readAny(entry: StoredEntry): number | Mismatch {
    const fields = parse(entry.canonical)
    if (fields === null) return mismatch(entry, 'link', 'an audit entry', 'text that is not one')
    const wanted = { seq: this.#seq + 1, organization_id: this.#organizationId, prev_hash: this.#hash }
    for (const [name, value] of Object.entries(wanted)) {
      if (fields[name] === value) continue
      const show = (shown: unknown) => (name === 'prev_hash' ? brief(shown) : `${name} ${brief(shown)}`)
      return mismatch(entry, 'link', show(value), show(fields[name]))
    }
    const { metadata } = fields
    const version = isObject(metadata) ? metadata['policy_version'] : undefined
    if (typeof version === 'number' && Number.isSafeInteger(version)) return version
    return mismatch(entry, 'link', 'a policy version', 'none')
  }
}

const metadataText = ',"metadata":{'
const policyText = '"policy_version":'
const wholeNumber = /(\d{1,15})[,}]/y
const text = String.raw`"[^"\\]*"`
const tail = new RegExp(
  `","run_id":(?:null|${text}),"seq":(\\d{1,15}),"status":${text},"timestamp":${text},"user_id":(?:null|${text}),"workflow_id":(?:null|${text})}$`,
  'y',
)

function mismatch(entry: StoredEntry, reason: Mismatch['reason'], expected: string, found: string): Mismatch {
  const id = parse(entry.canonical)?.['id']
  return { seq: entry.seq, id: typeof id === 'string' ? id : null, reason, expected, found }
}

function absent(seq: number, reason: Mismatch['reason'], expected: string, found: string): Mismatch {
  return { seq, id: null, reason, expected, found }
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

/** What an edited entry holds can be anything: shown short. */
function brief(value: unknown): string {
  const shown = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return shown.length > 100 ? `${shown.slice(0, 100)}...` : shown
}
