import type { Verification, VerifyRequest } from './verify-chain.ts'
import { VerifyThread } from './verify-thread.ts'

export type { Verification } from './verify-chain.ts'

/** Callers that ask for the same chain before the start get the same answer. */
interface QueuedVerification {
  readonly request: VerifyRequest
  readonly isContended: () => boolean
  readonly answer: PromiseWithResolvers<Verification>
}

/**
 * While the process serves other organizations, a chain rests after its verification for `restFactor` times as long, at
 * most `longestRest` milliseconds. So repeated requests for one chain use at most a fifth of a core, unless a
 * verification takes longer than 7.5 s.
 */
const restFactor = 4
const longestRest = 30_000

/**
 * One at a time per process, in a worker thread. The chain whose last verification is the oldest comes next. All
 * requests that wait for one chain share an answer (docs/decisions/0067).
 */
export class Verifier {
  /** One for each chain, by database and organization. */
  readonly #waiting = new Map<string, QueuedVerification>()
  /** The number of each chain's last verification, in the order of their starts. The lowest comes next. */
  readonly #served = new Map<string, number>()
  readonly #resting = new Set<string>()
  readonly #thread = new VerifyThread()
  #isRunning = false
  #turns = 0

  /**
   * Recomputes a chain from its stored bytes and reports the first invalid entry; a changed chain is no error. Later
   * entries are not checked. Throws `not_found`, and `unavailable` if the database cannot be reached.
   */
  verify(request: VerifyRequest, isContended: () => boolean = () => false): Promise<Verification> {
    const chain = chainOf(request)
    const known = this.#waiting.get(chain)
    if (known !== undefined) return known.answer.promise
    const answer = Promise.withResolvers<Verification>()
    this.#waiting.set(chain, { request, isContended, answer })
    if (!this.#isRunning) void this.#runAll()
    return answer.promise
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true
    for (let next = this.#takeNext(); next !== undefined; next = this.#takeNext()) {
      const chain = chainOf(next.request)
      const began = performance.now()
      await this.#thread.verify(next.request).then(next.answer.resolve, next.answer.reject)
      if (next.isContended()) this.#rest(chain, performance.now() - began)
      else if (!this.#waiting.has(chain)) this.#served.delete(chain)
    }
    this.#isRunning = false
  }

  #rest(chain: string, took: number): void {
    this.#resting.add(chain)
    const end = (): void => {
      this.#resting.delete(chain)
      if (!this.#waiting.has(chain)) this.#served.delete(chain)
      else if (!this.#isRunning) void this.#runAll()
    }
    setTimeout(end, Math.min(took * restFactor, longestRest)).unref()
  }

  /** Chains without a number in `#served` come first, in the order in which they began to wait. */
  #takeNext(): QueuedVerification | undefined {
    const lastOf = (chain: string): number => this.#served.get(chain) ?? 0
    const [first, ...others] = [...this.#waiting.keys()].filter((chain) => !this.#resting.has(chain))
    if (first === undefined) return undefined
    const chain = others.reduce((next, each) => (lastOf(each) < lastOf(next) ? each : next), first)
    const next = this.#waiting.get(chain)
    this.#waiting.delete(chain)
    this.#served.set(chain, (this.#turns += 1))
    return next
  }
}

const chainOf = ({ databaseUrl, organizationId }: VerifyRequest): string => `${databaseUrl} ${organizationId}`
