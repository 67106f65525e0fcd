/** Comparisons, and looks at rules and labels, that one evaluation may make; a call that needs more is denied (bounded time is part of the decision). */
export const comparisonBudget = 200_000

/** The same for the analysis of a whole plan; what is left undecided then is left to the run's decisions. */
export const planBudget = 1_000_000

export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded'
}

/** A host that a text may lead to, with the domains it is within; without any when it is none. */
export interface ReadHost {
  readonly host: string
  readonly domains: readonly string[]
}

/** Counts down the comparisons of one evaluation, and remembers what it has read already. */
export class Budget {
  #left: number
  readonly #readings = new Map<Reader<unknown>, Map<string, readonly unknown[]>>()
  constructor(comparisons: number = comparisonBudget) {
    this.#left = comparisons
  }
  /** Throws BudgetExceeded once more has been spent than there was. */
  spend(comparisons: number): void {
    this.#left -= comparisons
    if (this.#left < 0) throw new BudgetExceeded('the call is too large to evaluate')
  }
  /** Whether nothing more can be paid for. */
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** Spends as `spend` does; false where that throws. */
  affords(comparisons: number): boolean {
    this.#left -= comparisons
    return this.#left >= 0
  }
  /** Long text costs as much as the many short ones it could be. */
  spendOnText(text: string | number | boolean): void {
    this.spend(typeof text === 'string' ? 1 + (text.length >> 10) : 1)
  }
  /** Reads a text once in each way, however many rules and steps ask for it; `read` pays for itself. */
  once<T>(text: string, read: Reader<T>): readonly T[] {
    this.spendOnText(text)
    let readings = this.#readings.get(read)
    if (readings === undefined) this.#readings.set(read, (readings = new Map()))
    const known = readings.get(text)
    if (known !== undefined) return known as readonly T[]
    const reading = read(text, this)
    readings.set(text, reading)
    return reading
  }
}

type Reader<T> = (text: string, budget: Budget) => readonly T[]
