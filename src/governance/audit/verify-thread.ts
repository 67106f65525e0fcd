import { Worker } from 'node:worker_threads'
import { DomainError } from '../errors.ts'
import type { Verification, VerifyRequest } from './verify-chain.ts'
import type { VerifyAnswer } from './verify-worker.ts'

/**
 * Node runs TypeScript from `src` and JavaScript from `dist`. So the thread's file has the same extension as this file.
 */
const threadFile = new URL(
  `./verify-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
)

/**
 * Memory limits of the thread. A verification needs less memory than these limits allow. The thread's process also
 * decides calls, so the limits protect this process from running out of memory. Rows are short-lived, so a larger young
 * generation would only contain more garbage.
 */
const memory = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }

/**
 * An idle thread ends after this many milliseconds. It does not end at once, because starting a thread takes most of a
 * second of processor time.
 */
const keptFor = 30_000

/**
 * A thread that verifies one chain at a time. The thread starts with the first verification. It ends after it has been
 * idle for `keptFor` milliseconds. After a failure, the next verification starts a new thread. An idle thread does not
 * keep the process running.
 */
export class VerifyThread {
  private readonly file: URL
  private readonly keptFor: number
  private worker: Worker | undefined
  private idle: NodeJS.Timeout | undefined
  /** The verification that runs now. */
  private current: PromiseWithResolvers<VerifyAnswer> | undefined

  /** Only tests pass arguments. `keepMs` is in milliseconds. */
  constructor(file: URL = threadFile, keepMs: number = keptFor) {
    this.file = file
    this.keptFor = keepMs
  }

  get isStarted(): boolean {
    return this.worker !== undefined
  }

  /**
   * Verifies one chain. Await the result before the next call. Rejects with the `DomainError` of the verification, or
   * with an `Error` if the thread fails or ends.
   */
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
