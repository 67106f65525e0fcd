import { newestDecisions, decidedCalls, type CallDecision, type DecidedCall } from '../../db/queries/rules.ts'
import type { Db } from '../../db/schema/index.ts'
import { readBounded } from '../bounded-read.ts'

export type { DecidedCall } from '../../db/queries/rules.ts'

/** A backtest examines at most this many of the newest decisions. */
export const mostDecisions = 5_000
/** The sealed parameters of the examined calls have at most this many bytes together. */
export const mostParamBytes = 32 * 1024 ** 2
/** At most this many decisions are read and replayed together, as one slice. */
const sliceRows = 50
/** The sealed parameters of one slice have at most this many bytes. A single call may have more. */
const sliceBytes = 4 * 1024 ** 2

/** A period. `since` is inclusive and `until` is exclusive; null means no limit. */
export interface Window {
  readonly since: Date | null
  readonly until: Date | null
}

/** The calls of a window. */
export interface ListedCalls {
  readonly slices: readonly (readonly string[])[]
  /** The limit that leaves out older calls; null if no call is left out. */
  readonly limit: 'decisions' | 'bytes' | null
}

/**
 * Lists the newest calls that were decided in the window. Reads at most `mostDecisions` decisions. The calls have at
 * most `mostParamBytes` of parameters together.
 */
export async function listCalls(db: Db, organizationId: string, window: Window): Promise<ListedCalls> {
  const { rows } = await readBounded(db, (trx) =>
    newestDecisions(organizationId, window, mostDecisions + 1).execute(trx),
  )
  const calls = firstDecisions(rows.slice(0, mostDecisions))
  const fitting = withinBytes(calls)
  const cutByBytes = fitting.length < calls.length ? 'bytes' : null
  return {
    slices: inSlices(fitting),
    limit: cutByBytes ?? (rows.length > mostDecisions ? 'decisions' : null),
  }
}

/** Reads the calls of one slice. Leaves out a call whose decision was deleted meanwhile. */
export async function readSlice(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<readonly DecidedCall[]> {
  return (await readBounded(db, (trx) => decidedCalls(organizationId, ids).execute(trx))).rows
}

/**
 * Returns the first decision of each call. A call is decided again when it is retried, and after it was approved. The
 * newest decision comes first, in `decisions` and in the result.
 */
export function firstDecisions(decisions: readonly CallDecision[]): CallDecision[] {
  const known = new Set<string>()
  const first: CallDecision[] = []
  for (const decision of decisions.toReversed()) {
    const names = namesOf(decision)
    if (!names.some((name) => known.has(name))) first.push(decision)
    for (const name of names) known.add(name)
  }
  return first.reverse()
}

/** Returns the names of the decided call. Two decisions belong to the same call if they have a name in common. */
function namesOf(decision: CallDecision): string[] {
  const { run_id, step_id, item_index, session_id, tool_use_id, params_hash, approval_id, supersedes_id } =
    decision
  if (session_id === null) return [`${run_id}/${step_id}/${item_index}`]
  const use = tool_use_id === null ? [] : [`${session_id}/${params_hash}/${tool_use_id}`]
  return [...use, ...[approval_id, supersedes_id].filter((id) => id !== null)]
}

function withinBytes(calls: readonly CallDecision[]): readonly CallDecision[] {
  let bytes = 0
  const over = calls.findIndex((call) => (bytes += call.bytes) > mostParamBytes)
  return over < 0 ? calls : calls.slice(0, over)
}

function inSlices(calls: readonly CallDecision[]): string[][] {
  const slices: string[][] = []
  let bytes = 0
  for (const call of calls) {
    const last = slices.at(-1)
    const fits = last !== undefined && last.length < sliceRows && bytes + call.bytes <= sliceBytes
    if (fits) last.push(call.id)
    else slices.push([call.id])
    bytes = fits ? bytes + call.bytes : call.bytes
  }
  return slices
}
