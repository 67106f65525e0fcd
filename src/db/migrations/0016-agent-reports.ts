/** Agents' reports have a request bucket of their own (src/api/rate.ts). */
export const agentReports = `
alter table request_windows
  drop constraint request_windows_bucket_check,
  add constraint request_windows_bucket_check check (bucket in
    ('requests_per_minute', 'requests_per_day', 'authorize_per_minute', 'agent_reports_per_minute'));
`
