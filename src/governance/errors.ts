/** Only `api/` knows the HTTP status (docs/reference/errors.md). */
export type DomainErrorCode =
  | 'bad_request'
  | 'unauthenticated'
  | 'personal_workflow'
  | 'not_found'
  | 'insufficient_role'
  | 'missing_scope'
  | 'mfa_required'
  | 'sso_required'
  | 'run_denied'
  | 'self_approval'
  | 'not_an_approver'
  | 'conflict'
  | 'approval_already_decided'
  | 'approval_expired'
  | 'idempotency_in_progress'
  | 'idempotency_mismatch'
  | 'bad_transition'
  | 'validation_error'
  | 'quota_exceeded'
  | 'rate_limited'
  | 'unavailable'

export interface ErrorDetail {
  readonly path: string
  readonly message: string
}

export class DomainError extends Error {
  override readonly name = 'DomainError'
  readonly code: DomainErrorCode
  readonly details: readonly ErrorDetail[]
  /** After so many seconds, the same call may succeed. */
  readonly retryAfter: number | undefined
  constructor(
    code: DomainErrorCode,
    message: string,
    details: readonly ErrorDetail[] = [],
    retryAfter?: number,
  ) {
    super(message)
    this.code = code
    this.details = details
    this.retryAfter = retryAfter
  }
}

/** Returns an error about one part of the request, which `path` names. */
export const errorAt = (code: DomainErrorCode, path: string, message: string): DomainError =>
  new DomainError(code, message, [{ path, message }])

/** Says the same for an id of another organization, so nobody learns that it exists. Cuts a long id. */
export function notFound(what: string, id: string): DomainError {
  return new DomainError('not_found', `no ${what} \`${id.length > 300 ? `${id.slice(0, 300)}…` : id}\``)
}
