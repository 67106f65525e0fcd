import type { EndRow } from '../../db/queries/audit.ts'
import { chainStart, type ChainPosition } from './entry.ts'

/** Kept outside the database. `problem` says why it cannot be used. */
export type Kept =
  | {
      readonly seq: number
      readonly hash: string
      readonly note: string
      readonly isCurrent: boolean
    }
  | {
      /** 0 if the folder has no checkpoint of the chain any more. */
      readonly seq: number
      readonly problem: string
    }

export interface ChainEnd {
  readonly head: ChainPosition
  /**
   * The signed checkpoint of `head`. If the chain contradicts a usable kept one, or goes on behind it with an entry
   * that the service did not write, it is that one. null for every other `problem`.
   */
  readonly note: string | null
  /** Why the service signs no checkpoint of this chain. */
  readonly problem: string | null
}

/** What a verification compares a chain with. Read it before the chain. */
export interface Expected {
  readonly kept: Kept | null
  readonly known: readonly ChainPosition[]
}

/** The last known head that the chain lacks, or that lies behind its present head. `known` was read before `end`. */
export const lostOf = (known: readonly ChainPosition[], end: EndRow): ChainPosition | null =>
  known.findLast(({ seq, hash }) => seq > 0 && (seq > end.seq || end.known?.[seq] !== hash)) ?? null

export function lostProblem(lost: ChainPosition | null, end: ChainPosition): string | null {
  if (lost === null) return null
  return lost.seq > end.seq
    ? `the chain is cut: this process has committed or signed ${lost.seq} entries`
    : `entry ${lost.seq} is not the entry that this process has committed or signed`
}

/** Describes the first difference to the checkpoint that was read before. */
export function keptProblem(kept: Kept | null, end: EndRow): string | null {
  if (kept === null) return null
  if ('problem' in kept)
    return kept.seq === 0
      ? kept.problem
      : `the kept checkpoint of ${kept.seq} entries cannot be used: ${kept.problem}`
  if (kept.seq > end.seq || (kept.seq > 0 && end.kept_hash === null))
    return `the chain is cut: its kept checkpoint has ${kept.seq} entries`
  if (kept.seq > 0 && end.kept_hash !== kept.hash)
    return `entry ${kept.seq} is not the entry of the kept checkpoint`
  return null
}

export const headProblem = (end: EndRow): string | null =>
  end.hash === (end.seq === chainStart.seq ? chainStart.hash : end.last_hash)
    ? null
    : `the head of the chain is not its entry ${end.seq}`

export const foreignProblem = (seq: number): string => `the service did not write entry ${seq}`

export const goneProblem =
  'the database has no audit log of this organization any more: bring it back, or move the folder of the organization out of AUDIT_CHECKPOINT_DIR and keep it'
