/** What one organization keeps in this process. */
export interface Keepable {
  /** Whether nothing goes on in it: only then can it be forgotten. */
  readonly idle: boolean
  /** About. */
  readonly bytes: number
}

/** Lanes by organization. Beyond so many, or so many bytes, the idle ones that were used longest ago are forgotten. */
export class KeptLanes<Lane extends Keepable> {
  readonly #limits: { readonly count: number; readonly bytes: number }
  readonly #lanes = new Map<string, Lane>()

  constructor(limits: { readonly count: number; readonly bytes: number }) {
    this.#limits = limits
  }

  get size(): number {
    return this.#lanes.size
  }

  /** The organization's lane, made anew when it has none or was forgotten. */
  of(organizationId: string, make: () => Lane): Lane {
    const known = this.#lanes.get(organizationId)
    if (known === undefined) this.#trim(this.#limits.count - 1)
    else this.#lanes.delete(organizationId)
    const lane = known ?? make()
    this.#lanes.set(organizationId, lane)
    return lane
  }

  /** Makes room. To be called when a lane has grown. */
  trim(): void {
    this.#trim(this.#limits.count)
  }

  #trim(mostLanes: number): void {
    let bytes = 0
    for (const lane of this.#lanes.values()) bytes += lane.bytes
    for (const [id, lane] of this.#lanes) {
      if (this.#lanes.size <= mostLanes && bytes <= this.#limits.bytes) return
      if (!lane.idle) continue
      this.#lanes.delete(id)
      bytes -= lane.bytes
    }
  }
}
