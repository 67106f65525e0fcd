import { Hole } from './values.ts'

/** Maximum number of references that explanations can name for one text with unknown parts. */
const mostNames = 100

/** A text that is put together from known and unknown pieces. */
export class TextPieces {
  /** The first piece is the beginning of the text. */
  readonly #before: string[] = []
  #last = ''
  readonly #from = new Set<string>()
  add(piece: string | Hole): void {
    if (typeof piece === 'string') {
      this.#last += piece
      return
    }
    this.#last += piece.prefix ?? ''
    for (const each of piece.after) {
      if (this.#before.length === 0 || this.#last !== '') this.#before.push(this.#last)
      this.#last = each
    }
    for (const name of piece.from) if (this.#from.size < mostNames) this.#from.add(name)
  }
  joined(): string | Hole {
    const [prefix, ...after] = this.#before
    if (prefix === undefined) return this.#last
    return new Hole(prefix, { after: [...after, this.#last], from: [...this.#from] })
  }
}
