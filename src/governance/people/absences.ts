import { sql } from 'kysely'
import { absenceColumn, type Absence } from '../../db/queries/absences.ts'
import type { Db } from '../../db/schema/index.ts'
import type { JsonObject } from '../../policy/types.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { errorAt } from '../errors.ts'
import { noMember, peopleNamed } from './groups.ts'
import { isServiceAccount } from './service-accounts.ts'

/* While a person is away, their deputy decides what they could decide (src/governance/approvals/rights.ts). */

export const mostAbsentDays = 92

export interface AbsenceView {
  readonly organization_id: string
  /** Null if the person is not away, and will not be. */
  readonly absence: Absence | null
}

export async function readAbsence(
  db: Db,
  { organizationId, userId }: Pick<Caller, 'organizationId' | 'userId'>,
): Promise<AbsenceView> {
  const row = await db
    .selectFrom('memberships as m')
    .select(absenceColumn.as('absence'))
    .where('m.organization_id', '=', organizationId)
    .where('m.user_id', '=', userId)
    .executeTakeFirst()
  return { organization_id: organizationId, absence: row?.absence ?? null }
}

export interface AbsenceInput {
  readonly from: Date
  readonly until: Date
  /** The id or mail address of a member of the organization. */
  readonly deputy: string
}

/** Replaces an earlier one. Votes that it does not cover count no more. Throws `validation_error`. */
export async function setAbsence(
  context: Acting,
  caller: Caller,
  { from, until, deputy: named }: AbsenceInput,
): Promise<AbsenceView> {
  return runAs(context, caller, 'org.change', async (tx) => {
    if (until <= tx.now) throw errorAt('validation_error', 'until', 'must be in the future')
    const deputy = await deputyNamed(tx, caller, named)
    const { organizationId: organization_id, now: set_at } = tx
    const { absence: before } = await readAbsence(tx.trx, caller)
    const row = { deputy, from_at: from, until_at: until, set_at }
    await tx.trx
      .insertInto('absences')
      .values({ organization_id, user_id: caller.userId, ...row })
      .onConflict((known) => known.columns(['organization_id', 'user_id']).doUpdateSet(row))
      .execute()
    const view = await readAbsence(tx.trx, caller)
    await dropNotice(tx, caller.userId)
    tx.notice('absence', caller.userId, from <= tx.now ? null : from)
    tx.append({
      eventType: 'absence.set',
      action: 'set',
      actor: actorOf(caller),
      metadata: { before: recorded(before), after: recorded(view.absence) },
    })
    return view
  })
}

/** The votes of the deputy in it count no more. Changes nothing if there is none. */
export async function endAbsence(context: Acting, caller: Caller): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const { absence: before } = await readAbsence(tx.trx, caller)
    const { numDeletedRows } = await tx.trx
      .deleteFrom('absences')
      .where('organization_id', '=', tx.organizationId)
      .where('user_id', '=', caller.userId)
      .executeTakeFirst()
    if (numDeletedRows === 0n) return
    await dropNotice(tx, caller.userId)
    tx.append({
      eventType: 'absence.ended',
      action: 'end',
      actor: actorOf(caller),
      metadata: { before: recorded(before) },
    })
  })
}

const recorded = (absence: Absence | null): JsonObject =>
  absence === null ? {} : { ...absence, deputy: absence.deputy.user_id }

/** The notice of the absence's begin. */
const dropNotice = (tx: ChainTx, userId: string) =>
  tx.trx
    .deleteFrom('notices')
    .where('organization_id', '=', tx.organizationId)
    .where('kind', '=', 'absence')
    .where('subject', '=', userId)
    .execute()

async function deputyNamed(tx: ChainTx, caller: Caller, named: string): Promise<string> {
  const refuse = (message: string) => errorAt('validation_error', 'deputy', message)
  const id = (await peopleNamed(tx, [named])).get(named.toLowerCase())
  if (id === undefined) throw refuse(noMember(named))
  if (id === caller.userId) throw refuse('is you: name another member')
  const [row] = await tx.send(sql<{ deputy: boolean; own: boolean }>`
    select ${isServiceAccount(sql`${id}`)} as deputy, ${isServiceAccount(sql`${caller.userId}`)} as own`)
  if (row?.deputy === true) throw refuse('is a service account, which does not vote: name a person')
  if (row?.own === true) throw refuse('a service account does not vote, and needs no deputy')
  return id
}
