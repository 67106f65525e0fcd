import { callId } from '../../../contract/ids.ts'
import type { OnRepeat } from '../../../contract/status.ts'
import { readOpenInChain } from '../../../db/queries/reruns.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import { DomainError } from '../../errors.ts'

/** As a row of the new run keeps it. */
export interface MadeAgain {
  readonly of: string
  /** It is a run of another person. */
  readonly isOthers: boolean
  readonly chain: string
  readonly from: 'failed' | 'start' | readonly string[]
  readonly anew: readonly string[]
  /** The authors of the run from which it is made: they do not decide what the new one asks for either. */
  readonly authors: readonly string[]
  readonly onRepeat: OnRepeat
  readonly unknownHappened: boolean | null
}

/** Each run of a chain is read when a step looks for what was done. */
export const mostRunsOfChain = 20

/** Call it under the lock. Returns the ids of groups that see the values of all runs. Throws `bad_transition`. */
export async function requireEndedChain(
  tx: ChainTx,
  { chain, unknownHappened }: MadeAgain,
): Promise<readonly string[]> {
  const [found] = await tx.send(readOpenInChain(chain))
  if (found === undefined) return []
  if (found.open_run !== null)
    throw new DomainError(
      'bad_transition',
      `\`${found.open_run}\` was made from the same run and has not ended: wait for its end, or cancel it`,
    )
  if (found.runs >= mostRunsOfChain)
    throw new DomainError(
      'bad_transition',
      `the run was made again ${mostRunsOfChain - 1} times already: start the workflow anew`,
    )
  if (found.unknown !== null && unknownHappened === null) {
    const others = found.unknown_calls > 1 ? ` and ${found.unknown_calls - 1} more` : ''
    throw new DomainError(
      'bad_transition',
      `nobody knows whether the call \`${callId(found.unknown)}\`${others} took effect: look for it at the service, then say \`"unknown_outcomes": "happened"\`, or as an admin \`"did_not_happen"\``,
    )
  }
  return found.readers
}
