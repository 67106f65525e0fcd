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

/** A verification that has not begun yet, for everybody of the organization who has asked meanwhile. */
interface Waiting {
  readonly request: VerifyRequest
  readonly answer: PromiseWithResolvers<Verification>
}

/** By database and organization: none has more than one. */
const waiting = new Map<string, Waiting>()
/** When each chain had its turn last, while somebody waits. */
const served = new Map<string, number>()
let isRunning = false
let turns = 0

/**
 * Recomputes an organization's chain from its stored bytes and reports the first entry that does not hold. Runs in a worker
 * thread with a connection of its own, one at a time in a process; of the organizations that wait the one comes next whose turn
 * was the longest ago, and all who wait for the same chain share one answer (docs/decisions/0067). Appends go on meanwhile and are
 * not looked at. A tampered chain is an answer, never an error. Fails with `not_found` for an unknown organization, `unavailable`
 * without a database.
 */
export function verifyChain(request: VerifyRequest): Promise<Verification> {
  const chain = `${request.databaseUrl} ${request.organizationId}`
  const known = waiting.get(chain)
  if (known !== undefined) return known.answer.promise
  const answer = Promise.withResolvers<Verification>()
  waiting.set(chain, { request, answer })
  if (!isRunning) void runAll()
  return answer.promise
}

async function runAll(): Promise<void> {
  isRunning = true
  for (let next = takeNext(); next !== undefined; next = takeNext())
    await inWorker(next.request).then(next.answer.resolve, next.answer.reject)
  served.clear()
  isRunning = false
}

/** Takes whose turn it is; a map has its keys in the order in which they asked. */
function takeNext(): Waiting | undefined {
  const lastOf = (chain: string): number => served.get(chain) ?? 0
  const [first, ...others] = waiting.keys()
  if (first === undefined) return undefined
  const chain = others.reduce((next, each) => (lastOf(each) < lastOf(next) ? each : next), first)
  const next = waiting.get(chain)
  waiting.delete(chain)
  served.set(chain, (turns += 1))
  return next
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
