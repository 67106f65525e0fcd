import type { Response } from 'express'
import type { Context } from '../governance/context.ts'
import type { Charged } from '../governance/access/identity.ts'
import { type Kind, type Taken, noteRefusal } from '../governance/limits/rates.ts'
import { ApiError } from './errors.ts'
import { requestIdOf } from './request-id.ts'

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

/** Sets the headers that tell a client how many requests are left. */
export function showRate(response: Response, { limit, remaining, resetAt }: Taken): void {
  response.setHeader('X-RateLimit-Limit', String(limit))
  response.setHeader('X-RateLimit-Remaining', String(remaining))
  response.setHeader('X-RateLimit-Reset', String(resetAt))
}

/**
 * Counts a request of an organization, and sets the `X-RateLimit-*` headers. Throws `rate_limited` if the organization
 * is over its limit. Reports of agents have their own limit. Changes of the quota by an owner also have their own
 * limit. Questions of agents are counted elsewhere, because a question over the limit gets a decision and not an error.
 */
export async function countRequest(
  context: Pick<Context, 'metrics' | 'rates' | 'sparseLog'>,
  response: Response,
  charged: Charged,
  kind: keyof typeof words,
): Promise<void> {
  const taken = await context.rates.take(charged.holderId, charged.limits, kind)
  showRate(response, taken)
  if (taken.allowed) return
  noteRefusal(context, charged.holderId, taken, requestIdOf(response))
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
