import { CancellationScope, workflowInfo } from '@temporalio/workflow'
import type { Carried, CarriedItems, WaitReason } from '../../contract/messages.ts'
import type { Turns } from './turns.ts'
import type { WaitingCalls } from './waiting-calls.ts'

/**
 * The unit is events. The server may suggest a new history earlier. A worker must replay the whole history
 * within the 10 s of a workflow task, at about half a millisecond for one event.
 */
const longEnough = 1_500
/**
 * While calls are in flight, a run cannot leave its history. No further call starts when the history has
 * `patience` times the length at which it became long enough (`#longSince`).
 */
const patience = 2

interface Length {
  readonly events: number
  readonly isLong: boolean
}

export type ItemsLeft = CarriedItems
interface ItemsUnderWay {
  readonly count: number
  next: number
  readonly open: Set<number>
}

/**
 * Decides when the run continues in a new Temporal history (continue-as-new).
 *
 * A history ends only while no call is in flight. A call that waits for a person, a slot, other steps or a
 * place (items.ts) is not in flight. Once the history is long enough, the run leaves it at the first such
 * moment. If branches overlap, such a moment may not come for a long time. So when the history has become
 * `patience` times as long, no call starts until all calls in flight have ended. A run that is ending does
 * not continue in a new history.
 *
 * In a replay, the history may seem longer than it was (docs/decisions/0278). A workflow task that recorded
 * nothing, and was followed at once by another because local activities were in flight, is left out. What
 * came in it then comes with the length of a later task. So a local activity starts by the length at which
 * the run last recorded something. An ordinary call starts by the present length, because its start is
 * recorded. By this length the run also leaves its history, because after a task without a call in flight no
 * other follows at once.
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

  /** The history does not end meanwhile. */
  async inFlight<T>(work: () => Promise<T>): Promise<T> {
    this.#inFlight += 1
    try {
      return await work()
    } finally {
      this.#inFlight -= 1
    }
  }

  /** Waits for its turn (turns.ts). */
  async local<T>(activity: () => Promise<T>): Promise<T> {
    try {
      return await this.#turns.after(activity)
    } finally {
      this.records()
    }
  }

  /** Call this whenever the present workflow task surely records something, e.g. an ordinary call. */
  records(): void {
    this.#recorded = presentLength()
    if (this.#recorded.isLong) this.#longSince ??= this.#recorded.events
  }

  /** False while the run is about to continue in a new history. `isLocal`: it begins as a local activity. */
  isOpen(isLocal: boolean): boolean {
    return !this.#closes(isLocal ? this.#recorded : presentLength())
  }

  /** Waits until a call may start and `hasPlace` returns true. */
  async start<T>(work: () => Promise<T>, isLocal = true, hasPlace: () => boolean = () => true): Promise<T> {
    const mayStart = () => this.isOpen(isLocal) && hasPlace()
    while (!mayStart()) await this.#turns.until(mayStart)
    return this.inFlight(work)
  }

  /** Resolves when the run must continue in a new Temporal history. */
  async left(): Promise<Carried> {
    // A cancellation must not end this wait. Otherwise the workflow would close before `execute` has waited
    // for the calls in flight. After the wait, the run goes on with what has arrived in the same workflow
    // task. This may start a local activity or be a cancellation, so the condition is checked again.
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

  /** Such a run does not continue in a new Temporal history. */
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

  /** The step was expanded in an earlier Temporal history of the run. */
  itemsLeft(stepId: string): ItemsLeft | undefined {
    const items = this.#items.get(stepId)
    return items && { ...items, open: [...items.open] }
  }

  /** None of its items has begun. */
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

  /** The call was waiting when the earlier Temporal history ended. Each reason is returned only once. */
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
