import type { Response } from 'express'
import type { Context } from '../context.ts'
import type { Identity } from '../governance/identity.ts'
import type { Scope } from '../governance/scopes.ts'
import { ApiError } from './errors.ts'

const spans = {
  requests_per_minute: 'a minute',
  requests_per_day: 'a day',
  authorize_per_minute: 'a minute',
  agent_reports_per_minute: 'a minute',
} as const

/**
 * Counts a request of the sender's organization, and says in `X-RateLimit-*` how many are left (specification, "Limits").
 * Throws `rate_limited`. What agents send has buckets of its own; their questions are refused by a decision: not here.
 */
export async function countRequest(
  context: Context,
  response: Response,
  identity: Identity,
  scope: Scope | null,
): Promise<void> {
  const { charged } = identity
  const kind = scope === 'agents:authorize' ? 'reports' : 'requests'
  const taken = await context.rates.take(charged.holderId, charged.limits, kind)
  response.setHeader('X-RateLimit-Limit', String(taken.limit))
  response.setHeader('X-RateLimit-Remaining', String(taken.remaining))
  response.setHeader('X-RateLimit-Reset', String(taken.resetAt))
  // An owner who has set a limit too low must be able to raise it again.
  if (taken.allowed || scope === 'quota:write') return
  throw new ApiError(
    'rate_limited',
    `the organization is at its limit of ${taken.limit} ${kind} ${spans[taken.bucket]}: try again later`,
    [
      {
        path: kind === 'reports' ? 'authorize_per_minute' : taken.bucket,
        message: `the limit is ${taken.limit}`,
      },
    ],
    taken.retryAfter,
  )
}
