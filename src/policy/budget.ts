/** Comparisons one evaluation may make; a call that needs more is denied (bounded time is part of the decision). */
export const comparisonBudget = 200_000

export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded'
}

/** Counts down the comparisons of one evaluation. */
export class Budget {
  #left: number
  constructor(comparisons: number = comparisonBudget) {
    this.#left = comparisons
  }
  /** Throws BudgetExceeded once more has been spent than there was. */
  spend(comparisons: number): void {
    this.#left -= comparisons
    if (this.#left < 0) throw new BudgetExceeded('the call is too large to evaluate')
  }
  /** Long text costs as much as the many short ones it could be. */
  spendOnText(text: string | number | boolean): void {
    this.spend(typeof text === 'string' ? 1 + (text.length >> 10) : 1)
  }
}
