import { CancellationScope, condition, workflowInfo } from '@temporalio/workflow'
import type { Carried, CarriedItems, Waiting } from '../../contract/messages.ts'
import type { Waits } from './waits.ts'

/**
 * Events after which the run goes on in a new history, unless the server suggests it earlier. A worker that does not
 * know a run reads the whole history within the 10 s of a workflow task, half a millisecond of processor time an event.
 */
const longEnough = 1_500
/** How many times as long a history may become while calls are in flight. */
const patience = 2

/** Where a `for_each` step stands. */
export type ItemsLeft = CarriedItems
interface ItemsUnderWay {
  readonly count: number
  next: number
  readonly open: Set<number>
}

/**
 * What the present history knows, and when it is long enough to go on in a new one (continue-as-new).
 *
 * A history is left only while nothing is in flight: calls that wait for a person, for a slot, for other steps or for
 * a place do not count. Once it is long enough, the run leaves at the first such moment. Branches that overlap may have
 * none for long: from twice that length on no further call starts until those in flight have ended. A run that is ending
 * stays where it is.
 */
export class History {
  readonly #run = CancellationScope.current()
  readonly #ended: Set<string>
  readonly #items = new Map<string, ItemsUnderWay>()
  readonly #carriedWaiting: Map<string, Waiting>
  readonly #waits: Waits
  #inFlight = 0
  #longSince: number | null = null
  #isEnding = false

  constructor(carried: Carried | undefined, waits: Waits) {
    this.#waits = waits
    this.#ended = new Set(carried?.ended)
    this.#carriedWaiting = new Map(Object.entries(carried?.waiting ?? {}))
    for (const [id, { count, next, open }] of Object.entries(carried?.items ?? {}))
      this.#items.set(id, { count, next, open: new Set(open) })
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

  /** Whether a call may start here: not while the run is about to leave. */
  get isOpen(): boolean {
    return !this.#closes()
  }

  /** Does `work` in flight once a call may start here, and this one has its place. */
  async start<T>(work: () => Promise<T>, hasPlace: () => boolean = () => true): Promise<T> {
    const mayStart = () => this.isOpen && hasPlace()
    while (!mayStart()) await condition(mayStart)
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
        [...this.#items].map(([id, items]) => [id, { ...items, open: [...items.open] }]),
      ),
      waiting: Object.fromEntries(this.#waits.unwoken()),
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
    return items && { ...items, open: [...items.open] }
  }

  /** A step is expanded: none of its items has begun. */
  expanded(stepId: string, count: number): ItemsLeft {
    this.#items.set(stepId, { count, next: 0, open: new Set() })
    return { count, next: 0, open: [] }
  }

  itemBegins(stepId: string, index: number): void {
    const items = this.#items.get(stepId)
    if (items === undefined) return
    items.next = index + 1
    items.open.add(index)
  }

  itemEnded(stepId: string, index: number): void {
    this.#items.get(stepId)?.open.delete(index)
  }

  /** What an earlier history left a call waiting for; answered once. */
  takeWaiting(key: string): Waiting | undefined {
    const call = this.#carriedWaiting.get(key)
    this.#carriedWaiting.delete(key)
    return call
  }

  #closes(): boolean {
    if (this.#isEnding) return false
    const { continueAsNewSuggested, historyLength } = workflowInfo()
    if (!continueAsNewSuggested && historyLength < longEnough) return false
    this.#longSince ??= historyLength
    return this.#inFlight === 0 || historyLength >= patience * this.#longSince
  }

  #isDue(): boolean {
    return this.#closes() && this.#inFlight === 0 && !this.#run.consideredCancelled
  }
}
