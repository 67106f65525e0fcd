import { DomainError } from './errors.ts'

/**
 * How many requests of one organization a process works on at once. One thread answers all organizations: what one of
 * them sends beyond its share waits behind its own requests, and not in front of the others'.
 */
export type Size =
  /** Agents' questions: short, and decided together. */
  | 'question'
  | 'small'
  /** With a body that takes long to read. */
  | 'large'
  /** One look of an open stream at what is new. */
  | 'look'

const alone: Readonly<Record<Size, number>> = { question: 512, small: 64, large: 2, look: 32 }
/** While another organization is served, too. */
const shared: Readonly<Record<Size, number>> = { question: 64, small: 6, large: 1, look: 2 }
/** An organization counts as being served for this long after its last request, milliseconds. */
const rememberedMilliseconds = 10_000
/** Requests of one organization and size that wait; the next one is refused. */
const mostWaiting = 1_000

interface Lane {
  working: number
  readonly waiting: (() => void)[]
}

/** Runs `work` in a place of its own. Throws as `enter` does. */
export async function withShare<T>(
  shares: Shares,
  organizationId: string,
  size: Size,
  work: () => Promise<T>,
): Promise<T> {
  const leave = await shares.enter(organizationId, size)
  try {
    return await work()
  } finally {
    leave()
  }
}

/** One request's place in its organization's share. */
export interface Entry {
  /** Resolves when the request may be worked on. Throws as `enter` does. Only the first call waits. */
  admit(size: Size): Promise<void>
  /** Ends the work, before the request waits for something else, too. */
  leave(): void
}

export function createEntry(shares: Shares, organizationId: string): Entry {
  let leave: (() => void) | null = null
  return {
    async admit(size) {
      leave ??= await shares.enter(organizationId, size)
    },
    leave: () => leave?.(),
  }
}

export interface Shares {
  /**
   * Resolves when the request may be worked on, with what ends that; calling it again does nothing. Throws `rate_limited`
   * when too many requests of the organization wait already.
   */
  enter(organizationId: string, size: Size): Promise<() => void>
}

export function createShares(clock: () => number = () => performance.now()): Shares {
  const lanes = new Map<string, Lane>()
  /** When each organization was last served, the latest last. */
  const servedAt = new Map<string, number>()

  const noteServed = (organizationId: string): void => {
    servedAt.delete(organizationId)
    servedAt.set(organizationId, clock())
    for (const [each, at] of servedAt) {
      if (at > clock() - rememberedMilliseconds) break
      servedAt.delete(each)
    }
  }
  const mostOf = (size: Size): number => (servedAt.size > 1 ? shared : alone)[size]

  const leave = (key: string, lane: Lane, size: Size): void => {
    lane.working -= 1
    while (lane.waiting.length > 0 && lane.working < mostOf(size)) {
      lane.working += 1
      lane.waiting.shift()?.()
    }
    if (lane.working === 0) lanes.delete(key)
  }

  return {
    async enter(organizationId, size) {
      noteServed(organizationId)
      const key = `${organizationId}/${size}`
      const lane = lanes.get(key) ?? { working: 0, waiting: [] }
      lanes.set(key, lane)
      if (lane.working < mostOf(size)) lane.working += 1
      else if (lane.waiting.length < mostWaiting) await new Promise<void>((go) => lane.waiting.push(go))
      else
        throw new DomainError(
          'rate_limited',
          `${mostWaiting} requests of the organization wait already: send fewer at once`,
          [],
          1,
        )
      let isOver = false
      return () => {
        if (!isOver) leave(key, lane, size)
        isOver = true
      }
    },
  }
}
