import { CancellationScope, sleep, Trigger } from '@temporalio/workflow'
import { slotKey, type Waiting, type Wake } from '../../contract/messages.ts'
import { nameOf } from './shown.ts'

/** Wake-ups that had come for a call at some moment. */
export interface Seen {
  readonly own: number
  readonly slot: number
}
/** For a call that an earlier history left waiting: whatever comes is new to it. */
export const nothing: Seen = { own: 0, slot: 0 }

interface Wait {
  readonly key: string
  readonly call: Waiting
  /** When to ask again although nobody woke it; milliseconds since 1970. */
  readonly until: number
  readonly over: Trigger<void>
  isOver: boolean
}

/**
 * What a run's calls wait for, the wake-ups that come for them, and the run's one timer: it stands at the first deadline
 * among them all. A timer for each would be an event for each at the beginning of every new history.
 */
export class Waits {
  readonly #run = CancellationScope.current()
  readonly #changed: () => void
  readonly #wakes = new Map<string, number>()
  #wakesOfAll = 0
  readonly #waiting = new Map<string, Wait>()
  #timer: { readonly at: number; readonly scope: CancellationScope } | null = null
  /** `changed` is called whenever `calls` has changed. */
  constructor(changed: () => void) {
    this.#changed = changed
  }

  wake(message: Wake | undefined): void {
    const key = message?.key
    if (key === undefined) {
      this.#wakesOfAll += 1
      this.#end(() => true)
      return
    }
    for (const each of [key].flat()) {
      this.#wakes.set(each, (this.#wakes.get(each) ?? 0) + 1)
      if (each === slotKey) this.#end(({ call }) => call.kind === 'slot')
      else this.#endOne(this.#waiting.get(each))
    }
  }

  seen(key: string): Seen {
    const count = (of: string) => this.#wakesOfAll + (this.#wakes.get(of) ?? 0)
    return { own: count(key), slot: count(slotKey) }
  }

  /** Until a wake-up that came after those `seen`, or the call's deadline. */
  async until(key: string, call: Waiting, seen: Seen): Promise<void> {
    const now = this.seen(key)
    if (now.own > seen.own || (call.kind === 'slot' && now.slot > seen.slot)) return
    // No `condition`: of all that wait each would be looked at whenever anything happens.
    const wait: Wait = { key, call, until: untilOf(call), over: new Trigger(), isOver: false }
    this.#waiting.set(key, wait)
    this.#changed()
    if (wait.until < (this.#timer?.at ?? Infinity)) this.#setTimer(wait)
    try {
      await wait.over
    } finally {
      this.#waiting.delete(key)
      if (this.#waiting.size === 0) this.#setTimer(null)
    }
    this.#changed()
  }

  /** Waiting calls by wake key, in the order in which they began to wait. */
  calls(): [string, Waiting][] {
    return [...this.#waiting.values()].map(({ key, call }) => [key, call])
  }

  /** Those that nothing has come for yet. */
  unwoken(): [string, Waiting][] {
    return [...this.#waiting.values()].flatMap(({ key, call, isOver }): [string, Waiting][] =>
      isOver ? [] : [[key, call]],
    )
  }

  #end(which: (wait: Wait) => boolean): void {
    for (const wait of this.#waiting.values()) if (which(wait)) this.#endOne(wait)
  }

  #endOne(wait: Wait | undefined): void {
    if (wait === undefined) return
    wait.isOver = true
    wait.over.resolve()
  }

  /** The timer stands at or before the first deadline: one that comes too early is set again for the next. */
  #setTimer(first: Wait | null): void {
    this.#timer?.scope.cancel()
    this.#timer = null
    if (first === null || first.until === Infinity) return
    const { until: at, key, call } = first
    const timer = { at, scope: new CancellationScope({ cancellable: true, parent: this.#run }) }
    this.#timer = timer
    const rings = timer.scope.run(() =>
      sleep(Math.max(1, at - Date.now()), { summary: `${nameOf(key, call)}: until it expires` }),
    )
    rings.then(
      () => {
        this.#end(({ until }) => until <= Math.max(at, Date.now()))
        if (this.#timer === timer) this.#setTimer(this.#next())
      },
      () => undefined,
    )
  }

  #next(): Wait | null {
    let first: Wait | null = null
    for (const wait of this.#waiting.values())
      if (!wait.isOver && wait.until < (first?.until ?? Infinity)) first = wait
    return first
  }
}

/** The database's clock decides whether it is over: a moment later, and at least in a second, is soon enough. */
function untilOf({ expiresAt }: Waiting): number {
  if (expiresAt === null) return Infinity
  return Math.max(Date.now() + 1_000, Date.parse(expiresAt) + 100)
}
