import pg from 'pg'

/** The server has stopped, or refused or ended the connection (25P03, 25P04: a transaction took too long). */
const goneCodes = /^(08...|57P0[1-5]|53300|25P0[34])$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** Errors of pg, pg-pool and kysely without a code. */
const goneMessages =
  /Connection terminated|timeout exceeded when trying to connect|is not queryable|Postgres connection has been discarded/

/**
 * Whether the database was away, so that the statement need not be wrong. The class of the error is not checked,
 * because in tests Node's own errors come from another realm.
 */
export function isConnectionError(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, message, errors } = error as { code?: unknown; message?: unknown; errors?: unknown }
  if (Array.isArray(errors)) return errors.some(isConnectionError)
  if (typeof code === 'string' && (socketCodes.has(code) || goneCodes.test(code))) return true
  return typeof message === 'string' && goneMessages.test(message)
}

/** Whether the statement was refused because an earlier one of its transaction had failed. */
export function isAborted(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '25P02'
}

export function violates(error: unknown, constraint: string): boolean {
  return isDuplicate(error) && (error as pg.DatabaseError).constraint === constraint
}

export function isDuplicate(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505'
}

/** Why a database that can be reached refuses to write. */
export type WriteRefusal = 'disk_full' | 'read_only'

export function writeRefusal(error: unknown): WriteRefusal | null {
  const { code, message } = Object(error) as { code?: unknown; message?: unknown }
  if (code === '53100' || code === 'ENOSPC') return 'disk_full'
  // PostgreSQL sometimes reports a full disk as an I/O error (58030).
  if (code === '58030' && typeof message === 'string' && message.includes('No space left')) return 'disk_full'
  return code === '25006' ? 'read_only' : null
}
