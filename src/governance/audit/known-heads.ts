import type { ChainPosition } from './entry.ts'

interface Known {
  /** null if this process has only signed a head. */
  readonly committed: ChainPosition | null
  /** In the order of `seq`. */
  readonly heads: readonly ChainPosition[]
  /** The head that a later commit of this process did not contain. */
  readonly lost: ChainPosition | null
}

const unknown: Known = { committed: null, heads: [], lost: null }

/** The chain that was used longest ago is forgotten first. */
const mostKnown = 50_000

/** Heads that this process has committed or signed. A chain only grows, so each later state must contain them. */
export class KnownHeads {
  readonly #known = new Map<string, Known>()
  readonly #most: number

  constructor(most = mostKnown) {
    this.#most = most
  }

  of(organizationId: string): readonly ChainPosition[] {
    return this.#known.get(organizationId)?.heads ?? []
  }

  /**
   * Remembers a commit behind `base`; commits of one chain arrive in order. If it contradicts an earlier head, somebody
   * has cut or changed the chain: returns this head, and remembers neither this commit nor a later one.
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

  /** `of` has returned the `checked` heads. */
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
  // The first head was not compared with the database for the longest time.
  return ordered.length > 16 ? ordered.toSpliced(1, 1) : ordered
}
