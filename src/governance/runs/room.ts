import type { ChainTx } from '../chain-tx.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import type { Exceeded } from '../quotas/run-quota.ts'
import { approvalsOver, storageOver } from '../quotas/storage.ts'
import type { StepOp } from './effect.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'

/**
 * Most bytes of sealed parameters, outputs and label sources that one run keeps. 10,000 items with 100 kB each, or 32 outputs of the
 * largest size, fit; more is a run that fills a disk which all organizations share, on purpose or by mistake.
 */
export const mostStoredBytes = 1024 ** 3

/** What a call ends with that the run has no room for. */
export const outOfRoom: StepError = {
  code: 'run_too_large',
  message:
    'the run would keep more than 1 GiB of parameters and outputs: hand on smaller values, or split it into several runs',
}

/** Where labels come from: with 1,000 steps a list of 100 kB, in a call's row and in each of its decisions. */
export function sourceBytes(sources: readonly LabelSource[]): number {
  return sources.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(sources))
}

/** Whether the run may keep so many bytes more. Counted under the chain lock, in the transaction that stores them. */
export function hasRoom(run: RunState, bytes: number): boolean {
  return bytes === 0 || run.stored_bytes + bytes <= mostStoredBytes
}

/** A new call needs room for its row and a decision, one that failed and is tried again for another decision. */
export function fitsInto(run: RunState, known: EffectRecord | undefined, op: StepOp): boolean {
  const sources = sourceBytes(op.labelSources)
  if (known === undefined) return hasRoom(run, op.sealed.length + 2 * sources)
  return known.state !== 'retry' || hasRoom(run, sources)
}

/**
 * Whether the organization lacks room for a call: over `storage_mb`, counting the last output of a call whose output found
 * none; and over `pending_approvals`, for a new call that would be held. A call that is under way goes on.
 */
export function lacksRoom(
  tx: ChainTx,
  known: EffectRecord | undefined,
  op: StepOp,
  wouldBeHeld: () => boolean,
): Exceeded | null {
  if (known?.state === 'intent' || known?.state === 'sent') return null
  if (known !== undefined) return storageOver(tx, known.error?.bytes)
  const over = storageOver(tx, op.sealed.length)
  if (over !== null || !op.wanted || op.problem !== null) return over
  const full = approvalsOver(tx)
  return full !== null && wouldBeHeld() ? full : null
}

/** What is said of a call for which the organization has no room. */
export interface NoRoom {
  readonly go: false
  readonly state: 'no_room'
}

/** The run says what it waits for. No attempt is used up, and nothing is audited: it may be so for days. */
export function waitForRoom(ledger: Ledger, run: RunState, { limit, value }: Exceeded): NoRoom {
  const what = limit === 'storage_mb' ? `${value} MiB` : `${value} approvals that wait for a person`
  const reason = `the run waits for room: the organization is at its limit of ${what} (\`${limit}\`)`
  if (run.status_reason !== reason) {
    run.status_reason = reason
    ledger.dirtyRuns.add(run)
  }
  return { go: false, state: 'no_room' }
}

/** Counts what the run keeps from now on. */
export function takeRoom(ledger: Ledger, run: RunState, bytes: number): void {
  run.stored_bytes += bytes
  ledger.dirtyRuns.add(run)
}
