import { CancellationScope, sleep, Trigger } from '@temporalio/workflow'
import { slotKey, type WaitReason, type Wake } from '../../contract/messages.ts'
import { nameOf } from './operator-view.ts'

/**
 * Two numbers of wake-ups at one moment. `own` counts the wake-ups for a certain call. `slot` counts the wake-ups for a
 * slot of the run. A wake-up for the whole run counts in both numbers.
 */
export interface WakeCounts {
  readonly own: number
  readonly slot: number
}
/**
 * The counts for a call that already waited in an earlier Temporal history. For such a call, each wake-up in the
 * present history is new.
 */
export const noWakeUps: WakeCounts = { own: 0, slot: 0 }

interface WaitingCall {
  readonly key: string
  readonly call: WaitReason
  /** The time at which the call is tried again if no wake-up comes, in milliseconds since 1970. */
  readonly until: number
  readonly over: Trigger<void>
  isOver: boolean
}

/**
 * The waiting calls of a run and their wake-ups. All calls share one timer, which is set to the first deadline. With
 * one timer per call, every new history would get one more event per call.
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

  /** Resolves after a wake-up that is not yet counted in `seen`, or at the call's deadline. */
  async until(key: string, call: WaitReason, seen: WakeCounts): Promise<void> {
    const now = this.wakeCounts(key)
    if (now.own > seen.own || (call.kind === 'slot' && now.slot > seen.slot)) return
    // A Trigger is used, because Temporal would evaluate a `condition` for every waiting call after every event.
    const wait: WaitingCall = { key, call, until: untilOf(call), over: new Trigger(), isOver: false }
    this.#waiting.set(key, wait)
    this.#changed()
    // If the deadline has passed, the database's clock is behind. So the call is not tried again at once.
    if (wait.until < (this.#timer?.at ?? Infinity)) this.#setTimer(wait, 1_000)
    try {
      await wait.over
    } finally {
      this.#waiting.delete(key)
      if (this.#waiting.size === 0) this.#setTimer(null)
    }
    this.#changed()
  }

  /** Returns the waiting calls with their wake keys, in the order in which the calls began to wait. */
  calls(): [string, WaitReason][] {
    return [...this.#waiting.values()].map(({ key, call }) => [key, call])
  }

  /** Returns the waiting calls that have had no wake-up and whose deadline has not passed. */
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
   * Sets the timer to the deadline of `first`. Without `first`, only stops the timer. The call of `first` may end
   * before its deadline. The timer then fires before the first deadline of the other calls, and is set again.
   *
   * The present time only decides how long the timer takes, at least `least` milliseconds. It must not decide whether
   * there is a timer, or which calls it ends. In a replay the present time may be later, because the SDK then gives the
   * run several results of local activities at the time of the last one (docs/decisions/0277).
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
 * Returns the time at which the run asks again. The database's clock decides whether an approval has expired. So the
 * run asks slightly later than `expiresAt`. The time is a full second, so that one timer is enough for all calls that
 * expire within a second.
 */
function untilOf({ expiresAt }: WaitReason): number {
  if (expiresAt === null) return Infinity
  return Math.ceil((Date.parse(expiresAt) + 100) / 1_000) * 1_000
}
