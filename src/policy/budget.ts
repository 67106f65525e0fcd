/** Comparisons of one evaluation; reads of rules and labels count. A call that needs more is denied. */
export const comparisonBudget = 200_000

/** Comparisons for a whole plan. Steps for which nothing is left are decided during the run. */
export const planBudget = 1_000_000

export class BudgetExceeded extends Error {
  override readonly name = 'BudgetExceeded'
}

/** Both fields are empty if the text is no host. */
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
  /** Throws BudgetExceeded if the budget is then overdrawn. */
  spend(comparisons: number): void {
    this.#left -= comparisons
    if (this.#left < 0) throw new BudgetExceeded('the call is too large to evaluate')
  }
  /** Negative if the budget is overdrawn. */
  get left(): number {
    return this.#left
  }
  get isUsedUp(): boolean {
    return this.#left < 0
  }
  /** Like `spend`, but false instead of throwing. */
  affords(comparisons: number): boolean {
    this.#left -= comparisons
    return this.#left >= 0
  }
  /** One comparison, and one more for every 1,024 characters. */
  spendOnText(text: string | number | boolean): void {
    this.spend(typeof text === 'string' ? 1 + (text.length >> 10) : 1)
  }
  /** `read` is called once a text. Each call spends for the text, and `read` for its own work. */
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
  /** All calls with the same `name` must `make` the same type. Spends nothing itself. */
  onceFor<T>(object: object, name: string, make: () => T): T {
    let kept = this.#kept.get(object)
    if (kept === undefined) this.#kept.set(object, (kept = new Map()))
    if (!kept.has(name)) kept.set(name, make())
    return kept.get(name) as T
  }
}

type Reader<T> = (text: string, budget: Budget) => readonly T[]

export const longestText = 4096

/** Also spends for the length of the text. Wrap once per module: a budget keeps results for each wrapped function. */
export const priced =
  <T>(read: (text: string) => T) =>
  (text: string, budget: Budget): readonly T[] => {
    budget.spend(Math.min(text.length, longestText) >> 2)
    return [read(text)]
  }
