import { CancellationScope, workflowInfo } from '@temporalio/workflow'
import type { Carried, CarriedItems, WaitReason } from '../../contract/messages.ts'
import type { Turns } from './turns.ts'
import type { WaitingCalls } from './waiting-calls.ts'

/**
 * After this number of events, a run continues in a new Temporal history. The server may suggest to continue earlier. A
 * worker that does not have the run in its memory must replay the whole history. For this, it has the 10 s of a
 * workflow task. The replay of one event takes about half a millisecond.
 */
const longEnough = 1_500
/**
 * While calls are in flight, a run cannot leave its Temporal history, so the history keeps growing. No further call
 * starts when the history has `patience` times the length at which it became long enough (`#longSince`). Example: a
 * history that became long enough at 1,500 events starts no call from 3,000 events on.
 */
const patience = 2

/** How long a Temporal history is. */
interface Length {
  readonly events: number
  readonly isLong: boolean
}

/** The progress of a `for_each` step. */
export type ItemsLeft = CarriedItems
interface ItemsUnderWay {
  readonly count: number
  next: number
  readonly open: Set<number>
}

/**
 * The progress of a run in its present Temporal history. Decides when the run continues in a new history
 * (continue-as-new).
 *
 * A history ends only while no call is in flight. A call is not in flight while it waits for a person, for a slot, for
 * other steps or for a place among the items of its step (items.ts). Once the history is long enough, the run leaves it
 * at the first moment without a call in flight. If branches overlap, such a moment may not come for a long time. So
 * when the history has become `patience` times as long, no call starts until all calls in flight have ended. A run that
 * is ending does not continue in a new history.
 *
 * In a replay, the history may seem longer than it was (docs/decisions/0278). A workflow task that recorded nothing,
 * and was followed at once by another because local activities were in flight, is left out. What came in this task then
 * comes with the length of a later task. So a local activity starts by the length at which the run last recorded
 * something. An ordinary call starts by the present length, because its start is recorded. By this length the run also
 * leaves its history, because after a task without a call in flight no other follows at once.
 */
export class History {
  readonly #run = CancellationScope.current()
  readonly #ended: Set<string>
  readonly #items = new Map<string, ItemsUnderWay>()
  readonly #carriedWaiting: Map<string, WaitReason>
  readonly #waitingCalls: WaitingCalls
  readonly #turns: Turns
  #inFlight = 0
  #recorded: Length = { events: 0, isLong: false }
  #longSince: number | null = null
  #isEnding = false

  constructor(carried: Carried | undefined, waitingCalls: WaitingCalls, turns: Turns) {
    this.#waitingCalls = waitingCalls
    this.#turns = turns
    this.#ended = new Set(carried?.ended)
    this.#carriedWaiting = new Map(Object.entries(carried?.waiting ?? {}))
    for (const [id, { count, next, open }] of Object.entries(carried?.items ?? {}))
      this.#items.set(id, { count, next, open: new Set(open) })
  }

  /** Does `work` and counts it as in flight, so that the history does not end meanwhile. */
  async inFlight<T>(work: () => Promise<T>): Promise<T> {
    this.#inFlight += 1
    try {
      return await work()
    } finally {
      this.#inFlight -= 1
    }
  }

  /** Does a local activity, and waits for its turn (turns.ts). */
  async local<T>(activity: () => Promise<T>): Promise<T> {
    try {
      return await this.#turns.after(activity)
    } finally {
      this.records()
    }
  }

  /** Must be called whenever the present workflow task surely records something, e.g. the start of an ordinary call. */
  records(): void {
    this.#recorded = presentLength()
    if (this.#recorded.isLong) this.#longSince ??= this.#recorded.events
  }

  /**
   * Returns whether a call may start in this history. The value is false while the run is about to continue in a new
   * history. `isLocal` is whether the call begins with a local activity.
   */
  isOpen(isLocal: boolean): boolean {
    return !this.#closes(isLocal ? this.#recorded : presentLength())
  }

  /** Does `work` once a call may start in this history and `hasPlace` returns true. */
  async start<T>(work: () => Promise<T>, isLocal = true, hasPlace: () => boolean = () => true): Promise<T> {
    const mayStart = () => this.isOpen(isLocal) && hasPlace()
    while (!mayStart()) await this.#turns.until(mayStart)
    return this.inFlight(work)
  }

  /** Resolves when the run must continue in a new Temporal history. Returns the progress to carry over. */
  async left(): Promise<Carried> {
    // A cancellation of the run must not end this wait. Otherwise the workflow would close before `execute` has waited
    // for the calls in flight. After the wait, the run first goes on with what has arrived in the same workflow task.
    // Then the condition is checked again, because this may start a local activity, or may be a cancellation.
    do
      await CancellationScope.nonCancellable(async () => {
        await this.#turns.until(() => this.#isDue())
        await this.#turns.turn()
      })
    while (!this.#isDue())
    return {
      ended: [...this.#ended],
      items: Object.fromEntries(
        [...this.#items].map(([id, items]) => [id, { ...items, open: [...items.open] }]),
      ),
      waiting: Object.fromEntries(this.#waitingCalls.unwoken()),
    }
  }

  /** Records that the run is ending. Such a run does not continue in a new Temporal history. */
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

  /**
   * Returns the progress of a `for_each` step that was expanded in an earlier Temporal history of the run. Returns
   * undefined if the step has not been expanded.
   */
  itemsLeft(stepId: string): ItemsLeft | undefined {
    const items = this.#items.get(stepId)
    return items && { ...items, open: [...items.open] }
  }

  /** Records that a step is expanded and none of its items has begun. */
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

  /**
   * Returns why this call was waiting when the earlier Temporal history ended. Returns undefined if the call was not
   * waiting, or if this function was called before for this call.
   */
  takeWaiting(key: string): WaitReason | undefined {
    const call = this.#carriedWaiting.get(key)
    this.#carriedWaiting.delete(key)
    return call
  }

  #closes({ events, isLong }: Length): boolean {
    if (this.#isEnding || !isLong) return false
    return this.#inFlight === 0 || events >= patience * (this.#longSince ?? events)
  }

  #isDue(): boolean {
    return this.#inFlight === 0 && !this.#run.consideredCancelled && this.#closes(presentLength())
  }
}

function presentLength(): Length {
  const { continueAsNewSuggested, historyLength: events } = workflowInfo()
  return { events, isLong: continueAsNewSuggested || events >= longEnough }
}
