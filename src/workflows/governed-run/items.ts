import { CancellationScope } from '@temporalio/workflow'
import type { SkeletonStep } from '../../contract/messages.ts'
import { badOutcomeOf, endsRun, type BadOutcome } from '../../contract/status.ts'
import type { History, ItemsLeft } from './history.ts'
import type { Turns } from './turns.ts'

/** Used if the input of the run has no `itemsAtOnce` for the step. */
const windowSize = 50

/**
 * Each item in progress has a place. An item that waits for a person needs none, unless the step says so
 * (`keepsPlace`). One that waits for a slot of its run keeps its place, since without a slot no other item could
 * continue.
 */
export class Window {
  readonly #places = new Set<string>()
  readonly #size: number

  constructor(size = windowSize) {
    this.#size = size
  }

  /** Whether the item has a place or can get one. Without a key, this is about a new item. */
  hasPlace(key?: string): boolean {
    return this.#places.size < this.#size || (key !== undefined && this.#places.has(key))
  }

  enter(key: string): void {
    this.#places.add(key)
  }

  leave(key: string): void {
    this.#places.delete(key)
  }
}

export interface ItemRunner {
  readonly history: History
  readonly turns: Turns
  /** Returns whether the run may have one more open call. */
  readonly hasRoom: () => boolean
  /** The item has a place in `window` until it ends. */
  readonly call: (itemIndex: number, window: Window) => Promise<BadOutcome | null>
}

/** An item begins when it can have a place and `hasRoom`. An item that ends the run cancels the others. */
export async function runItems(
  step: SkeletonStep,
  { count, next, open }: ItemsLeft,
  { history, turns, hasRoom, call }: ItemRunner,
): Promise<BadOutcome | null> {
  const scope = new CancellationScope()
  const window = new Window(step.itemsAtOnce)
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
  const mayBegin = () => history.isOpen(step.quick === true) && hasRoom() && window.hasPlace()
  const running: Promise<unknown>[] = []
  const begin = (index: number) => running.push(item(index).catch((error: unknown) => stopped.push(error)))
  const all = async (): Promise<void> => {
    for (const index of open) begin(index)
    for (let index = next; index < count; index += 1) {
      while (!mayBegin()) await turns.until(mayBegin)
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
