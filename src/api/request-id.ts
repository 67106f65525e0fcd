import { randomUUID } from 'node:crypto'

/** What an incoming `X-Request-Id` may be: kept, it goes into logs and headers. */
const acceptable = /^[A-Za-z0-9._:/+=@-]{1,128}$/

export function requestId(incoming: string | string[] | undefined): string {
  return typeof incoming === 'string' && acceptable.test(incoming) ? incoming : randomUUID()
}
