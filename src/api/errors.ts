import pg from 'pg'
import { isConnectionError, writeRefusal } from '../db/errors.ts'
import { DomainError, type DomainErrorCode, type ErrorDetail } from '../governance/errors.ts'

/** Error codes that only the HTTP layer uses. */
export type ApiErrorCode =
  'too_large' | 'unsupported_media_type' | 'misdirected_request' | 'rate_limited' | 'internal'
export type ErrorCode = DomainErrorCode | ApiErrorCode

/** The HTTP status of every error code. */
export const statusOf = {
  bad_request: 400,
  personal_workflow: 400,
  unauthenticated: 401,
  missing_scope: 403,
  insufficient_role: 403,
  run_denied: 403,
  self_approval: 403,
  not_an_approver: 403,
  mfa_required: 403,
  not_found: 404,
  conflict: 409,
  approval_already_decided: 409,
  approval_expired: 409,
  idempotency_in_progress: 409,
  bad_transition: 409,
  too_large: 413,
  unsupported_media_type: 415,
  misdirected_request: 421,
  validation_error: 422,
  idempotency_mismatch: 422,
  rate_limited: 429,
  quota_exceeded: 429,
  internal: 500,
  unavailable: 503,
} as const satisfies Record<ErrorCode, number>

/** For these error codes, the same call may succeed after this many seconds. */
export const retryAfter: Readonly<Partial<Record<ErrorCode, number>>> = {
  idempotency_in_progress: 1,
  rate_limited: 1,
  quota_exceeded: 60,
  unavailable: 1,
}

export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly details: readonly ErrorDetail[]
  /** Seconds after which the same call may succeed. The default comes from the table `retryAfter`. */
  readonly retryAfter: number | undefined
  /** Estimates the thread's work for a refused body, in milliseconds. Is 0 if no body was refused. */
  worked = 0
  constructor(code: ErrorCode, message: string, details: readonly ErrorDetail[] = [], seconds?: number) {
    super(message)
    this.code = code
    this.details = details
    this.retryAfter = seconds ?? retryAfter[code]
  }
}

export interface ErrorBody {
  readonly error: {
    readonly code: ErrorCode
    readonly message: string
    readonly details: readonly ErrorDetail[]
  }
  readonly meta: { readonly request_id: string }
}

export function errorBody(error: ApiError, requestId: string): ErrorBody {
  const { code, message, details } = error
  return { error: { code, message, details }, meta: { request_id: requestId } }
}

/**
 * After an error with one of these SQLSTATEs, the same call may succeed. In the order of the list, they mean: statement
 * timeout, transaction timeout, timeout of an idle transaction, serialization failure, deadlock, lock timeout.
 */
const passing = new Set(['57014', '25P04', '25P03', '40001', '40P01', '55P03'])

/**
 * Turns any thrown value into the error that the client gets. An unexpected error becomes `internal` without details.
 * This function does not log the original error. Its caller decides whether to log it.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof DomainError)
    return new ApiError(error.code, error.message, error.details, error.retryAfter)
  if (writeRefusal(error) !== null)
    return new ApiError('unavailable', 'the database cannot write at present: try again')
  if (isConnectionError(error) || (error instanceof pg.DatabaseError && passing.has(error.code ?? '')))
    return new ApiError('unavailable', 'the database cannot be reached: try again')
  return new ApiError('internal', 'an unexpected error occurred: the log has it under this request id')
}
