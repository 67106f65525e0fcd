import pg from 'pg'

/** SQLSTATEs that say the server went away or ended this connection: 25P03 and 25P04 are its own time-outs. */
const goneCodes = /^(08...|57P0[1-5]|53300|25P0[34])$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** Words of pg, pg-pool and kysely for a connection that is gone; they carry no code. */
const goneMessages =
  /Connection terminated|timeout exceeded when trying to connect|is not queryable|Postgres connection has been discarded/

/**
 * Whether the failure says nothing about the work itself: the database could not be reached, or was lost on the way.
 * Told by what the error carries, never by its class: errors of Node's own come from another realm in tests.
 */
export function isConnectionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, message, errors } = error as { code?: unknown; message?: unknown; errors?: unknown }
  if (Array.isArray(errors)) return errors.some(isConnectionError)
  if (typeof code === 'string' && (socketCodes.has(code) || goneCodes.test(code))) return true
  return typeof message === 'string' && goneMessages.test(message)
}

/** Whether a statement was refused only because one before it in its transaction had failed. */
export function isAborted(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '25P02'
}

/** SQLSTATE of a unique violation on this constraint. */
export function violates(error: unknown, constraint: string): boolean {
  return isDuplicate(error) && (error as pg.DatabaseError).constraint === constraint
}

/** Whether a unique constraint was violated, whichever it is. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505'
}
