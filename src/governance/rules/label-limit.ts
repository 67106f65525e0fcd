import { countAddedLabels } from '../../db/queries/rules.ts'
import { mostLabels } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError } from '../errors.ts'
import type { AnyBody } from './rule-kinds.ts'

const labelsOf = (body: AnyBody | null): readonly string[] =>
  body !== null && 'add_labels' in body && body.status === 'active' ? body.add_labels : []

/**
 * Checks a change of a label rule from `before` to `after`. Throws `validation_error` if all active label rules of the
 * organization together would add more than `mostLabels` different labels after the change. Even above the limit, a
 * change is allowed if it does not increase this number. Call this function under the chain's lock.
 */
export async function refuseManyLabels(
  tx: ChainTx,
  id: string,
  before: AnyBody | null,
  after: AnyBody,
): Promise<void> {
  const added = labelsOf(after)
  if (added.length === 0) return
  const [counted] = await tx.send(
    countAddedLabels({ organizationId: tx.organizationId, id, before: labelsOf(before), after: added }),
  )
  const { then, now } = counted as { then: number; now: number }
  if (now <= Math.max(mostLabels, then)) return
  const message = `the active label rules of the organization would add ${now} labels together, at most ${mostLabels}: delete a label rule or add fewer`
  throw new DomainError('validation_error', message, [{ path: 'add_labels', message }])
}
