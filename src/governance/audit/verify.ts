import type { Verification, VerifyRequest } from './verify-chain.ts'
import { Worker } from 'node:worker_threads'
import { DomainError } from '../errors.ts'
import type { VerifyAnswer } from './verify-worker.ts'

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
    setTimeout(end, Math.min(took * restFactor, 30_000)).unref()
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

/** TypeScript in `src`, JavaScript in `dist`. */
const threadFile = new URL(
  `./verify-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
)

/** More than it needs: the process also decides calls, and must not run out of memory. Rows are short-lived. */
const memory = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }

/** Milliseconds until an idle thread ends. Starting one takes most of a second of processor time. */
const keptFor = 30_000

/** One chain at a time. Ends after `keptFor` idle milliseconds, and does not keep the process running. */
export class VerifyThread {
  private readonly file: URL
  private readonly keptFor: number
  private worker: Worker | undefined
  private idle: NodeJS.Timeout | undefined
  private current: PromiseWithResolvers<VerifyAnswer> | undefined

  /** Only tests pass arguments. `keepMs` is in milliseconds. */
  constructor(file: URL = threadFile, keepMs: number = keptFor) {
    this.file = file
    this.keptFor = keepMs
  }

  get isStarted(): boolean {
    return this.worker !== undefined
  }

  /** Await it before the next call. Rejects with the verification's `DomainError`; `Error` if the thread fails. */
  async verify(request: VerifyRequest): Promise<Verification> {
    clearTimeout(this.idle)
    const worker = (this.worker ??= this.start())
    worker.ref()
    this.current = Promise.withResolvers()
    worker.postMessage(request)
    const answer = await this.current.promise
    worker.unref()
    this.idle = setTimeout(() => this.end(), this.keptFor).unref()
    if ('result' in answer) return answer.result
    if (answer.code !== null) throw new DomainError(answer.code, answer.message)
    throw new Error(`the audit log could not be verified: ${answer.message}`)
  }

  private end(): void {
    const worker = this.worker
    this.worker = undefined // the next verification must not get a thread that is ending
    void worker?.terminate()
  }

  private start(): Worker {
    const worker = new Worker(this.file, { resourceLimits: memory })
    const gone = (reason: string, cause?: unknown): void => {
      if (this.worker !== worker) return
      this.worker = undefined
      this.current?.reject(new Error(`the thread that verifies the audit log ${reason}`, { cause }))
    }
    worker.on('message', (answer: VerifyAnswer) => this.current?.resolve(answer))
    worker.on('error', (error) => gone(`failed: ${error.message}`, error))
    worker.on('exit', (code) => gone(`ended with code ${code} and without an answer`))
    return worker
  }
}
