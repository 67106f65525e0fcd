/** The state that this process keeps for one organization. */
export interface CachedLane {
  /** True if no operation waits or runs. Only an idle lane can be dropped. */
  readonly idle: boolean
  /** Estimated bytes in memory. */
  readonly bytes: number
}

/**
 * Keeps the lanes of organizations. If there are more than `count` lanes, drops idle lanes. The least recently used
 * lanes are dropped first. If all lanes together take more than `bytes`, drops idle lanes, the largest first.
 */
export class LaneCache<Lane extends CachedLane> {
  readonly #limits: { readonly count: number; readonly bytes: number }
  readonly #lanes = new Map<string, Lane>()
  /** Large lanes that could not be dropped because they were busy. When one of them becomes idle, `trim` runs again. */
  readonly #tooLarge = new Set<Lane>()

  constructor(limits: { readonly count: number; readonly bytes: number }) {
    this.#limits = limits
  }

  get size(): number {
    return this.#lanes.size
  }

  all(): Iterable<Lane> {
    return this.#lanes.values()
  }

  /** Returns the organization's lane. If there is no lane, makes one with `make`. */
  laneOf(organizationId: string, make: () => Lane): Lane {
    const known = this.#lanes.get(organizationId)
    if (known === undefined) this.#trim(this.#limits.count - 1)
    else this.#lanes.delete(organizationId)
    const lane = known ?? make()
    this.#lanes.set(organizationId, lane)
    return lane
  }

  /** Drops idle lanes until both limits are met, as far as possible. Call this method when a lane has grown. */
  trim(): void {
    this.#trim(this.#limits.count)
  }

  /** Call this method when a lane has nothing more to do. If the lane was too large before, it may be dropped now. */
  becameIdle(lane: Lane): void {
    if (this.#tooLarge.delete(lane)) this.trim()
  }

  #trim(mostLanes: number): void {
    for (const [id, lane] of this.#lanes) {
      if (this.#lanes.size <= mostLanes) break
      if (lane.idle) this.#lanes.delete(id)
    }
    let bytes = 0
    for (const lane of this.#lanes.values()) bytes += lane.bytes
    if (bytes <= this.#limits.bytes) return
    for (const [id, lane] of [...this.#lanes].toSorted(([, a], [, b]) => b.bytes - a.bytes)) {
      if (bytes <= this.#limits.bytes) return
      bytes -= lane.bytes
      if (lane.idle) this.#lanes.delete(id)
      else this.#tooLarge.add(lane)
    }
  }
}
