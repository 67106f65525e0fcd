import type { ChainTx } from '../../audit/chain-tx.ts'
import type { StepOp } from './step-op.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'

/**
 * A run while the organization's lock is held: the transaction, the rows that its batch shares, and the run's own row.
 */
export interface LockedRun {
  readonly tx: ChainTx
  readonly ledger: Ledger
  readonly run: RunState
}

/** One call of a run, while the lock is held. */
export interface LockedCall extends LockedRun {
  readonly effect: EffectRecord
}

/** A call that is being decided. */
export interface DecidingCall extends LockedCall {
  readonly op: StepOp
}
