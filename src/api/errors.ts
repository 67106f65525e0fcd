import pg from 'pg'
import type { z } from 'zod'
import { isConnectionError, writeRefusal } from '../db/errors.ts'
import { DomainError, type DomainErrorCode, type ErrorDetail } from '../governance/errors.ts'
import { headlineWithField, readAs } from '../policy/issues.ts'

type ApiErrorCode =
  'too_large' | 'unsupported_media_type' | 'misdirected_request' | 'rate_limited' | 'internal'
export type ErrorCode = DomainErrorCode | ApiErrorCode

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
  sso_required: 403,
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

/** Seconds after which the same call may succeed. */
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
  /** Seconds after which the same call may succeed; default: the table `retryAfter`. */
  readonly retryAfter: number | undefined
  /** Milliseconds of the thread's work for a refused body, estimated. */
  worked = 0
  constructor(code: ErrorCode, message: string, details: readonly ErrorDetail[] = [], seconds?: number) {
    super(message)
    this.code = code
    this.details = details
    this.retryAfter = seconds ?? retryAfter[code]
  }
}

interface ErrorBody {
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
 * SQLSTATEs after which the same call may succeed: timeouts of a statement, a transaction and an idle one,
 * serialization failure, deadlock, lock timeout.
 */
const passing = new Set(['57014', '25P04', '25P03', '40001', '40P01', '55P03'])

/** An unexpected error becomes `internal` without details, and is not logged here. */
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

/** Throws 422 `validation_error`, which names every wrong or unknown field. */
export function validate<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const read = readAs(schema, value)
  if (read.ok) return read.value
  throw new ApiError('validation_error', headlineWithField(`${what} is not valid`, read.issues), read.issues)
}
