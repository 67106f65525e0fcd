import type { Fault } from '../../../support/fault-proxy.ts'
import { first } from './rows.ts'
import type { FaultService } from './service.ts'

/** A fault of the requests of one call that reads. */
export interface ReadRow {
  readonly name: string
  /** Makes the function that chooses the faults of one new call. `elsewhere`: the address of another host. */
  readonly ofReads: (elsewhere: string) => () => Fault
  /** The code of the failed step; null: the step completes. */
  readonly error: string | null
  /** Seconds that the service asks to wait. */
  readonly pause?: number
}

const each = (fault: Fault) => () => (): Fault => fault
const only = (fault: Fault) => () => first(fault)

export function readRowsOf({ codes, reads }: FaultService): readonly ReadRow[] {
  const unavailable = reads?.codes.unavailable ?? ''
  const limited = (headers: Record<string, string>): Fault => ({ status: 429, headers })
  return [
    { name: 'the connection is cut before', ofReads: only('cut'), error: null },
    { name: 'the connection is cut before, each time', ofReads: each('cut'), error: unavailable },
    { name: 'the answer is lost', ofReads: only('lose answer'), error: null },
    { name: 'the answer is lost each time', ofReads: each('lose answer'), error: unavailable },
    { name: 'the answer breaks off', ofReads: only('break off'), error: null },
    {
      name: '429 comes back with a pause',
      ofReads: only(limited({ 'retry-after': '7' })),
      error: null,
      pause: 7,
    },
    { name: '429 comes back without a pause', ofReads: only(limited({})), error: null },
    { name: '429 comes back each time', ofReads: each(limited({})), error: codes.rateLimited },
    { name: '502 comes back', ofReads: only({ status: 502 }), error: null },
    { name: '503 comes back each time', ofReads: each({ status: 503 }), error: unavailable },
    { name: '401 comes back each time', ofReads: each({ status: 401 }), error: 'connection_expired' },
    ...[301, 307].map((status): ReadRow => ({
      name: `${status} leads to another host`,
      ofReads: (location) => () => ({ status, headers: { location } }),
      error: codes.redirected,
    })),
  ]
}
