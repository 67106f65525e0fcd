import { CancellationScope, condition } from '@temporalio/workflow'
import type { SkeletonStep } from '../../contract/messages.ts'
import { badOutcomeOf, endsRun, type BadOutcome } from '../../contract/status.ts'
import type { History, ItemsLeft } from './history.ts'

/** Items of a `for_each` step that are under way at the same time. */
const windowSize = 50

/**
 * Places of a `for_each` step's items. Who waits for a person needs none; who waits for a slot of its run keeps it: no
 * other item could go on either.
 */
export class Window {
  readonly #places = new Set<string>()

  /** For the item of that key, which may have one already, or for another. */
  hasPlace(key?: string): boolean {
    return this.#places.size < windowSize || (key !== undefined && this.#places.has(key))
  }

  enter(key: string): void {
    this.#places.add(key)
  }

  leave(key: string): void {
    this.#places.delete(key)
  }
}

/** What running items asks of the run. */
export interface ItemRunner {
  readonly history: History
  /** Whether the run has room for one more open call. */
  readonly hasRoom: () => boolean
  /** Runs an item to its end; it takes and leaves its place by itself. */
  readonly call: (itemIndex: number, window: Window) => Promise<BadOutcome | null>
}

/**
 * Runs the items that are left, each as soon as there is a place for it; answers what ends the step badly, or null. One
 * that ends the run stops the others as a failing step stops its neighbours.
 */
export async function runItems(
  step: SkeletonStep,
  { count, next, open }: ItemsLeft,
  { history, hasRoom, call }: ItemRunner,
): Promise<BadOutcome | null> {
  const scope = new CancellationScope()
  const window = new Window()
  const bad: [number, BadOutcome][] = []
  const stopped: unknown[] = []
  const item = async (index: number): Promise<void> => {
    const outcome = await call(index, window)
    history.itemEnded(step.id, index)
    if (outcome === null) return
    bad.push([index, outcome])
    if (!endsRun(outcome, step.continueOnError)) return
    history.ends()
    scope.cancel()
  }
  const mayBegin = () => history.isOpen && hasRoom() && window.hasPlace()
  const running: Promise<unknown>[] = []
  const begin = (index: number) => running.push(item(index).catch((error: unknown) => stopped.push(error)))
  const all = async (): Promise<void> => {
    for (const index of open) begin(index)
    for (let index = next; index < count; index += 1) {
      while (!mayBegin()) await condition(mayBegin)
      history.itemBegins(step.id, index)
      begin(index)
    }
  }
  await scope.run(all).catch((error: unknown) => stopped.push(error))
  await Promise.all(running)
  const outcome = badOutcomeOf(
    bad.toSorted(([a], [b]) => a - b).map(([, each]) => each),
    step.continueOnError,
  )
  if (stopped.length > 0 && (outcome === null || !endsRun(outcome, step.continueOnError))) throw stopped[0]
  return outcome
}
