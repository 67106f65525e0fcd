/** The work pauses after about this many steps, so that the thread can work for other requests. */
const stepsBetweenPauses = 10_000

export class Steps {
  #left: number
  #sincePause = 0
  constructor(most: number) {
    this.#left = most
  }
  /** Returns false if no step is left. */
  take(steps = 1): boolean {
    this.#left -= steps
    this.#sincePause += steps
    return this.#left >= 0
  }
  get areUsedUp(): boolean {
    return this.#left < 0
  }
  /** If true, the caller must pause. The count for the next pause then begins again. */
  isPauseDue(): boolean {
    if (this.#sincePause < stepsBetweenPauses) return false
    this.#sincePause = 0
    return true
  }
}
