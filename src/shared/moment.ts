/** A moment in this process, by two clocks, in milliseconds. */
export interface Moment {
  /** `performance.now()` */
  readonly steady: number
  /** `Date.now()` */
  readonly wall: number
}

export const presentMoment = (): Moment => ({ steady: performance.now(), wall: Date.now() })

/**
 * Returns the milliseconds since a moment: the larger of the results of the two clocks. A result can be too small: the
 * steady clock may stop while the machine is suspended, and the wall clock may be set back.
 */
export const millisecondsSince = ({ steady, wall }: Moment): number =>
  Math.max(performance.now() - steady, Date.now() - wall)
