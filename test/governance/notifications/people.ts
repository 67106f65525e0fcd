import { newId } from '../../../src/contract/ids.ts'
import type { Context } from '../../../src/governance/context.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import type { Engine } from '../runs/engine-fixture.ts'

/** Links Slack accounts to these people, and returns the ids of the people. */
export async function link(engine: Engine, accounts: Partial<Record<BootstrapName, string>>) {
  const ids: Record<string, string> = {}
  for (const [name, account] of Object.entries(accounts)) {
    const { userId } = engine.caller(name as BootstrapName)
    await engine.context.db
      .updateTable('memberships')
      .set({ slack_account: account, slack_linked_at: new Date() })
      .where('organization_id', '=', engine.organizationId)
      .where('user_id', '=', userId)
      .execute()
    ids[name] = userId
  }
  return ids
}

/** Inserts a Slack connection of the organization, without a credential. */
export async function connectSlack({
  context,
  organizationId,
  caller,
}: Pick<Engine, 'context' | 'organizationId'> & {
  caller(name: 'owner'): { readonly userId: string }
}): Promise<string> {
  const id = newId('connection')
  await context.db
    .insertInto('connections')
    .values({
      id,
      organization_id: organizationId,
      owner_id: null,
      integration: 'slack',
      name: 'slack',
      account: null,
      destination: 'slack.com',
      own_host: true,
      backend: 'db',
      credential_sealed: null,
      created_by: caller('owner').userId,
    })
    .execute()
  return id
}

/** The approval was held so many seconds earlier. */
export const timePasses = ({ pool }: Pick<Context, 'pool'>, approvalId: string, seconds: number) =>
  pool.query(
    `with moved as (
      update approvals set created_at = created_at - $2 * interval '1 second',
        remind_at = remind_at - $2 * interval '1 second',
        seats = (select jsonb_agg(case when s ? 'also' then s || jsonb_build_object('also', (
            select jsonb_agg(l || jsonb_build_object('at',
              to_char(((l->>'at')::timestamptz - $2 * interval '1 second') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')))
            from jsonb_array_elements(s->'also') as l)) else s end)
          from jsonb_array_elements(seats) as s)
      where id = $1)
    update notices set due_at = due_at - $2 * interval '1 second' where subject = $1`,
    [approvalId, seconds],
  )
