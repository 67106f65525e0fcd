import { isConnectionError, writeRefusal, type WriteRefusal } from '../../db/errors.ts'
import { DomainError } from '../errors.ts'

/** It is unknown whether the transaction has committed. So its operations must not run again. */
export class UnknownCommit extends Error {}

/** The transaction took too long, so the database ended the transaction and its connection. Nothing was saved. */
export class TookTooLong extends Error {}

/**
 * Another program has written an entry at the next position of the chain. Nothing can be saved until a person has
 * verified the log.
 */
export class ForeignEntry extends Error {}

/**
 * The error that callers get for `TookTooLong`. Callers must not treat this error as an outage, because the same work
 * may take too long each time.
 */
export class TransactionTooLong extends DomainError {
  constructor() {
    super('unavailable', 'the transaction took too long, so nothing was decided: try again')
  }
}

/** Returns whether the failed operations may succeed in smaller batches. */
export function isRetryableAlone(error: unknown): boolean {
  const isSettled = error instanceof UnknownCommit || error instanceof ForeignEntry
  return !isSettled && !isConnectionError(error) && writeRefusal(error) === null
}

/** Returns the error that the callers of a failed operation get. */
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

/** Returns the reason of a failure, for the metrics. Errors that come from an operation itself count as `operation`. */
export function reasonOf(error: unknown): 'database' | 'foreign_entry' | 'operation' | WriteRefusal {
  if (error instanceof ForeignEntry) return 'foreign_entry'
  const refusal = writeRefusal(error)
  if (refusal !== null) return refusal
  return isConnectionError(error) || error instanceof UnknownCommit || error instanceof TookTooLong
    ? 'database'
    : 'operation'
}
