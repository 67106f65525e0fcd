import pg from 'pg'
import { DomainError } from './errors.ts'

/** SQLSTATE classes and codes that say the server or the connection went away. */
const goneCodes = /^(08...|57P0[1-4]|53300)$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** Whether the failure says nothing about the work itself: the database could not be reached, or was lost on the way. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isConnectionError)
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (error instanceof pg.DatabaseError) return typeof code === 'string' && goneCodes.test(code)
  if (typeof code === 'string' && socketCodes.has(code)) return true
  return /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/.test(
    error.message,
  )
}

/** Whether running each operation of a failed batch alone can help: not when the database is away. */
export function isRetryableAlone(error: unknown): boolean {
  return error instanceof DomainError || !isConnectionError(error)
}

/** SQLSTATE of a unique violation on this constraint. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505' && error.constraint === constraint
}
