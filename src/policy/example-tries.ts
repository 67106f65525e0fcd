import { Budget } from './budget.ts'
import { decide, type Call, type CompiledPolicy, type Decided } from './decide.ts'

/**
 * One try makes at most this many comparisons. A decision on a real call may make ten times as many, but many tries
 * follow each other. So the thread can work for other requests soon.
 */
export const mostOfTry = 20_000

/** Decides calls that are only tried, and limits the comparisons of each try and of all tries together. */
export class Tries {
  #comparisons: number
  #calls: number
  constructor(comparisons = Infinity, calls = Infinity) {
    this.#comparisons = comparisons
    this.#calls = calls
  }
  /** Whether no further call can be tried. */
  get areUsedUp(): boolean {
    return this.#comparisons <= 0 || this.#calls <= 0
  }
  /** Returns the decision of `decide`. Returns null if it needs more comparisons than are left. */
  decide(policy: CompiledPolicy, call: Call): Decided | null {
    const most = Math.min(this.#comparisons, mostOfTry)
    const budget = new Budget(most)
    const decided = decide(policy, call, budget)
    this.#comparisons -= most - budget.left
    this.#calls -= 1
    return budget.isUsedUp ? null : decided
  }
}
