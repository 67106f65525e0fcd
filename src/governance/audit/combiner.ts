import type { BatchKind } from './batch.ts'
import type { ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'
import { Lane, type LaneOptions, type WaitingOperation } from './lane.ts'
import { LaneCache } from './lane-cache.ts'
import type { PolicyVersion } from './lane-transactions.ts'
import type { LoadedPolicy, LoadPolicy } from './policy-cache.ts'

export type { BatchKind } from './batch.ts'

/**
 * The only interface that appends to an organization's chain. Each process has one lane per organization, with at most
 * one transaction in flight.
 *
 * A lane is *idle* when no operation waits, and *draining* while a transaction is in flight. Operations that arrive in
 * this time wait, and share the next transaction. Each transaction locks `chain_head` before anything else. Under the
 * lock, the transaction reloads the policy if the policy's version has changed. Then it runs the operations in the
 * order of their arrival, writes, and commits. Operations are answered only after the commit. Neighbouring operations
 * of one family (batch.ts) read and write together. Each operation sees the effects of earlier operations. After a
 * change of the policy, the remaining operations wait for the next transaction.
 *
 * If an operation makes its batch fail or take too long, the batch runs again in two halves, in order. So in the end
 * only the bad operation fails, and the other operations still share commits. If the answer to a COMMIT is lost, the
 * lane takes the lock, and so waits until the lost transaction has ended. The lane then looks for the batch's last
 * entry in the chain. If the lane finds the entry, the batch was saved. If the entry is missing, the batch was not
 * saved, and the callers get an error.
 */
export interface Combiner {
  /** Runs one operation with its own statements. If its transaction fails, `work` may run again. */
  run<R>(organizationId: string, point: CommitPoint, work: (tx: ChainTx) => Promise<R>): Promise<R>
  /** Runs an operation that shares its reads and writes with neighbouring operations of its family (batch.ts). */
  join<Op, Shared, R>(organizationId: string, batch: BatchKind<Op, Shared, R>, op: Op): Promise<R>
  /**
   * `waiting`: the number of operations that wait for a transaction. `busy`: the number of organizations with a
   * transaction in flight.
   */
  load(): { readonly waiting: number; readonly busy: number }
  /**
   * Returns the policy of this version. Use this method if you have read the version without the chain's lock. If
   * memory holds another version or none, `load` reads the policy, which then stays in memory.
   */
  policy(organizationId: string, version: PolicyVersion, load: LoadPolicy): Promise<LoadedPolicy>
}

export interface CombinerOptions extends LaneOptions {
  /**
   * The process keeps the compiled policies of at most `count` organizations, and at most `bytes` bytes of them. Above
   * either limit, it drops the policies of idle organizations.
   */
  readonly kept?: { readonly count: number; readonly bytes: number }
}

const defaultKept = { count: 1_000, bytes: 128 * 1024 * 1024 }

export function createCombiner(options: CombinerOptions): Combiner {
  const lanes = new LaneCache<Lane>(options.kept ?? defaultKept)
  const events = { onLoaded: () => lanes.trim(), onIdle: (lane: Lane) => lanes.becameIdle(lane) }
  const laneOf = (organizationId: string): Lane =>
    lanes.laneOf(organizationId, () => new Lane(organizationId, options, events))
  const submit = <R>(
    organizationId: string,
    entry: Omit<WaitingOperation, 'resolve' | 'reject'>,
  ): Promise<R> =>
    new Promise<R>((resolve, reject) => {
      laneOf(organizationId).submit({ ...entry, resolve: resolve, reject })
    })
  return {
    run: (organizationId, point, work) => submit(organizationId, { point, kind: null, op: null, work }),
    join: (organizationId, kind, op) =>
      submit(organizationId, {
        point: kind.point,
        kind: kind,
        op,
        work: null,
      }),
    load: () => {
      let [waiting, busy] = [0, 0]
      for (const lane of lanes.all()) {
        waiting += lane.waiting
        if (!lane.idle) busy += 1
      }
      return { waiting, busy }
    },
    policy: (organizationId, version, load) => laneOf(organizationId).policy(version, load),
  }
}
