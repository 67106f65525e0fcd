import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { Label } from '../../policy/types.ts'
import type { LabelSource, StepError } from '../../db/schema/runs.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver, storageOver } from '../../governance/limits/storage.ts'
import type { Refused } from './call.ts'
import type { EffectRecord, RunState, LockedRun } from './ledger.ts'

/**
 * One run stores at most this many bytes of sealed parameters, outputs and label sources: 10,000 items with
 * 100 kB each. The limit keeps one run from filling a disk that all organizations share.
 */
export const mostStoredBytes = 1024 ** 3

export const runTooLarge: StepError = {
  code: 'run_too_large',
  message:
    'the run would store more than 1 GiB of parameters and outputs: pass smaller values, or split it into several runs',
}

/** The result is in bytes. One call can have 100 kB, stored in its row and in each decision. */
export function sourceBytes(sources: readonly LabelSource[]): number {
  return sources.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(sources))
}

/** The result is in bytes. */
export const labelBytes = (labels: readonly Label[]): number =>
  labels.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(labels))

/** Call this under the chain lock, in the transaction that stores the bytes. */
export function fitsRun(run: RunState, bytes: number): boolean {
  return bytes === 0 || run.stored_bytes + bytes <= mostStoredBytes
}

/** A retried call stores only a decision. `params` and `sources` are in bytes. */
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
 * The organization limit that stops the call now. A call in progress is never stopped. `pending_approvals`
 * stops only a new call that would be held. `storage_mb` counts the parameters of a new call, and an output
 * that did not fit at an earlier attempt. `bytes` is the size of the sealed parameters.
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

/** The call may be decided many times for days, so the wait is no attempt and writes no audit entry. */
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
