import type { ChainTx } from '../../audit/chain-tx.ts'
import { DomainError } from '../../errors.ts'

/* What starts of runs share when no person is there to read an error: those of triggers, and of many runs again. */

/** For a row: why no run was started. */
export function whyNot(error: DomainError): string {
  const isGone = error.code === 'not_found' && error.message.startsWith('no organization')
  const message = isGone
    ? 'the service account was deleted: choose another one for the trigger'
    : [error.message, ...error.details.slice(0, 1).map((each) => each.message)]
        .filter((each, at, [first = '']) => at === 0 || !first.includes(each))
        .join(': ')
  return message.slice(0, 500).toWellFormed().replaceAll('\0', '')
}

/** Thrown if it must be tried again later: nothing that passes may lose it. */
export class StillWaits extends Error {}

export function waitForThaw({ policy }: ChainTx): void {
  if (policy.frozen !== null) throw new StillWaits('the organization is frozen')
}
