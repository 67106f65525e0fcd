import type { Budget } from './budget.ts'
import { couldBecomeGoogleLink } from './readers/google-links.ts'
import type { PlaceKind } from './readers/places.ts'

/**
 * Stands for an unknown part in `Hole.outline`. No function that reads hosts takes this character for a part of a host
 * or for the end of a host.
 */
const gap = '\0'

/** The value of `after` if the text ends with the first unknown part. Contains one empty piece. */
const noPieces: readonly string[] = ['']

type HoleDetails = Pick<Hole, 'after' | 'from' | 'isWhole' | 'inList' | 'kind'>

/**
 * An unknown part of the parameters. With a `prefix`, it is a text that starts with this prefix. With null as `prefix`,
 * it can be any value, or be absent. Example: in the text `a{{x}}b{{y}}`, both references can be unknown. Then `prefix`
 * is `a`, and `after` contains `b` and an empty text.
 */
export class Hole {
  readonly prefix: string | null
  /**
   * The known pieces after the first unknown part of the text, in the order of the text. The last piece is the end of
   * the text. This piece is empty if the text ends with an unknown part.
   */
  readonly after: readonly string[]
  /** The prefix, followed by the pieces in `after`. */
  readonly pieces: readonly string[]
  /** The template references with unknown values, without their braces. Explanations show these references. */
  readonly from: readonly string[]
  /** True if this is the value of one reference. False if this is a text that contains such a value. */
  readonly isWhole: boolean
  readonly inList: boolean
  /**
   * The kind of place that the parameter names, e.g. a repository. Is null if the parameter names no place, or if the
   * kind is not known yet.
   */
  readonly kind: PlaceKind | null
  #mayBecomeLink: boolean | null = null
  #outline: string | null = null
  constructor(prefix: string | null, more: Partial<HoleDetails> = {}) {
    this.prefix = prefix
    this.after = more.after ?? noPieces
    this.pieces = prefix === null ? noPieces : [prefix, ...this.after]
    this.from = more.from ?? []
    this.isWhole = more.isWhole ?? false
    this.inList = more.inList ?? false
    this.kind = more.kind ?? null
  }
  /**
   * Returns a copy of this unknown part with this kind and `inList`. If `kind` is null and `inList` is false, returns
   * this unknown part itself.
   */
  in(kind: PlaceKind | null, inList: boolean): Hole {
    return kind === null && !inList ? this : this.with(this.prefix, { kind, inList })
  }
  /** Returns a copy of this unknown part with this prefix and with the details in `more`. */
  with(prefix: string | null, more: Partial<HoleDetails>): Hole {
    const { after, from, isWhole, inList, kind } = this
    return new Hole(prefix, { after, from, isWhole, inList, kind, ...more })
  }
  /** The known pieces, with one `gap` for each unknown part between two pieces. */
  get outline(): string {
    return (this.#outline ??= this.pieces.join(gap))
  }
  /** The text has at least this many characters. */
  get leastLength(): number {
    return this.pieces.reduce((length, piece) => length + piece.length, 0)
  }
  /** Returns whether the unknown part may turn out to be this text. A wrong answer is always true, never false. */
  mayBecome(text: string, budget: Budget): boolean {
    const { prefix, after } = this
    if (prefix === null) return true
    if (!text.startsWith(prefix) || !text.endsWith(after.at(-1) ?? '')) return false
    budget.spend(1 + (after.length >> 4) + (text.length >> 6))
    let at = prefix.length
    for (const piece of after) {
      const found = text.indexOf(piece, at)
      if (found < 0) return false
      at = found + piece.length
    }
    return true
  }
  /** Whether this part could become a Google link. Computed once for all rules. */
  get mayBecomeLink(): boolean {
    this.#mayBecomeLink ??= couldBecomeGoogleLink(this.prefix ?? '')
    return this.#mayBecomeLink
  }
}
