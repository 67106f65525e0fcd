import { isConnectionError, writeRefusal, type WriteRefusal } from '../../db/errors.ts'
import { DomainError } from '../errors.ts'

/** Its operations must not run again. */
export class UnknownCommit extends Error {}

/** The database has ended the transaction and its connection. Nothing was saved. */
export class TookTooLong extends Error {}

/** Another program wrote the next entry. Nothing can be saved until a person has verified the log. */
export class ForeignEntry extends Error {}

/** Callers must not treat this as an outage, because the same work may take too long each time. */
export class TransactionTooLong extends DomainError {
  constructor() {
    super('unavailable', 'the transaction took too long, so nothing was decided: try again')
  }
}

export function isRetryableAlone(error: unknown): boolean {
  const isSettled = error instanceof UnknownCommit || error instanceof ForeignEntry
  return !isSettled && !isConnectionError(error) && writeRefusal(error) === null
}

export function answerTo(error: unknown): unknown {
  if (error instanceof UnknownCommit)
    return new DomainError(
      'unavailable',
      'the database connection was lost while saving, and it is unknown whether this was saved: check before you try again',
    )
  if (error instanceof ForeignEntry)
    return new DomainError(
      'unavailable',
      'the audit log holds an entry that this service did not write, so nothing can be saved: an operator must verify the log',
    )
  if (error instanceof TookTooLong) return new TransactionTooLong()
  if (writeRefusal(error) !== null)
    return new DomainError(
      'unavailable',
      'the database cannot write at present, nothing was saved: try again',
    )
  if (isConnectionError(error))
    return new DomainError('unavailable', 'the database cannot be reached, nothing was decided: try again')
  return error
}

/** For the metrics. */
export function reasonOf(error: unknown): 'database' | 'foreign_entry' | 'operation' | WriteRefusal {
  if (error instanceof ForeignEntry) return 'foreign_entry'
  const refusal = writeRefusal(error)
  if (refusal !== null) return refusal
  return isConnectionError(error) || error instanceof UnknownCommit || error instanceof TookTooLong
    ? 'database'
    : 'operation'
}
