/**
 * Adds an index for the audit log of one person (docs/decisions/0067). The last column of this index is the expression
 * `event_type || ''`. A query with this expression cannot use the index by event type, so PostgreSQL chooses this index
 * (src/governance/audit/list.ts). Also, an owner's quota changes get their own request bucket (src/api/rate.ts).
 */
export const auditByPerson = `
create index audit_events_person on audit_events
  (organization_id, (canonical::jsonb ->> 'user_id'), seq desc, (event_type || ''));
alter table request_windows
  drop constraint request_windows_bucket_check,
  add constraint request_windows_bucket_check check (bucket in
    ('requests_per_minute', 'requests_per_day', 'authorize_per_minute', 'agent_reports_per_minute',
     'quota_changes_per_minute'));
`
