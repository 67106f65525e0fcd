import type { Mismatch } from './verify-entry.ts'

/** Milliseconds between two log lines about the same chain. */
const alarmEvery = 60_000
/** With more chains than this in alarm, the other ones are only logged. */
const mostAlarmed = 10_000

export type AlarmSource = 'end' | 'verify'

export interface AlarmsOptions {
  /** Is called at most once a minute for each chain. */
  readonly onAlarm: (organizationId: string, problem: string) => void
  readonly clock?: () => number
}

/** A chain is in alarm until a check finds it right again. */
export class AuditAlarms {
  readonly #options: AlarmsOptions
  readonly #clock: () => number
  /** When a line was logged, by organization and source. */
  readonly #loggedAt = new Map<string, number>()

  constructor(options: AlarmsOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  raise(organizationId: string, source: AlarmSource, problem: string): void {
    const key = keyOf(organizationId, source)
    const now = this.#clock()
    if (now - (this.#loggedAt.get(key) ?? -Infinity) < alarmEvery) return
    if (this.#loggedAt.size < mostAlarmed || this.#loggedAt.has(key)) this.#loggedAt.set(key, now)
    this.#options.onAlarm(organizationId, problem)
  }

  /** A valid verification ends both alarms, because it also compares the end. */
  settle(organizationId: string, source: AlarmSource): void {
    this.#loggedAt.delete(keyOf(organizationId, 'end'))
    if (source === 'verify') this.#loggedAt.delete(keyOf(organizationId, 'verify'))
  }

  verified(organizationId: string, mismatch: Mismatch | null): void {
    if (mismatch === null) return this.settle(organizationId, 'verify')
    const { seq, reason, expected, found } = mismatch
    const source = reason === 'checkpoint' ? 'end' : 'verify'
    this.raise(organizationId, source, `entry ${seq} (${reason}): expected ${expected}, found ${found}`)
  }

  has(organizationId: string): boolean {
    return this.#loggedAt.has(keyOf(organizationId, 'end'))
  }

  /** At most `most` of the chains whose end was wrong. The next call begins with the others. */
  wrongEnds(most: number): readonly string[] {
    const some = [...this.#loggedAt].filter(([key]) => key.endsWith(' end')).slice(0, most)
    for (const [key, at] of some) {
      this.#loggedAt.delete(key)
      this.#loggedAt.set(key, at)
    }
    return some.map(([key]) => key.slice(0, -' end'.length))
  }

  get any(): boolean {
    return this.#loggedAt.size > 0
  }

  get count(): number {
    return new Set([...this.#loggedAt.keys()].map((key) => key.split(' ')[0])).size
  }
}

const keyOf = (organizationId: string, source: AlarmSource): string => `${organizationId} ${source}`
