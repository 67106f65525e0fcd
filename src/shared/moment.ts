/** A moment in this process, measured with two clocks. Both values are in milliseconds. */
export interface Moment {
  /** `performance.now()` */
  readonly steady: number
  /** `Date.now()` */
  readonly wall: number
}

export const presentMoment = (): Moment => ({ steady: performance.now(), wall: Date.now() })

/**
 * Returns the milliseconds since a moment. Each clock can give too small a result: the steady clock may stop while the
 * machine is suspended, and the wall clock may be set back. So the larger result is returned.
 */
export const millisecondsSince = ({ steady, wall }: Moment): number =>
  Math.max(performance.now() - steady, Date.now() - wall)
