import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { StepOp } from './step-op.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'

/**
 * A run that may be changed, because the transaction `tx` holds the organization's lock. `run` is the run's row.
 * `ledger` contains the rows that all operations of the transaction share.
 */
export interface LockedRun {
  readonly tx: ChainTx
  readonly ledger: Ledger
  readonly run: RunState
}

/** One call of a run, while the organization's lock is held. `effect` is the call's row. */
export interface LockedCall extends LockedRun {
  readonly effect: EffectRecord
}

export interface DecidingCall extends LockedCall {
  readonly op: StepOp
}
