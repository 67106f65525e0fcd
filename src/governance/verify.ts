import { Worker } from 'node:worker_threads'
import { DomainError } from './errors.ts'
import type { Verification } from './verify-chain.ts'
import type { VerifyAnswer, VerifyRequest } from './verify-worker.ts'

export type { Verification } from './verify-chain.ts'

/** Node runs this from `src` as it stands and from `dist` compiled: the worker's file ends like this one. */
const workerFile = new URL(
  `./verify-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`,
  import.meta.url,
)

/**
 * More than a verification needs; a limit so that one can never take the process that decides down with it. Rows die
 * young: a nursery that may grow as it likes only holds more of the dead.
 */
const memory = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }

let running: Promise<unknown> = Promise.resolve()

/**
 * Recomputes an organization's chain from its stored bytes and reports the first entry that does not hold
 * (specification, "What the service does", 5; contract section 8). Runs in a worker thread with a connection of its
 * own, one at a time in a process: further calls wait. Appends go on meanwhile and are not looked at. A tampered chain
 * is an answer, never an error. Fails with `not_found` for an unknown organization, `unavailable` without a database.
 */
export function verifyChain(request: VerifyRequest): Promise<Verification> {
  const result = running.then(() => inWorker(request))
  running = result.catch(() => undefined)
  return result
}

/** `file` is another one in tests only. */
export function inWorker(request: VerifyRequest, file: URL = workerFile): Promise<Verification> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(file, {
      workerData: request,
      resourceLimits: memory,
    })
    worker.once('message', (answer: VerifyAnswer) => {
      if ('result' in answer) resolve(answer.result)
      else if (answer.code !== null) reject(new DomainError(answer.code, answer.message))
      else reject(new Error(`the audit log could not be verified: ${answer.message}`))
    })
    worker.once('error', (error) =>
      reject(new Error(`the thread that verifies the audit log failed: ${error.message}`, { cause: error })),
    )
    // After a message or an error this changes nothing.
    worker.once('exit', (code) =>
      reject(
        new Error(`the thread that verifies the audit log ended with code ${code} and without an answer`),
      ),
    )
  })
}
