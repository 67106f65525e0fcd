import type { Json } from './types.ts'

/** Characters that the templates of one value, or of a whole plan under analysis, may come to: 32 MiB. */
export const mostResolvedText = 32 * 1024 * 1024

/** Counts down the text that templates may still make: a reference repeated is a value repeated. */
export class TextRoom {
  #left: number
  constructor(characters: number = mostResolvedText) {
    this.#left = characters
  }
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** False once more has been taken than there was. */
  take(characters: number): boolean {
    this.#left -= characters
    return !this.isUsedUp
  }
  /** Takes about as much as the value is long as JSON; walks it no further than there is room. */
  takeValue(value: Json): boolean {
    const waiting: Json[] = [value]
    for (let each = waiting.pop(); each !== undefined && !this.isUsedUp; each = waiting.pop()) {
      this.take(typeof each === 'string' ? each.length : 1)
      if (typeof each !== 'object' || each === null) continue
      for (const [key, child] of Object.entries(each)) {
        this.take(1 + key.length)
        waiting.push(child)
      }
    }
    return !this.isUsedUp
  }
}
