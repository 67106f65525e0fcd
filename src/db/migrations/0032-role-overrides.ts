import { recountFunction } from './0022-storage.ts'
import { countedWithDetails } from './0031-error-details.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const overrides: CountedTable = {
  name: 'role_policy_overrides',
  bytes: '512 + octet_length(t.tool_name) + octet_length(t.role)',
}
/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithOverrides: readonly CountedTable[] = [...countedWithDetails, overrides]

/**
 * A row allows or blocks one tool for one role. The table does not check the role, because the role may be a name that
 * no member has.
 */
export const roleOverrides = `
create table role_policy_overrides (
  organization_id text not null references organizations,
  tool_name text not null,
  role text not null,
  allowed boolean not null,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  primary key (organization_id, tool_name, role)
);

${countRows(overrides)}
create or replace ${recountFunction(countedWithOverrides, 'coalesce(sum(2048 + label_bytes), 0)')}
`
