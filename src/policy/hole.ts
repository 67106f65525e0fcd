import type { Budget } from './budget.ts'
import { couldBecomeGoogleLink } from './readers/google-links.ts'
import type { PlaceKind } from './readers/places.ts'

/** Stands for an unknown part in `Hole.outline`. No reader takes it for a part of a host or for the end of one. */
const gap = '\0'

/** The pieces after an unknown part if the text ends with this part: one empty piece. */
const noPieces: readonly string[] = ['']

type HoleDetails = Pick<Hole, 'after' | 'from' | 'isWhole' | 'inList' | 'kind'>

/**
 * An unknown part of a parameter. `prefix`: the part is a text that starts with this prefix. Without a prefix, the part
 * can be any value, or be absent.
 */
export class Hole {
  readonly prefix: string | null
  /**
   * The known pieces of the text behind its first unknown part, in their order. The last piece is the end of the text.
   * It is empty if the text ends with an unknown part.
   */
  readonly after: readonly string[]
  /** The prefix and the later pieces. */
  readonly pieces: readonly string[]
  /** The template references whose values are unknown, without their braces. Explanations show them. */
  readonly from: readonly string[]
  /** True if the part is the value of one reference. False if it is a text that contains this value. */
  readonly isWhole: boolean
  /** Whether the part is an element of a list. */
  readonly inList: boolean
  /**
   * The kind of place that the parameter names, e.g. a repository. null: the parameter names no place, or the kind is
   * not known yet.
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
  /** Returns the same unknown part, in a list or in a parameter that names a place of this kind. */
  in(kind: PlaceKind | null, inList: boolean): Hole {
    return kind === null && !inList ? this : this.with(this.prefix, { kind, inList })
  }
  /** Returns the same unknown part with another prefix and other details. */
  with(prefix: string | null, more: Partial<HoleDetails>): Hole {
    const { after, from, isWhole, inList, kind } = this
    return new Hole(prefix, { after, from, isWhole, inList, kind, ...more })
  }
  /** The known pieces with a sign for each unknown part between them. */
  get outline(): string {
    return (this.#outline ??= this.pieces.join(gap))
  }
  /** The text has at least this many characters. */
  get leastLength(): number {
    return this.pieces.reduce((length, piece) => length + piece.length, 0)
  }
  /** Whether this part may become the text. The answer may be wrongly true, and never wrongly false. */
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
