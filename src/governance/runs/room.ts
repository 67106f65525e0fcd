import type { StepError } from '../../db/schema/runs.ts'
import type { Ledger, RunState } from './ledger.ts'

/**
 * Most bytes of sealed parameters and outputs that one run keeps. 10,000 items with 100 kB each, or 32 outputs of the
 * largest size, fit; more is a run that fills a disk which all organizations share, on purpose or by mistake.
 */
export const mostStoredBytes = 1024 ** 3

/** What a call ends with that the run has no room for. */
export const outOfRoom: StepError = {
  code: 'run_too_large',
  message:
    'the run would keep more than 1 GiB of parameters and outputs: hand on smaller values, or split it into several runs',
}

/** Whether the run may keep so many bytes more. Counted under the chain lock, in the transaction that stores them. */
export function hasRoom(run: RunState, bytes: number): boolean {
  return run.stored_bytes + bytes <= mostStoredBytes
}

/** Counts what the run keeps from now on. */
export function takeRoom(ledger: Ledger, run: RunState, bytes: number): void {
  run.stored_bytes += bytes
  ledger.dirtyRuns.add(run)
}
