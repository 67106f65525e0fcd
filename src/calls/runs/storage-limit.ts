import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { Label } from '../../policy/types.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver, storageOver } from '../../governance/limits/storage.ts'
import type { Refused } from './call.ts'
import type { EffectRecord, RunState, LockedRun } from './ledger.ts'

/**
 * One run stores at most this many bytes of sealed parameters, outputs and label sources. This is enough for 10,000
 * items with 100 kB each. The limit keeps one run from filling a disk that all organizations share.
 */
export const mostStoredBytes = 1024 ** 3

/** The error of a call for which the run has no storage left. */
export const runTooLarge: StepError = {
  code: 'run_too_large',
  message:
    'the run would store more than 1 GiB of parameters and outputs: pass smaller values, or split it into several runs',
}

/**
 * Returns the size of label sources in bytes. In a workflow of 1,000 steps, the label sources of one call can have 100
 * kB. The call's row stores a copy of the label sources, and so does each decision on the call.
 */
export function sourceBytes(sources: readonly LabelSource[]): number {
  return sources.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(sources))
}

/** Returns the size of a list of labels in bytes. */
export const labelBytes = (labels: readonly Label[]): number =>
  labels.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(labels))

/**
 * Returns whether the run may store `bytes` more bytes. Call this function under the chain lock, in the transaction
 * that stores the bytes.
 */
export function fitsRun(run: RunState, bytes: number): boolean {
  return bytes === 0 || run.stored_bytes + bytes <= mostStoredBytes
}

/**
 * Returns whether the run has storage for the call. A new call stores its row and a decision. A retried call stores
 * only a decision. `params` and `sources` are the bytes of the sealed parameters and of the label sources.
 */
export function callFitsRun(
  run: RunState,
  known: EffectRecord | undefined,
  params: number,
  sources: number,
): boolean {
  if (known === undefined) return fitsRun(run, params + 2 * sources)
  return known.state !== 'retry' || fitsRun(run, sources)
}

/**
 * Returns the limit of the organization that stops the call now; null if no limit stops the call.
 *
 * - A call in progress is never stopped.
 * - `storage_mb` stops a call if the organization would store more than this limit. The parameters of a new call count.
 *   If an output did not fit at an earlier attempt, this output counts too.
 * - `pending_approvals` stops only a new call that would be held.
 *
 * `bytes` is the size of the sealed parameters.
 */
export function organizationLimitReached(
  tx: ChainTx,
  known: EffectRecord | undefined,
  bytes: number,
  wouldBeHeld: () => boolean,
): Exceeded | null {
  if (known?.state === 'intent' || known?.state === 'sent') return null
  if (known !== undefined) return storageOver(tx, known.error?.bytes)
  const over = storageOver(tx, bytes)
  if (over !== null) return over
  const full = approvalsOver(tx)
  return full !== null && wouldBeHeld() ? full : null
}

/**
 * Stores in the run's row why the run waits. The call is decided many times while it waits, perhaps for days. So the
 * wait does not count as an attempt and writes no audit entry.
 */
export function waitForOrganizationLimit(
  { ledger, run }: LockedRun,
  { limit, value }: Exceeded,
): Extract<Refused, { state: 'no_room' }> {
  const what = limit === 'storage_mb' ? `${value} MiB` : `${value} approvals that wait for a person`
  const reason = `the run waits: the organization is at its limit of ${what} (\`${limit}\`)`
  if (run.status_reason !== reason) {
    run.status_reason = reason
    ledger.dirtyRuns.add(run)
  }
  return { go: false, state: 'no_room' }
}

export function countStoredBytes({ ledger, run }: LockedRun, bytes: number): void {
  run.stored_bytes += bytes
  ledger.dirtyRuns.add(run)
}
