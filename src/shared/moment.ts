/** A moment in this process, by two clocks, in milliseconds. */
export interface Moment {
  /** `performance.now()` */
  readonly steady: number
  /** `Date.now()` */
  readonly wall: number
}

export const presentMoment = (): Moment => ({ steady: performance.now(), wall: Date.now() })

/**
 * Returns the milliseconds since a moment, by the clock that has run further. The steady clock may stop while the
 * machine is suspended. The wall clock may be set back. So a process that stood still always notices it.
 */
export const millisecondsSince = ({ steady, wall }: Moment): number =>
  Math.max(performance.now() - steady, Date.now() - wall)
