import { newestDecisions, type CallDecision } from '../../db/queries/rules/list-decided-calls.ts'
import { decidedCalls, type DecidedCall } from '../../db/queries/rules/read-decided-calls.ts'
import type { Db } from '../../db/schema/index.ts'
import { readBounded } from '../bounded-read.ts'

export type { DecidedCall } from '../../db/queries/rules/read-decided-calls.ts'

/** A backtest examines at most this many of the newest decisions. */
export const mostDecisions = 5_000
/** The sealed parameters of the examined calls have at most this many bytes together. */
export const mostParamBytes = 32 * 1024 ** 2
/** Decisions that are read and replayed together. */
const sliceRows = 50
/** The sealed parameters of one slice have at most this many bytes. A single call may have more. */
const sliceBytes = 4 * 1024 ** 2

/** A period. `since` is inclusive and `until` is exclusive; null means no limit. */
export interface Window {
  readonly since: Date | null
  readonly until: Date | null
}

/** The first decision of each call in a window, the newest first. */
export interface ListedCalls {
  readonly slices: readonly (readonly string[])[]
  /** The limit that leaves out older calls; null if no call is left out. */
  readonly limit: 'decisions' | 'bytes' | null
}

/** Lists the calls that were decided in the window, at most `mostDecisions` and `mostParamBytes`. */
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

/** Reads one slice. A call of which nothing is left is missing from the result. */
export async function readSlice(
  db: Db,
  organizationId: string,
  ids: readonly string[],
): Promise<readonly DecidedCall[]> {
  return (await readBounded(db, (trx) => decidedCalls(organizationId, ids).execute(trx))).rows
}

/**
 * Returns the first decision of each call. A call is decided again when it is retried, and when it was approved.
 * `decisions` are the newest first, and so is the result.
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

/** Two decisions are about one call if they share a name. */
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
