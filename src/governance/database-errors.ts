import pg from 'pg'

/** SQLSTATEs that say the server went away or ended this connection: 25P03 and 25P04 are its own time-outs. */
const goneCodes = /^(08...|57P0[1-5]|53300|25P0[34])$/
const socketCodes = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EHOSTUNREACH'])

/** Words of pg, pg-pool and kysely for a connection that is gone; they carry no code. */
const goneMessages =
  /Connection terminated|timeout exceeded when trying to connect|is not queryable|Postgres connection has been discarded/

/** Whether the failure says nothing about the work itself: the database could not be reached, or was lost on the way. */
export function isConnectionError(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isConnectionError)
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (error instanceof pg.DatabaseError) return typeof code === 'string' && goneCodes.test(code)
  if (typeof code === 'string' && socketCodes.has(code)) return true
  return goneMessages.test(error.message)
}

/** SQLSTATE of a unique violation on this constraint. */
export function violates(error: unknown, constraint: string): boolean {
  return error instanceof pg.DatabaseError && error.code === '23505' && error.constraint === constraint
}
