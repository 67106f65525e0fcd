import type { GroupUse } from '../../policy/strictness-access.ts'
import { sql, type RawBuilder } from 'kysely'

/** The inviter must still be an owner and, without `byInvited`, must not have been invited themselves. */
export const isInvitedByOwner = (
  email: string,
  byInvited: boolean,
): RawBuilder<{ readonly invited: boolean }> => sql`
  select exists (
    select from invitations i
    join memberships m on m.organization_id = i.organization_id and m.user_id = i.invited_by and m.role = 'owner'
    join users u on u.id = i.invited_by and (${byInvited} or not u.invited)
    where i.email = ${email} and i.accepted_at is null and i.revoked_at is null
      and i.expires_at > clock_timestamp()
  ) as invited`

/** Organizations take turns. Events of other types than `known` stay in the table, so they have turns of their own. */
export const readAccountEvents = (
  most: number,
  known: readonly string[],
): RawBuilder<{ readonly id: number; readonly organization_id: string; readonly type: string }> => sql`
  select id, organization_id, type from (
    select id, organization_id, type,
           row_number() over (partition by organization_id, type = any(${known}) order by id) as turn
    from account_events) waiting
  order by turn, type = any(${known}) desc, id limit ${most}`

/** An interrupted request may have left an organization without members. Renames it for the person's next request. */
export const takeUnusedOrganization = (given: {
  readonly userId: string
  readonly name: string
  readonly unusedAfter: RawBuilder<unknown>
}): RawBuilder<{ readonly id: string }> => sql`
  update organizations set name = ${given.name}, created_at = clock_timestamp()
  where id = (select o.id from organizations o join chain_head h on h.organization_id = o.id
              where o.created_by = ${given.userId} and h.seq = 0
                and o.created_at < clock_timestamp() - ${given.unusedAfter}
                and not exists (select from memberships m where m.organization_id = o.id)
              limit 1)
  returning id`

/** People who are owners of the organization; service accounts never vote. */
export const ownersOf = (organizationId: string): RawBuilder<{ readonly id: string }> => sql`
  select user_id as id from memberships m
  where organization_id = ${organizationId} and role = 'owner'
    and not exists (select from service_accounts where id = m.user_id)
  limit 3`

/** `object`: as files name it; null for a workflow without a slug. */
export type GroupNamer = GroupUse & { readonly object: string | null }

/** What names the group: a rule, a policy, an override, or the newest version of a workflow. */
export const namersOfGroup = (organizationId: string, group: string): RawBuilder<GroupNamer> => sql`
  select 'rule' as kind, name, null::jsonb as policy, 'rule ' || name as object from rules
  where organization_id = ${organizationId}
    and (body @> ${JSON.stringify({ approver: { group } })}::jsonb or body @> ${JSON.stringify({ approvers: [{ group }] })}::jsonb
      or body @> ${JSON.stringify({ escalate: [{ to: { group } }] })}::jsonb)
  union all
  select 'tool policy', tool_name, jsonb_build_object('allowed', allowed, 'restrictions', restrictions), 'tool_policy ' || tool_name || '/' || role
  from tool_policies where organization_id = ${organizationId} and role = ${group}
  union all
  select 'override', tool_name, jsonb_build_object('allowed', allowed, 'restrictions', '{}'::jsonb), 'role_override ' || tool_name || '/' || role
  from role_policy_overrides where organization_id = ${organizationId} and role = ${group}
  union all
  select 'workflow', w.name, null::jsonb, 'workflow ' || w.slug from workflows w
    join workflow_versions v on v.workflow_id = w.id and v.version = w.current_version
  where w.organization_id = ${organizationId} and w.deleted_at is null and v.definition ~ '"(run_by|readers)"'
    and (v.definition::jsonb->'run_by' @> ${JSON.stringify([group])}::jsonb
      or v.definition::jsonb->'readers' @> ${JSON.stringify([group])}::jsonb)
  order by 1, 2`

export interface NamedGroup {
  readonly name: string
  /** null: there is none. */
  readonly id: string | null
  /** Their addresses by their ids. */
  readonly members: Readonly<Record<string, string>>
}

/** The groups of these names as they are now. */
export const groupsCalled = (organizationId: string, names: readonly string[]): RawBuilder<NamedGroup> => sql`
  select n.name, g.id, coalesce(
    (select json_object_agg(m.user_id, u.email order by m.user_id)
     from group_members m join users u on u.id = m.user_id where m.group_id = g.id), '{}') as members
  from (select distinct unnest(${[...names]}::text[])) as n(name)
  left join groups g on g.organization_id = ${organizationId} and g.name = n.name
  order by n.name`

/** Approvals that wait, and that the group can decide. A rule that is gone may have asked for them. */
export const waitingForGroup = (organizationId: string, groupId: string): RawBuilder<GroupUse> => sql`
  select distinct 'approval' as kind, coalesce(a.tool, w.name, a.id) as name, null::jsonb as policy
  from approvals a left join workflows w on w.id = a.workflow_id
  where a.organization_id = ${organizationId} and a.status = 'pending' and coalesce(a.seats, '[]')::text like ${`%"${groupId.replaceAll('_', '\\_')}"%`}
  order by 2 limit 100`

/** Adds nothing, and returns no row, if too many are open: of all addresses, or of this one's network. */
export const addTerminalLogin = (
  login: Readonly<Record<'codeHash' | 'keyHash' | 'last4' | 'machine' | 'address', string>>,
  limits: Readonly<Record<'minutes' | 'mostOpen' | 'mostOfAddress', number>>,
): RawBuilder<unknown> => sql`
  insert into terminal_logins (code_hash, key_hash, last4, machine, address, created_at, expires_at)
  select ${login.codeHash}, ${login.keyHash}, ${login.last4}, ${login.machine}, ${login.address},
    now.at, now.at + make_interval(mins => ${limits.minutes})
  from (select clock_timestamp() as at) as now
  where (select count(*) from terminal_logins where status = 'open') < ${limits.mostOpen}
    and (select count(*) from terminal_logins
         where status = 'open' and ${networkOf(sql`address`)} = ${networkOf(sql`${login.address}::text`)}) < ${limits.mostOfAddress}
  returning 1`

/** A whole /64 of IPv6. A zone such as `%eth0` is no part of it. */
const networkOf = (address: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case when strpos(${address}, ':') = 0 then ${address}
    else network(set_masklen(split_part(${address}, '%', 1)::inet, 64))::text end`
