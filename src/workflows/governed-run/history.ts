import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow'
import type { Carried, CarriedItems, Waiting } from '../../contract/messages.ts'

/** How much longer than suggested a history may become while calls are in flight. */
const patience = 2

export type ItemsLeft = Pick<CarriedItems, 'count' | 'first'>
type ItemsUnderWay = ItemsLeft & { readonly ended: Set<number> }

/**
 * What the present history knows, and when it is long enough to go on in a new one (continue-as-new).
 *
 * A history is left only while nothing is in flight: calls that wait for a person, for other steps or for a window do
 * not count. Once the server suggests it, the run leaves at the first such moment. Branches that overlap may have none
 * for long: from twice the suggested length on no further call starts until those in flight have ended. A run that is
 * ending stays where it is.
 */
export class History {
  readonly #run = CancellationScope.current()
  readonly #ended: Set<string>
  readonly #items = new Map<string, ItemsUnderWay>()
  readonly #carriedWaiting: Map<string, Waiting>
  readonly #waiting = new Map<string, { call: Waiting; isWoken: () => boolean }>()
  #inFlight = 0
  #suggestedAt: number | null = null
  #isEnding = false

  constructor(carried: Carried | undefined) {
    this.#ended = new Set(carried?.ended)
    this.#carriedWaiting = new Map(Object.entries(carried?.waiting ?? {}))
    for (const [id, { count, first, ended }] of Object.entries(carried?.items ?? {}))
      this.#items.set(id, { count, first, ended: new Set(ended) })
  }

  /** Does what may not be cut off by leaving. */
  async inFlight<T>(work: () => Promise<T>): Promise<T> {
    this.#inFlight += 1
    try {
      return await work()
    } finally {
      this.#inFlight -= 1
    }
  }

  /** Does `work` in flight once a call may start here: not while the run is about to leave. */
  async start<T>(work: () => Promise<T>): Promise<T> {
    while (this.#closes()) await condition(() => !this.#closes())
    return this.inFlight(work)
  }

  /** Resolves when the run is to go on in a new history, to what it takes along. */
  async left(): Promise<Carried> {
    // The run's own cancellation is no way out of here: `execute` waits for what is in flight, and answers. Looked at
    // again once all that came with the same task is known: a condition is met while a cancellation may stand behind it.
    do await CancellationScope.nonCancellable(() => condition(() => this.#isDue()))
    while (!this.#isDue())
    return {
      ended: [...this.#ended],
      items: Object.fromEntries(
        [...this.#items].map(([id, items]) => [id, { ...items, ended: [...items.ended] }]),
      ),
      waiting: Object.fromEntries(
        [...this.#waiting].filter(([, { isWoken }]) => !isWoken()).map(([key, { call }]) => [key, call]),
      ),
    }
  }

  /** From now on the run only ends. */
  ends(): void {
    this.#isEnding = true
  }

  stepEnded(stepId: string): void {
    this.#items.delete(stepId)
    this.#ended.add(stepId)
  }

  hasEnded(stepId: string): boolean {
    return this.#ended.has(stepId)
  }

  /** Where a `for_each` step that was expanded in an earlier history goes on. */
  itemsLeft(stepId: string): ItemsLeft | undefined {
    const items = this.#items.get(stepId)
    return items && { count: items.count, first: items.first }
  }

  window(stepId: string, count: number, first: number): void {
    if (this.#items.get(stepId)?.first !== first) this.#items.set(stepId, { count, first, ended: new Set() })
  }

  itemEnded(stepId: string, index: number): void {
    this.#items.get(stepId)?.ended.add(index)
  }

  hasItemEnded(stepId: string, index: number): boolean {
    return this.#items.get(stepId)?.ended.has(index) ?? false
  }

  /** What an earlier history left a call waiting for; answered once. */
  takeWaiting(key: string): Waiting | undefined {
    const call = this.#carriedWaiting.get(key)
    this.#carriedWaiting.delete(key)
    return call
  }

  waits(key: string, call: Waiting, isWoken: () => boolean): void {
    this.#waiting.set(key, { call, isWoken })
  }

  waitsNoMore(key: string): void {
    this.#waiting.delete(key)
  }

  #closes(): boolean {
    if (this.#isEnding) return false
    const { continueAsNewSuggested, historyLength } = workflowInfo()
    if (!continueAsNewSuggested) return false
    this.#suggestedAt ??= historyLength
    return this.#inFlight === 0 || historyLength >= patience * this.#suggestedAt
  }

  #isDue(): boolean {
    return this.#closes() && this.#inFlight === 0 && !this.#run.consideredCancelled
  }
}
