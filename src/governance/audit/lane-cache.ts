/** One organization's state in this process. */
export interface CachedLane {
  /** Whether no operation is in progress: only an idle lane can be dropped. */
  readonly idle: boolean
  /** Estimated size in memory. */
  readonly bytes: number
}

/**
 * Lanes by organization. Above the limit of lanes, idle lanes are dropped, the least recently used first. Above the
 * limit of bytes, idle lanes are dropped, the largest first.
 */
export class LaneCache<Lane extends CachedLane> {
  readonly #limits: { readonly count: number; readonly bytes: number }
  readonly #lanes = new Map<string, Lane>()
  /** Lanes that are too large and should be dropped, but were busy when their size was measured. */
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

  /** The organization's lane; calls `make` if there is none. */
  laneOf(organizationId: string, make: () => Lane): Lane {
    const known = this.#lanes.get(organizationId)
    if (known === undefined) this.#trim(this.#limits.count - 1)
    else this.#lanes.delete(organizationId)
    const lane = known ?? make()
    this.#lanes.set(organizationId, lane)
    return lane
  }

  /** Drops idle lanes above the limits. Call it when a lane has grown. */
  trim(): void {
    this.#trim(this.#limits.count)
  }

  /** Call it when a lane has nothing more to do. */
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
