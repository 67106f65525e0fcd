import type { Repeat } from '../../../src/tools/kit/tool.ts'
import type { Fault } from '../../support/fault-proxy.ts'
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

/** `of` makes the function that chooses the faults of one new call. */
const row = (name: string, of: () => () => Fault, ended: Ended, unsafe?: Ended): Row => ({
  ...{ name, ofWrites: of, ended },
  ...(unsafe !== undefined && { unsafe }),
})
const each = (fault: Fault) => () => (): Fault => fault
const only = (fault: Fault) => () => first(fault)
const unavailable: Fault = { status: 503 }
const limited: Fault = { status: 429, headers: { 'retry-after': '7' } }
const elsewhere: Fault = { status: 307, headers: { location: 'http://127.0.0.1:9/' } }

const common: readonly Row[] = [
  row('nothing goes wrong', each('pass'), once),
  row('the answer is lost after the request was carried out', only('lose answer'), once, unknown(1)),
  row('the connection is cut before', only('cut'), once, unknown(0)),
  row('the connection is cut before, each time', each('cut'), failed('not_made'), unknown(0)),
  row('the answer comes slowly', only('slow'), once),
  row('the answer breaks off', only('break off'), once, unknown(1)),
  row('HTML comes back for a request that was carried out', only('garble'), once, unknown(1)),
  row('502 comes back for a request that was carried out', only('fail after'), once, unknown(1)),
  row('503 comes back', only(unavailable), once, unknown(0)),
  row('503 comes back each time', each(unavailable), failed('not_made'), unknown(0)),
  row('429 comes back', only(limited), once),
]

/** Every fault of a write to the service. */
export const rowsOf = ({ codes, refusals }: FaultService): readonly Row[] => [
  ...common,
  row('429 comes back each time', each({ status: 429 }), failed(codes.rateLimited)),
  row('it is redirected to another host', each(elsewhere), failed(codes.redirected)),
  ...Object.entries(refusals).map(([name, [answer, code]]) => row(name, each(answer), failed(code))),
]

export function endedOf(row: Row, repeat: Repeat, mayStillAppear: boolean): Ended {
  if (row.unsafe === undefined) return row.ended
  // A call that was not made looks like one that the service does not list yet.
  if (mayStillAppear && row.unsafe.made === 0) return row.unsafe
  return repeat === 'unsafe' ? row.unsafe : row.ended
}

/** Whether a call kept its promise: it happened once, or never and its step failed, or a person is asked. */
export const keepsPromise = ({ state, made }: Ended): boolean =>
  state === 'unknown_outcome' ? made <= 1 : made === (state === 'completed' ? 1 : 0)
