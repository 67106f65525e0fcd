/**
 * One evaluation may make at most this many comparisons. Reads of rules and labels count as comparisons. A call that
 * needs more is denied, so that every decision takes bounded time.
 */
export const comparisonBudget = 200_000

/**
 * The analysis of a whole plan may make at most this many comparisons. Steps for which nothing is left are decided
 * during the run.
 */
export const planBudget = 1_000_000

export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded'
}

/** A host found in a text, and the domains that contain this host. Both fields are empty if the text is no host. */
export interface ReadHost {
  readonly host: string
  readonly domains: readonly string[]
}

/** Counts down the comparisons of one evaluation and caches parsed texts. */
export class Budget {
  #left: number
  readonly #readings = new Map<Reader<unknown>, Map<string, readonly unknown[]>>()
  readonly #kept = new WeakMap<object, Map<string, unknown>>()
  constructor(comparisons: number = comparisonBudget) {
    this.#left = comparisons
  }
  /** Takes comparisons from the budget. Throws BudgetExceeded if the budget is then overdrawn. */
  spend(comparisons: number): void {
    this.#left -= comparisons
    if (this.#left < 0) throw new BudgetExceeded('the call is too large to evaluate')
  }
  /** The number of comparisons that are left. Is negative if the budget is overdrawn. */
  get left(): number {
    return this.#left
  }
  /** Whether the budget is overdrawn. */
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** Like `spend`, but returns false instead of throwing. */
  affords(comparisons: number): boolean {
    this.#left -= comparisons
    return this.#left >= 0
  }
  /** Spends one comparison, and one more for every 1,024 characters of a text. */
  spendOnText(text: string | number | boolean): void {
    this.spend(typeof text === 'string' ? 1 + (text.length >> 10) : 1)
  }
  /**
   * Returns the results of `read` for a text. The results are cached, so `read` is called once for each text, even if
   * many rules and steps need the results. Each call of `once` spends budget for the text. `read` spends budget for its
   * own work.
   */
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
  /**
   * Like `once`, but for an object instead of a text. All calls with the same `name` must pass a `make` that returns
   * the same type. Spends no budget itself.
   */
  onceFor<T>(object: object, name: string, make: () => T): T {
    let kept = this.#kept.get(object)
    if (kept === undefined) this.#kept.set(object, (kept = new Map()))
    if (!kept.has(name)) kept.set(name, make())
    return kept.get(name) as T
  }
}

type Reader<T> = (text: string, budget: Budget) => readonly T[]
