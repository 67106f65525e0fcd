import type { Repeat } from '../../../../src/catalog/tool.ts'
import type { Fault } from '../../../support/fault-proxy.ts'
import type { Ended, FaultService } from './service.ts'

export const once: Ended = { state: 'completed', made: 1 }
const failed = (error: string): Ended => ({ state: 'failed', made: 0, error })
/** The end of a call about which a person is asked. */
export const unknown = (made: number): Ended => ({ state: 'unknown_outcome', made })

/** A fault of the first request only. */
export function first(fault: Fault): () => Fault {
  let isUsed = false
  return () => {
    if (isUsed) return 'pass'
    isUsed = true
    return fault
  }
}

/** A fault of the writes of one call. */
export interface Row {
  readonly name: string
  /** Makes the function that chooses the faults of one new call. */
  readonly ofWrites: () => () => Fault
  /** The end of a call that can be looked for, or that the service recognizes by its key. */
  readonly ended: Ended
  /** The end of an `unsafe` call, if it differs. */
  readonly unsafe?: Ended
}

const common: readonly Row[] = [
  { name: 'nothing goes wrong', ofWrites: () => () => 'pass', ended: once },
  {
    name: 'the answer is lost after the request was carried out',
    ofWrites: () => first('lose answer'),
    ended: once,
    unsafe: unknown(1),
  },
  { name: 'the connection is cut before', ofWrites: () => first('cut'), ended: once, unsafe: unknown(0) },
  {
    name: 'the connection is cut before, each time',
    ofWrites: () => () => 'cut',
    ended: failed('not_made'),
    unsafe: unknown(0),
  },
  { name: 'the answer comes slowly', ofWrites: () => first('slow'), ended: once },
  {
    name: 'the answer breaks off',
    ofWrites: () => first('break off'),
    ended: once,
    unsafe: unknown(1),
  },
  {
    name: 'HTML comes back for a request that was carried out',
    ofWrites: () => first('garble'),
    ended: once,
    unsafe: unknown(1),
  },
  {
    name: '502 comes back for a request that was carried out',
    ofWrites: () => first('fail after'),
    ended: once,
    unsafe: unknown(1),
  },
  { name: '503 comes back', ofWrites: () => first({ status: 503 }), ended: once, unsafe: unknown(0) },
  {
    name: '503 comes back each time',
    ofWrites: () => () => ({ status: 503 }),
    ended: failed('not_made'),
    unsafe: unknown(0),
  },
  {
    name: '429 comes back',
    ofWrites: () => first({ status: 429, headers: { 'retry-after': '7' } }),
    ended: once,
  },
]

/** Every fault of a write to the service. */
export function rowsOf({ codes, refusals }: FaultService): readonly Row[] {
  const refused = Object.entries(refusals).map(([name, [answer, code]]): Row => {
    return { name, ofWrites: () => () => answer, ended: failed(code) }
  })
  return [
    ...common,
    {
      name: '429 comes back each time',
      ofWrites: () => () => ({ status: 429 }),
      ended: failed(codes.rateLimited),
    },
    {
      name: 'it is redirected to another host',
      ofWrites: () => () => ({ status: 307, headers: { location: 'http://127.0.0.1:9/' } }),
      ended: failed(codes.redirected),
    },
    ...refused,
  ]
}

export function endedOf(row: Row, repeat: Repeat, mayStillAppear: boolean): Ended {
  if (row.unsafe === undefined) return row.ended
  // A call that was not made looks like one that the service does not list yet.
  if (mayStillAppear && row.unsafe.made === 0) return row.unsafe
  return repeat === 'unsafe' ? row.unsafe : row.ended
}

/** Whether a call kept its promise: it happened once, or never and its step failed, or a person is asked. */
export const keepsPromise = ({ state, made }: Ended): boolean =>
  state === 'unknown_outcome' ? made <= 1 : made === (state === 'completed' ? 1 : 0)
