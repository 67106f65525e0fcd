/**
 * A row of `installation_connections` allows an organization to use the installation's folder of files (`file_read`) or
 * its mail server (`mail_send`). An existing organization gets both rows if an operator created it, at the first start
 * or with `create-owner`. An organization that a person created gets no row, because no operator has allowed this.
 *
 * `created_by` is the person who created an organization. It is null for personal organizations and for organizations
 * of an operator. With this column, the service counts the organizations that a person has created. The index on
 * invitations is for sign-ups: it finds the invitations to an address.
 */
export const installationConnections = `
create table installation_connections (
  organization_id text not null references organizations,
  tool text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (organization_id, tool)
);
alter table organizations add column created_by text references users;
create index invitations_open on invitations (email) where accepted_at is null and revoked_at is null;
create index organizations_created_by on organizations (created_by) where created_by is not null;

insert into installation_connections (organization_id, tool)
select o.id, t.tool
from organizations o
join audit_events a on a.organization_id = o.id and a.seq = 1
cross join (values ('file_read'), ('mail_send')) as t(tool)
where not o.personal and a.event_type = 'organization.created'
  and a.actor ->> 'type' = 'system' and a.actor ->> 'id' in ('bootstrap', 'create-owner');

update organizations o set created_by = u.id
from audit_events a join users u on u.id = a.actor ->> 'id'
where a.organization_id = o.id and a.seq = 1 and a.event_type = 'organization.created'
  and a.actor ->> 'type' = 'user' and not o.personal;
`
