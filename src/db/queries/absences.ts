import { sql, type RawBuilder } from 'kysely'
import type { Role } from '../../policy/types.ts'

export interface Absence {
  /** ISO 8601. */
  readonly from: string
  readonly until: string
  readonly deputy: { readonly user_id: string; readonly email: string }
}

/** SQL: JSON of the absence of the membership `m`; null without one, and when it is over. */
export const absenceColumn: RawBuilder<Absence | null> = sql`(
  select json_build_object('from', ${iso(sql`a.from_at`)}, 'until', ${iso(sql`a.until_at`)},
                           'deputy', json_build_object('user_id', d.id, 'email', d.email))
  from absences a join users d on d.id = a.deputy
  where a.organization_id = m.organization_id and a.user_id = m.user_id and a.until_at > clock_timestamp())`

export interface StandIn {
  readonly user_id: string
  readonly email: string
  readonly role: Role
  /** Names. */
  readonly groups: readonly string[]
  readonly until: string
}

/** SQL: JSON of the people who are away now and whose deputy has the membership `m`. */
export const standInsColumn: RawBuilder<StandIn[]> = sql`
  coalesce((select json_agg(json_build_object('user_id', p.id, 'email', p.email, 'role', am.role,
                                              'groups', array(select g.name from group_members i join groups g on g.id = i.group_id
                                                              where i.organization_id = a.organization_id and i.user_id = a.user_id),
                                              'until', ${iso(sql`a.until_at`)}) order by p.email)
            from absences a join users p on p.id = a.user_id
              join memberships am on am.organization_id = a.organization_id and am.user_id = a.user_id
            where a.organization_id = m.organization_id and a.deputy = m.user_id
              and a.from_at <= clock_timestamp() and clock_timestamp() < a.until_at), '[]')`

function iso(time: RawBuilder<unknown>): RawBuilder<string> {
  return sql`to_char(${time} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
}
