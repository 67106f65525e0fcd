import type { Response } from 'express'
import type { Context } from '../context.ts'
import type { Charged } from '../governance/identity.ts'
import type { Kind } from '../governance/rates/rates.ts'
import { ApiError } from './errors.ts'

const spans = {
  requests_per_minute: 'a minute',
  requests_per_day: 'a day',
  authorize_per_minute: 'a minute',
  agent_reports_per_minute: 'a minute',
  quota_changes_per_minute: 'a minute',
} as const
const words = {
  requests: 'requests',
  reports: 'reports',
  quota: 'changes of its quota',
} as const satisfies Partial<Record<Kind, string>>

/**
 * Counts a request of an organization, and says in `X-RateLimit-*` how many are left. Throws `rate_limited`. What agents
 * send and an owner's changes of the quota have buckets of their own; agents' questions are refused by a decision: not here.
 */
export async function countRequest(
  context: Context,
  response: Response,
  charged: Charged,
  kind: keyof typeof words,
): Promise<void> {
  const taken = await context.rates.take(charged.holderId, charged.limits, kind)
  response.setHeader('X-RateLimit-Limit', String(taken.limit))
  response.setHeader('X-RateLimit-Remaining', String(taken.remaining))
  response.setHeader('X-RateLimit-Reset', String(taken.resetAt))
  if (taken.allowed) return
  throw new ApiError(
    'rate_limited',
    `the organization is at its limit of ${taken.limit} ${words[kind]} ${spans[taken.bucket]}: try again later`,
    [
      {
        path: kind === 'reports' ? 'authorize_per_minute' : taken.bucket,
        message: `the limit is ${taken.limit}`,
      },
    ],
    taken.retryAfter,
  )
}
