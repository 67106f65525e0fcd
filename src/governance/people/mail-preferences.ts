import { usualMailDelay } from '../../contract/mail-delay.ts'
import type { Db } from '../../db/schema/index.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'

export interface MailPreferences {
  readonly organization_id: string
  readonly mail: boolean
  /** No mail is sent if somebody decides earlier. */
  readonly delay_seconds: number
}

export async function readMailPreferences(db: Db, caller: Caller): Promise<MailPreferences> {
  const { organizationId: organization_id } = caller
  const row = await db
    .selectFrom('mail_preferences')
    .select(['organization_id', 'mail', 'delay_seconds'])
    .where('organization_id', '=', organization_id)
    .where('user_id', '=', caller.userId)
    .executeTakeFirst()
  return row ?? { organization_id, mail: true, delay_seconds: usualMailDelay }
}

/** They also apply to mails that wait already. */
export async function changeMailPreferences(
  context: Acting,
  caller: Caller,
  { mail, delay_seconds }: Omit<MailPreferences, 'organization_id'>,
): Promise<MailPreferences> {
  return runAs(context, caller, 'org.change', async (tx) => {
    const { organizationId: organization_id, userId: user_id } = caller
    await tx.trx
      .insertInto('mail_preferences')
      .values({ organization_id, user_id, mail, delay_seconds })
      .onConflict((row) => row.columns(['organization_id', 'user_id']).doUpdateSet({ mail, delay_seconds }))
      .execute()
    tx.append({
      eventType: 'member.mails_changed',
      action: 'change_mails',
      actor: actorOf(caller),
      metadata: { mail, delay_seconds },
    })
    return { organization_id, mail, delay_seconds }
  })
}
