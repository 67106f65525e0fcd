import { constants, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import pg from 'pg'
import { isConnectionError } from '../../db/errors.ts'
import { DomainError } from '../errors.ts'
import { verifyOver, type Verification, type VerifyRequest } from './verify-chain.ts'

/* Runs in a worker thread, one chain after another, each over a database connection of its own. */

/** Errors lose their class between threads, so a domain error is sent as its code. */
export type VerifyAnswer =
  { readonly result: Verification } | { readonly code: DomainError['code'] | null; readonly message: string }

async function answer(request: VerifyRequest): Promise<VerifyAnswer> {
  const client = new pg.Client({
    connectionString: request.databaseUrl,
    application_name: 'countersign-verify',
    options: `-c role=${request.appRole}`,
    connectionTimeoutMillis: 5_000,
  })
  client.on('error', () => undefined) // the query in flight fails with the same error
  try {
    await client.connect()
    return { result: await verifyOver(client, request) }
  } catch (error) {
    if (error instanceof DomainError) return { code: error.code, message: error.message }
    if (isConnectionError(error))
      return {
        code: 'unavailable',
        message: 'the database cannot be reached, nothing was verified: try again',
      }
    return { code: null, message: (error as Error).message }
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** On other systems than Linux, the call would slow down the whole process, which also answers agents. */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // A sandbox may forbid the system call.
  }
}

lowerPriority()
parentPort?.on('message', (request: VerifyRequest) => {
  void answer(request).then((each) => parentPort?.postMessage(each))
})
