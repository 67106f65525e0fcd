import type { EndRow } from '../../db/queries/audit.ts'
import { chainStart, type ChainPosition } from './entry.ts'

/** The checkpoint that is kept outside the database for a chain, or the reason why this checkpoint cannot be used. */
export type Kept =
  | {
      readonly seq: number
      readonly hash: string
      readonly note: string
      /** Whether the present key has signed the note. */
      readonly isCurrent: boolean
    }
  | {
      /** Is 0 if the folder has no checkpoint of the chain any more. */
      readonly seq: number
      readonly problem: string
    }

/** The end of a chain, with the checkpoint that belongs to it. */
export interface ChainEnd {
  readonly head: ChainPosition
  /**
   * The signed checkpoint of `head`. If the chain contradicts a usable kept checkpoint, or goes on behind it with an
   * entry that the service did not write, this is the kept checkpoint instead. Is null for every other `problem`.
   */
  readonly note: string | null
  /** Why the service signs no checkpoint of this chain. Is null if the service signs one. */
  readonly problem: string | null
}

/** The values with which a verification compares a chain. The caller must read them before it reads the chain. */
export interface Expected {
  readonly kept: Kept | null
  /** Heads that this process has committed or signed. */
  readonly known: readonly ChainPosition[]
}

/**
 * Returns the last head that this process knew before it read the end, and that the chain lacks, or that lies behind the
 * present head.
 */
export const lostOf = (known: readonly ChainPosition[], end: EndRow): ChainPosition | null =>
  known.findLast(({ seq, hash }) => seq > 0 && (seq > end.seq || end.known?.[seq] !== hash)) ?? null

export function lostProblem(lost: ChainPosition | null, end: ChainPosition): string | null {
  if (lost === null) return null
  return lost.seq > end.seq
    ? `the chain is cut: this process has committed or signed ${lost.seq} entries`
    : `entry ${lost.seq} is not the entry that this process has committed or signed`
}

/**
 * Compares the end of a chain with the checkpoint that was read before. Returns a sentence that describes the first
 * difference; null if there is none.
 */
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

/** Returns a sentence if the head of a chain is not the newest entry; null if it is. */
export const headProblem = (end: EndRow): string | null =>
  end.hash === (end.seq === chainStart.seq ? chainStart.hash : end.last_hash)
    ? null
    : `the head of the chain is not its entry ${end.seq}`

/** Says that the newest entry has no valid code (entry-macs.ts). */
export const foreignProblem = (seq: number): string => `the service did not write entry ${seq}`

/** Says that a whole audit log is gone. */
export const goneProblem =
  'the database has no audit log of this organization any more: bring it back, or move the folder of the organization out of AUDIT_CHECKPOINT_DIR and keep it'
