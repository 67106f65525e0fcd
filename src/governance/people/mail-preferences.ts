import { usualMailDelay } from '../../contract/mail-delay.ts'
import type { Db } from '../../db/schema/index.ts'
import { isTimeZone } from '../../policy/builtins.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface MailPreferences {
  readonly organization_id: string
  readonly mail: boolean
  /** No mail is sent if somebody decides earlier. */
  readonly delay_seconds: number
  /** The person’s, in all their organizations; null: UTC. */
  readonly time_zone: string | null
}

export async function readMailPreferences(db: Db, caller: Caller): Promise<MailPreferences> {
  const { organizationId: organization_id, userId } = caller
  const row = await db
    .selectFrom('users as u')
    .leftJoin('mail_preferences as p', (join) =>
      join.onRef('p.user_id', '=', 'u.id').on('p.organization_id', '=', organization_id),
    )
    .select(['p.mail', 'p.delay_seconds', 'u.time_zone'])
    .where('u.id', '=', userId)
    .executeTakeFirstOrThrow()
  const { mail, delay_seconds, time_zone } = row
  return { organization_id, mail: mail ?? true, delay_seconds: delay_seconds ?? usualMailDelay, time_zone }
}

/** They also apply to mails that wait already. Without `time_zone`, it stays. */
export async function changeMailPreferences(
  context: Acting,
  caller: Caller,
  change: Pick<MailPreferences, 'mail' | 'delay_seconds'> & {
    readonly time_zone?: string | null | undefined
  },
): Promise<MailPreferences> {
  const { mail, delay_seconds, time_zone } = change
  return runAs(context, caller, 'org.change', async (tx) => {
    const { organizationId: organization_id, userId: user_id } = caller
    await tx.trx
      .insertInto('mail_preferences')
      .values({ organization_id, user_id, mail, delay_seconds })
      .onConflict((row) => row.columns(['organization_id', 'user_id']).doUpdateSet({ mail, delay_seconds }))
      .execute()
    if (time_zone !== undefined)
      await tx.trx.updateTable('users').set({ time_zone }).where('id', '=', user_id).execute()
    tx.append({
      eventType: 'member.mails_changed',
      action: 'change_mails',
      actor: actorOf(caller),
      metadata: { mail, delay_seconds, ...(time_zone === undefined ? {} : { time_zone }) },
    })
    return readMailPreferences(tx.trx, caller)
  })
}

/** Keeps the zone of the browser in which the person signs in, unless they have one. Ignores a zone that is none. */
export async function noteTimeZone(db: Db, email: string, given: string | null): Promise<void> {
  if (given === null || !isTimeZone(given)) return
  await db
    .updateTable('users')
    .set({ time_zone: given })
    .where((eb) => eb(eb.fn<string>('lower', ['email']), '=', email.toLowerCase()))
    .where('time_zone', 'is', null)
    .execute()
}
