/** `steady` is `performance.now()`, `wall` is `Date.now()`. */
export interface Moment {
  readonly steady: number
  readonly wall: number
}

export const presentMoment = (): Moment => ({ steady: performance.now(), wall: Date.now() })

/** The larger result: the steady clock may stop while the machine is suspended, and the wall clock may be set back. */
export const millisecondsSince = ({ steady, wall }: Moment): number =>
  Math.max(performance.now() - steady, Date.now() - wall)
