import type { Verification } from './verify-chain.ts'
import { VerifyThread } from './verify-thread.ts'
import type { VerifyRequest } from './verify-worker.ts'

export type { Verification } from './verify-chain.ts'

/** A verification that has not started, shared by everybody who asks for the same chain meanwhile. */
interface Waiting {
  readonly request: VerifyRequest
  readonly isContended: () => boolean
  readonly answer: PromiseWithResolvers<Verification>
}

/** By database and organization: at most one for each. */
const waiting = new Map<string, Waiting>()
/** The last turn of each chain that waits or rests; the lowest comes next. */
const served = new Map<string, number>()
/** Chains that may not be verified again yet. */
const resting = new Set<string>()
const thread = new VerifyThread()
let isRunning = false
let turns = 0

/**
 * A verification takes a core for its whole duration. The chain then rests for this multiple of that duration, so
 * repeated requests take at most a fifth of a core.
 */
const restFactor = 4
const longestRest = 30_000

/**
 * Recomputes an organization's chain from its stored bytes and reports the first invalid entry. Runs in a worker thread
 * with its own connection, one verification at a time per process. The chain that was verified longest ago comes next,
 * and all requests that wait for one chain share an answer (docs/decisions/0067). While the process serves other
 * organizations (`isContended`), a chain rests after its verification. Entries appended meanwhile are not checked. A
 * tampered chain is a result, not an error. Throws `not_found` for an unknown organization, `unavailable` without a
 * database.
 */
export function verifyChain(
  request: VerifyRequest,
  isContended: () => boolean = () => false,
): Promise<Verification> {
  const chain = chainOf(request)
  const known = waiting.get(chain)
  if (known !== undefined) return known.answer.promise
  const answer = Promise.withResolvers<Verification>()
  waiting.set(chain, { request, isContended, answer })
  if (!isRunning) void runAll()
  return answer.promise
}

const chainOf = ({ databaseUrl, organizationId }: VerifyRequest): string => `${databaseUrl} ${organizationId}`

async function runAll(): Promise<void> {
  isRunning = true
  for (let next = takeNext(); next !== undefined; next = takeNext()) {
    const began = performance.now()
    await thread.verify(next.request).then(next.answer.resolve, next.answer.reject)
    if (next.isContended()) rest(chainOf(next.request), performance.now() - began)
    else if (!waiting.has(chainOf(next.request))) served.delete(chainOf(next.request))
  }
  isRunning = false
}

function rest(chain: string, took: number): void {
  resting.add(chain)
  const end = (): void => {
    resting.delete(chain)
    if (!waiting.has(chain)) served.delete(chain)
    else if (!isRunning) void runAll()
  }
  setTimeout(end, Math.min(took * restFactor, longestRest)).unref()
}

/** Takes the waiting chain with the lowest turn; the order of insertion breaks ties. */
function takeNext(): Waiting | undefined {
  const lastOf = (chain: string): number => served.get(chain) ?? 0
  const [first, ...others] = [...waiting.keys()].filter((chain) => !resting.has(chain))
  if (first === undefined) return undefined
  const chain = others.reduce((next, each) => (lastOf(each) < lastOf(next) ? each : next), first)
  const next = waiting.get(chain)
  waiting.delete(chain)
  served.set(chain, (turns += 1))
  return next
}
