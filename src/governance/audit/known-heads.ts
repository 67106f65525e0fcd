import type { ChainPosition } from './entry.ts'

/** What this process knows of one chain. */
interface Known {
  /** The last head that this process has committed. Is null if this process has only signed a head. */
  readonly committed: ChainPosition | null
  /** Heads that the chain must contain, in the order of `seq`. */
  readonly heads: readonly ChainPosition[]
  /** The head that a later commit of this process did not contain. Is null if there is none. */
  readonly lost: ChainPosition | null
}

const unknown: Known = { committed: null, heads: [], lost: null }

/** A process remembers at most this many chains. It forgets the chain that was used longest ago. */
const mostKnown = 50_000
const mostHeads = 16

/**
 * Remembers heads that this process has committed or signed. A chain only grows. So each later state of the chain must
 * contain these heads.
 */
export class KnownHeads {
  readonly #known = new Map<string, Known>()
  readonly #most: number

  constructor(most = mostKnown) {
    this.#most = most
  }

  /** Returns the heads that the chain must contain, in the order of `seq`. */
  of(organizationId: string): readonly ChainPosition[] {
    return this.#known.get(organizationId)?.heads ?? []
  }

  /**
   * Remembers a commit of this process that added at least one entry behind `base`. Commits of one chain arrive in
   * their order. If the commit contradicts an earlier head, returns this head. Then somebody has cut or changed the
   * chain. Neither this commit nor a later one is remembered. Otherwise returns null.
   */
  commit(organizationId: string, base: ChainPosition, { seq, hash }: ChainPosition): ChainPosition | null {
    const head = { seq, hash }
    const known = this.#known.get(organizationId) ?? unknown
    const { committed, heads } = known
    // This process may have signed this head, or a later one, before it learned of its own commit.
    const lost =
      known.lost ??
      (committed !== null && base.seq < committed.seq ? committed : null) ??
      heads.find((each) => differ(each, base) || differ(each, head)) ??
      null
    if (lost !== null) {
      this.#set(organizationId, { ...known, lost })
      return lost
    }
    // The new hash covers `base`. Between other heads and `base` are entries of other processes.
    const others = heads.filter(({ seq }) => seq !== base.seq)
    this.#set(organizationId, { committed: head, heads: inOrder([...others, head]), lost })
    return null
  }

  /** Remembers that `head` of the chain contains the `checked` heads, which `of` has returned. */
  contains(organizationId: string, checked: readonly ChainPosition[], head: ChainPosition): void {
    const known = this.#known.get(organizationId) ?? unknown
    const others = known.heads.filter((each) => !checked.includes(each))
    this.#set(organizationId, { ...known, heads: inOrder([...others, head]) })
  }

  #set(organizationId: string, known: Known): void {
    this.#known.delete(organizationId)
    this.#known.set(organizationId, known)
    const [oldest] = this.#known.keys()
    if (this.#known.size > this.#most && oldest !== undefined) this.#known.delete(oldest)
  }
}

const differ = (a: ChainPosition, b: ChainPosition): boolean => a.seq === b.seq && a.hash !== b.hash

function inOrder(heads: readonly ChainPosition[]): readonly ChainPosition[] {
  const sorted = heads.toSorted((a, b) => a.seq - b.seq)
  const ordered = sorted.filter(({ seq }, index) => seq !== sorted[index + 1]?.seq)
  // The first head is the one that was not compared with the database for the longest time.
  return ordered.length > mostHeads ? ordered.toSpliced(1, 1) : ordered
}
