import type { BatchKind } from './batch.ts'
import type { ChainTx } from './chain-tx.ts'
import type { CommitPoint } from './commit-points.ts'
import { Lane, type LaneOptions, type WaitingOperation } from './lane.ts'
import { LaneCache } from './lane-cache.ts'
import type { PolicyVersion } from './lane-transactions.ts'
import type { LoadedPolicy, LoadPolicy } from './policy-cache.ts'

export type { BatchKind } from './batch.ts'

/**
 * The only interface that appends to an organization's chain. Each process has one lane per organization. A lane has at
 * most one transaction in flight.
 *
 * A lane is *draining* while operations wait or a transaction is in flight. Otherwise it is *idle*. Operations that
 * arrive while a transaction is in flight wait, and share the next transaction. Each transaction locks `chain_head`
 * before anything else. Under the lock, the transaction reloads the policy if the policy's version has changed. Then it
 * runs the operations in the order of their arrival, writes, and commits. The callers get their answers only after the
 * commit. Neighbouring operations of one family (batch.ts) read and write together. Each operation sees the effects of
 * earlier operations. If an operation changes the policy, the operations after it wait for the next transaction.
 *
 * If an operation makes its batch fail or take too long, the batch runs again in two halves, in order. So in the end
 * only the bad operation fails, and the other operations still share commits.
 *
 * If the answer to a COMMIT is lost, the lane locks `chain_head` again. It gets the lock only when the lost transaction
 * has ended. The lane then looks for the batch's last entry in the chain. If the lane finds the entry, the batch was
 * saved. If the entry is missing, the batch was not saved, and the callers get an error.
 */
export interface Combiner {
  /** Runs one operation with its own statements. If the transaction fails, `work` may run again. */
  run<R>(organizationId: string, point: CommitPoint, work: (tx: ChainTx) => Promise<R>): Promise<R>
  /** Runs an operation that shares its reads and writes with neighbouring operations of its family (batch.ts). */
  join<Op, Shared, R>(organizationId: string, batch: BatchKind<Op, Shared, R>, op: Op): Promise<R>
  /**
   * Returns the present load. `waiting` is the number of operations that wait for a transaction. `busy` is the number
   * of organizations whose lane is draining.
   */
  load(): { readonly waiting: number; readonly busy: number }
  /**
   * Returns the policy of this version. Use this method if you have read the version without the chain's lock. If
   * memory does not have this version, `load` reads the policy. The policy then stays in memory.
   */
  policy(organizationId: string, version: PolicyVersion, load: LoadPolicy): Promise<LoadedPolicy>
}

export interface CombinerOptions extends LaneOptions {
  /**
   * The limits of the compiled policies in memory: at most `count` organizations, and at most `bytes` bytes. Above
   * either limit, the process drops the policies of idle organizations.
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
