import { groupsCalled } from '../../db/queries/people.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { hasRole } from '../access/scopes.ts'
import { roleUnderLock } from '../access/recheck.ts'
import type { PrepareChange } from '../approvals/vote.ts'
import { baseOf, openChange, type PendingChange } from '../approvals/change.ts'
import { usualTerms, type Changer } from '../changes/gate.ts'
import { DomainError } from '../errors.ts'
import { quotaExceeded } from '../limits/run-quota.ts'
import { operations, type Applying } from './operations.ts'

/**
 * Makes a change as its requester asked for it, if what it changes is as it was then and the requester may still make
 * it. Throws what the change throws: then the vote does not count, and the approval stays pending.
 */
export const prepareChange =
  (context: Applying): PrepareChange =>
  async (tx, { id, requested_by: requester }, approver) => {
    const { params_sealed: sealed, email } = await tx.trx
      .selectFrom('approvals as a')
      .innerJoin('users as u', 'u.id', 'a.requested_by')
      .select(['a.params_sealed', 'u.email'])
      .where('a.id', '=', id)
      .executeTakeFirstOrThrow()
    if (sealed === null) return { because: 'what it would change is no longer stored' }
    const change = await openChange(context.sealer, id, sealed)
    const role = await roleUnderLock(tx, requester)
    if (role === null || !hasRole(role, change.role))
      return { because: `the person who asked for it has no longer the role \`${change.role}\`` }
    const changer: Changer = {
      userId: requester,
      keyId: null,
      organizationId: tx.organizationId,
      email,
      ip: null,
      ...(approver.requestId === undefined ? {} : { requestId: approver.requestId }),
      cause: { requested_by: requester, approved_by: approver.userId, approval_id: id },
    }
    const names = change.groups.map(({ name }) => name)
    // Before the change is validated again, because a group that is gone is an error there.
    const groups = await tx.send(groupsCalled(tx.organizationId, names))
    if (canonicalJson(groups) !== canonicalJson(change.groups)) return changedMeanwhile
    const prepared = await preparedFrom(change, (operation) =>
      operation({ context, tx, changer, secret: change.secret }, change.request.given),
    )
    if (prepared === null || baseOf(prepared.before, prepared.reliesOn?.() ?? []) !== change.base)
      return changedMeanwhile
    if (prepared.managed != null) return fromFilesMeanwhile
    const why = await prepared.whyLooser(usualTerms(context), () => Promise.resolve(new Set()))
    if (why.some((reason) => !change.why.includes(reason))) return looserMeanwhile
    const over = (await prepared.over?.()) ?? null
    if (over !== null) throw quotaExceeded(over)
    return prepared
  }

const changedMeanwhile = { because: 'what it would change was changed meanwhile' }
const fromFilesMeanwhile = { because: 'what it would change comes from files now' }
const looserMeanwhile = { because: 'with what was changed meanwhile, it would do more than its reasons say' }

type Operation = (typeof operations)[string]

/** null if what it would change is gone. */
async function preparedFrom(
  { request }: PendingChange,
  prepare: (operation: Operation) => ReturnType<Operation>,
) {
  const operation = operations[request.operation]
  if (operation === undefined) throw new Error(`no operation ${request.operation}`)
  try {
    return await prepare(operation)
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found') return null
    throw error
  }
}
