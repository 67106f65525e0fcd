/** After `keep`, the reservation is for the loaded value, until `release`. */
export interface Permit {
  /** `bytes` of the reserved memory stay reserved until `release`. */
  keep(bytes: number): void
  release(): void
}

interface QueuedLoad {
  readonly bytes: number
  readonly alone: boolean
  readonly admit: () => void
}

interface Organization {
  /** Bytes reserved for the organization's loads, and for loaded values that stay in use. */
  held: number
  readonly waiting: QueuedLoad[]
}

/**
 * Divides `total` bytes for loads between organizations, which take turns.
 * - A load of more than `total` bytes waits until no other load is in progress.
 * - One organization takes at most half. A larger load waits until the organization holds nothing else.
 * - An organization that waits for the memory of others comes next. One that waits for its own half is
 *   skipped.
 * - A load with `alone` runs only while no other load runs.
 * - The holder of a permit never asks the same budget for a second one, so every load is admitted in the end.
 */
export class LoadBudget {
  readonly #total: number
  /** In the order of their turns. */
  readonly #organizations = new Map<string, Organization>()
  #loads = 0
  /** Loaded values that stay in use do not count. */
  #bytes = 0
  #alone = false

  constructor(total: number) {
    this.#total = total
  }

  /** Rejects with the signal's reason if the signal is aborted. */
  async acquire(
    organizationId: string,
    bytes: number,
    options: { readonly alone: boolean; readonly signal: AbortSignal },
  ): Promise<Permit> {
    const { alone, signal } = options
    signal.throwIfAborted()
    const organization = this.#organizations.get(organizationId) ?? { held: 0, waiting: [] }
    // An organization without a waiting load comes after all others.
    if (organization.waiting.length === 0) this.#organizations.delete(organizationId)
    this.#organizations.set(organizationId, organization)
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        organization.waiting.splice(organization.waiting.indexOf(entry), 1)
        this.#admit()
        reject(signal.reason as Error)
      }
      const admit = (): void => {
        signal.removeEventListener('abort', onAbort)
        resolve(this.#permit(organization, bytes, alone))
      }
      const entry: QueuedLoad = { bytes, alone, admit }
      organization.waiting.push(entry)
      signal.addEventListener('abort', onAbort, { once: true })
      this.#admit()
    })
  }

  #permit(organization: Organization, bytes: number, alone: boolean): Permit {
    this.#loads += 1
    this.#bytes += bytes
    this.#alone = alone
    organization.held += bytes
    let [isLoading, kept] = [true, bytes]
    const keep = (left: number): void => {
      if (isLoading) {
        isLoading = false
        this.#loads -= 1
        this.#bytes -= bytes
        if (alone) this.#alone = false
      }
      organization.held -= kept - left
      kept = left
      this.#admit()
    }
    return { keep: (left) => keep(Math.min(left, kept)), release: () => keep(0) }
  }

  #admit(): void {
    for (;;) {
      const next = this.#next()
      if (next === null) break
      const [id, organization] = next
      // The next turn of this organization comes after all others.
      this.#organizations.delete(id)
      this.#organizations.set(id, organization)
      organization.waiting.shift()?.admit()
    }
    for (const [id, { held, waiting }] of this.#organizations)
      if (held === 0 && waiting.length === 0) this.#organizations.delete(id)
  }

  #next(): [string, Organization] | null {
    if (this.#alone) return null
    for (const entry of this.#organizations) {
      const [, { held, waiting }] = entry
      const [first] = waiting
      if (first === undefined) continue
      if (held > 0 && held + first.bytes > this.#total / 2) continue
      const hasRoom = this.#loads === 0 || (!first.alone && this.#bytes + first.bytes <= this.#total)
      return hasRoom ? entry : null
    }
    return null
  }
}
