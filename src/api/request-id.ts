import { randomUUID } from 'node:crypto'
import type { Response } from 'express'

/** Maximum number of characters of an incoming `X-Request-Id`; a longer id is replaced. */
export const longestRequestId = 128

/**
 * Matches an incoming `X-Request-Id` that is accepted. The characters and the length are limited, because the id is
 * copied to logs and headers.
 */
const acceptable = new RegExp(`^[A-Za-z0-9._:/+=@-]{1,${longestRequestId}}$`)

export function requestId(incoming: string | string[] | undefined): string {
  return typeof incoming === 'string' && acceptable.test(incoming) ? incoming : randomUUID()
}

/** The id of the request that this response answers. */
export const requestIdOf = (response: Response): string => String(response.getHeader('X-Request-Id'))
