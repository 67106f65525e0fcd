import { CancellationScope, sleep, Trigger } from '@temporalio/workflow'
import { slotKey, type WaitReason, type Wake } from '../../contract/messages.ts'
import { nameOf } from './operator-view.ts'

/**
 * `own` counts the wake-ups for one call, and `slot` those for a slot of the run. One for the whole run
 * counts in both.
 */
export interface WakeCounts {
  readonly own: number
  readonly slot: number
}
/** The call already waited in an earlier Temporal history, so each wake-up in this one is new. */
export const noWakeUps: WakeCounts = { own: 0, slot: 0 }

interface WaitingCall {
  readonly key: string
  readonly call: WaitReason
  /** When the call is tried again without a wake-up, in milliseconds since 1970. */
  readonly until: number
  readonly over: Trigger<void>
  isOver: boolean
}

/**
 * All calls share one timer, set to the first deadline. Otherwise every new history would get one event per
 * call.
 */
export class WaitingCalls {
  readonly #run = CancellationScope.current()
  readonly #changed: () => void
  readonly #wakes = new Map<string, number>()
  #wakesOfAll = 0
  readonly #waiting = new Map<string, WaitingCall>()
  #timer: { readonly at: number; readonly scope: CancellationScope } | null = null
  /** `changed` is called whenever the result of `calls` has changed. */
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

  wakeCounts(key: string): WakeCounts {
    const count = (each: string) => this.#wakesOfAll + (this.#wakes.get(each) ?? 0)
    return { own: count(key), slot: count(slotKey) }
  }

  /** Resolves after a wake-up that is not yet counted in `seen`, or at the deadline. */
  async until(key: string, call: WaitReason, seen: WakeCounts): Promise<void> {
    const now = this.wakeCounts(key)
    if (now.own > seen.own || (call.kind === 'slot' && now.slot > seen.slot)) return
    // A Trigger is used, because Temporal would evaluate a `condition` for every waiting call after every event.
    const wait: WaitingCall = { key, call, until: untilOf(call), over: new Trigger(), isOver: false }
    this.#waiting.set(key, wait)
    this.#changed()
    // If the deadline has passed, the database's clock is behind, so the call is not tried again at once.
    if (wait.until < (this.#timer?.at ?? Infinity)) this.#setTimer(wait, 1_000)
    try {
      await wait.over
    } finally {
      this.#waiting.delete(key)
      if (this.#waiting.size === 0) this.#setTimer(null)
    }
    this.#changed()
  }

  /** The keys are wake keys. The order is the one in which the calls began to wait. */
  calls(): [string, WaitReason][] {
    return [...this.#waiting.values()].map(({ key, call }) => [key, call])
  }

  /** These calls have had no wake-up, and their deadline has not passed. */
  unwoken(): [string, WaitReason][] {
    return [...this.#waiting.values()].flatMap(({ key, call, isOver }): [string, WaitReason][] =>
      isOver ? [] : [[key, call]],
    )
  }

  #end(which: (wait: WaitingCall) => boolean): void {
    for (const wait of this.#waiting.values()) if (which(wait)) this.#endOne(wait)
  }

  #endOne(wait: WaitingCall | undefined): void {
    if (wait === undefined) return
    wait.isOver = true
    wait.over.resolve()
  }

  /**
   * Without `first`, only stops the timer. If the call of `first` ends early, the timer fires too early and
   * is set again. The present time only decides how long it takes, at least `least` milliseconds. It must not
   * decide whether there is a timer, or which calls it ends: in a replay it may be later
   * (docs/decisions/0277).
   */
  #setTimer(first: WaitingCall | null, least = 1): void {
    this.#timer?.scope.cancel()
    this.#timer = null
    if (first === null || first.until === Infinity) return
    const { until: at, key, call } = first
    const timer = { at, scope: new CancellationScope({ cancellable: true, parent: this.#run }) }
    this.#timer = timer
    const rings = timer.scope.run(() =>
      sleep(Math.max(least, at - Date.now()), {
        summary: `${nameOf(key, call)}: ${call.kind === 'time' ? 'until it comes' : 'until it expires'}`,
      }),
    )
    rings.then(
      () => {
        this.#end(({ until }) => until <= at)
        if (this.#timer === timer) this.#setTimer(this.#next())
      },
      () => undefined,
    )
  }

  #next(): WaitingCall | null {
    let first: WaitingCall | null = null
    for (const wait of this.#waiting.values())
      if (!wait.isOver && wait.until < (first?.until ?? Infinity)) first = wait
    return first
  }
}

/**
 * The database's clock decides about expiry, so the run asks slightly later. A full second, so that one timer
 * is enough for all calls that expire within it.
 */
function untilOf({ expiresAt }: WaitReason): number {
  if (expiresAt === null) return Infinity
  return Math.ceil((Date.parse(expiresAt) + 100) / 1_000) * 1_000
}
