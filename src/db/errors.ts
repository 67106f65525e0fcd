import pg from 'pg'

/**
 * SQLSTATE codes. They mean that the server has stopped, or that it has refused or ended this connection. 25P03 and
 * 25P04 mean that a transaction took too long. Then the server ends the connection.
 */
const goneCodes = /^(08...|57P0[1-5]|53300|25P0[34])$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** If a connection is lost, pg, pg-pool and kysely throw errors without a code. These messages identify such errors. */
const goneMessages =
  /Connection terminated|timeout exceeded when trying to connect|is not queryable|Postgres connection has been discarded/

/**
 * Returns whether the database could not be reached or the connection was lost. Such an error does not mean that the
 * statement is wrong. The class of the error is not checked, because in tests Node's own errors come from another
 * realm.
 */
export function isConnectionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, message, errors } = error as { code?: unknown; message?: unknown; errors?: unknown }
  if (Array.isArray(errors)) return errors.some(isConnectionError)
  if (typeof code === 'string' && (socketCodes.has(code) || goneCodes.test(code))) return true
  return typeof message === 'string' && goneMessages.test(message)
}

/** Returns whether a statement was refused because an earlier statement of the same transaction had failed. */
export function isAborted(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '25P02'
}

/** Returns whether the unique constraint `constraint` was violated. */
export function violates(error: unknown, constraint: string): boolean {
  return isDuplicate(error) && (error as pg.DatabaseError).constraint === constraint
}

/** Returns whether a unique constraint was violated. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505'
}

/** The reason why a database that can be reached refuses to write. */
export type WriteRefusal = 'disk_full' | 'read_only'

export function writeRefusal(error: unknown): WriteRefusal | null {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  if (code === '53100' || code === 'ENOSPC') return 'disk_full'
  // PostgreSQL sometimes reports a full disk as an I/O error (58030).
  if (code === '58030' && typeof message === 'string' && message.includes('No space left')) return 'disk_full'
  return code === '25006' ? 'read_only' : null
}
