import type { Json } from './types.ts'

/** Characters that the templates of one value, or of a whole plan under analysis, may produce. */
export const mostResolvedText = 32 * 1024 * 1024

/** If a reference occurs twice, its characters count twice. */
export class TextBudget {
  #left: number
  constructor(characters: number = mostResolvedText) {
    this.#left = characters
  }
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** False once more characters have been taken than allowed. */
  take(characters: number): boolean {
    this.#left -= characters
    return !this.isUsedUp
  }
  /** Takes about the length of the value's JSON; false once the budget is used up. */
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
