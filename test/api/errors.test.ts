import { describe, expect, test } from '@jest/globals'
import pg from 'pg'
import { ApiError, errorBody, retryAfter, statusOf, toApiError } from '../../src/api/errors.ts'
import { DomainError } from '../../src/governance/errors.ts'

/** The published error codes by status. */
const published = {
  400: ['bad_request'],
  401: ['unauthenticated'],
  403: ['missing_scope', 'insufficient_role', 'run_denied', 'self_approval', 'not_an_approver'],
  404: ['not_found'],
  409: [
    'conflict',
    'approval_already_decided',
    'approval_expired',
    'idempotency_in_progress',
    'bad_transition',
  ],
  413: ['too_large'],
  415: ['unsupported_media_type'],
  422: ['validation_error', 'idempotency_mismatch'],
  429: ['rate_limited', 'quota_exceeded'],
  500: ['internal'],
  503: ['unavailable'],
}

const databaseError = (code: string) =>
  Object.assign(new pg.DatabaseError('relation "secrets" of row (1, hunter2)', 1, 'error'), { code })

describe('errors', () => {
  test('have the published status', () => {
    const pairs = Object.entries(published).flatMap(([status, codes]) =>
      codes.map((code) => [code, Number(status)]),
    )
    expect(statusOf).toMatchObject(Object.fromEntries(pairs))
  })

  test('429 and 503 say when to try again', () => {
    for (const [code, status] of Object.entries(statusOf))
      if (status === 429 || status === 503)
        expect(retryAfter[code as keyof typeof retryAfter]).toBeGreaterThan(0)
  })

  test('of the domain keep code, message and details', () => {
    const details = [{ path: 'a', message: 'b' }]
    const error = toApiError(new DomainError('conflict', 'taken', details))
    expect(errorBody(error, 'r1')).toEqual({
      error: { code: 'conflict', message: 'taken', details },
      meta: { request_id: 'r1' },
    })
    const own = new ApiError('too_large', 'x')
    expect(toApiError(own)).toBe(own)
  })

  test.each([
    ['an unexpected error', new Error('hunter2'), 'internal'],
    ['a value that is not an error', 'hunter2', 'internal'],
    ['a constraint', databaseError('23503'), 'internal'],
    ['a shut-down', databaseError('57P01'), 'unavailable'],
    ['a time-out', databaseError('25P04'), 'unavailable'],
    ['a deadlock', databaseError('40P01'), 'unavailable'],
    ['a refused connection', Object.assign(new Error('hunter2'), { code: 'ECONNREFUSED' }), 'unavailable'],
  ])('%s shows no internal details', (_, thrown, code) => {
    const body = errorBody(toApiError(thrown), 'r1')
    expect(body.error.code).toBe(code)
    expect(JSON.stringify(body)).not.toMatch(/hunter2|secrets/)
  })
})
