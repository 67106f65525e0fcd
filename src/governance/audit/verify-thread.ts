import { Worker } from 'node:worker_threads'
import { DomainError } from '../errors.ts'
import type { Verification, VerifyRequest } from './verify-chain.ts'
import type { VerifyAnswer } from './verify-worker.ts'

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
