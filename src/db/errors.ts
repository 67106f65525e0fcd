import pg from 'pg'

/**
 * SQLSTATEs which say that the server has stopped, or has refused or ended this connection. 25P03 and 25P04 are
 * timeouts of a transaction, after which the server ends the connection.
 */
const goneCodes = /^(08...|57P0[1-5]|53300|25P0[34])$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** Errors of pg, pg-pool and kysely for a lost connection have no code. So these messages identify them. */
const goneMessages =
  /Connection terminated|timeout exceeded when trying to connect|is not queryable|Postgres connection has been discarded/

/**
 * Whether the database could not be reached or the connection was lost. Such an error does not mean that the statement
 * is wrong. Checks the error's fields and not its class, because in tests Node's own errors come from another realm.
 */
export function isConnectionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, message, errors } = error as { code?: unknown; message?: unknown; errors?: unknown }
  if (Array.isArray(errors)) return errors.some(isConnectionError)
  if (typeof code === 'string' && (socketCodes.has(code) || goneCodes.test(code))) return true
  return typeof message === 'string' && goneMessages.test(message)
}

/** Whether a statement was refused only because an earlier one in its transaction had failed. */
export function isAborted(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '25P02'
}

/** Whether this unique constraint was violated. */
export function violates(error: unknown, constraint: string): boolean {
  return isDuplicate(error) && (error as pg.DatabaseError).constraint === constraint
}

/** Whether any unique constraint was violated. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505'
}

/** The reason why the database refuses to write although it answers. */
export type WriteRefusal = 'disk_full' | 'read_only'

export function writeRefusal(error: unknown): WriteRefusal | null {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  if (code === '53100' || code === 'ENOSPC') return 'disk_full'
  // In some places, PostgreSQL reports a full disk as an I/O error.
  if (code === '58030' && typeof message === 'string' && message.includes('No space left')) return 'disk_full'
  return code === '25006' ? 'read_only' : null
}
