/**
 * Where a connection sends its calls. The address is inside the sealed credential, so that of older connections is not
 * known here: they expire, and their people connect again.
 */
export const destinations = `
alter table connections
  -- The host, with the port if it is not the default.
  add column destination text not null default 'unknown',
  -- Whether the host is the vendor's, or one that the operator has set for the service.
  add column own_host boolean not null default false;
alter table connections alter column destination drop default, alter column own_host drop default;
update connections set status = 'expired' where status = 'active';
`
