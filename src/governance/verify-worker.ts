import { parentPort, workerData } from 'node:worker_threads'
import { createPool } from '../db/connect.ts'
import { isConnectionError } from './database-errors.ts'
import { DomainError } from './errors.ts'
import { verifyOver, type Verification } from './verify-chain.ts'

/* The thread that verifies one chain over a connection of its own and posts one answer. */

export interface VerifyRequest {
  readonly databaseUrl: string
  readonly appRole: string
  readonly organizationId: string
}

/** Errors cross threads without their class: a domain error goes as its code. */
export type VerifyAnswer =
  { readonly result: Verification } | { readonly code: DomainError['code'] | null; readonly message: string }

async function answer(request: VerifyRequest): Promise<VerifyAnswer> {
  const pool = createPool({
    url: request.databaseUrl,
    appRole: request.appRole,
    max: 1,
    applicationName: 'countersign-verify',
  })
  try {
    const client = await pool.connect()
    client.on('error', () => undefined) // the query under way fails with it
    try {
      return { result: await verifyOver(client, request.organizationId) }
    } finally {
      client.release(true)
    }
  } catch (error) {
    if (error instanceof DomainError) return { code: error.code, message: error.message }
    if (isConnectionError(error))
      return {
        code: 'unavailable',
        message: 'the database cannot be reached, nothing was verified: try again',
      }
    return { code: null, message: (error as Error).message }
  } finally {
    await pool.end()
  }
}

parentPort?.postMessage(await answer(workerData as VerifyRequest))
