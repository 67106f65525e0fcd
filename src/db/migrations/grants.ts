/**
 * What the application's role may do, table by table, applied after every migration run. What is evidence can only be
 * added: audit entries, decisions, frozen versions and votes are never updated or deleted by the service; run events are never
 * updated, and go with the rest of a run's data (governance/retention.ts).
 */
const appendOnly = [
  'installation',
  'audit_events',
  'decisions',
  'workflow_versions',
  'approval_votes',
  'run_events',
  'agent_observations',
  'storage_moves',
]
const changeable = [
  'organizations',
  'users',
  'memberships',
  'api_keys',
  'chain_head',
  'rules',
  'label_rules',
  'workflows',
  'registry_entries',
  'runs',
  'run_steps',
  'effects',
  'approvals',
  'unexpected_errors',
  'outbox',
  'idempotency_keys',
  'process_heartbeats',
  'data_keys',
  'memory',
  'memory_usage',
  'request_windows',
  'auth_accounts',
  'auth_sessions',
  'auth_verifications',
  'auth_two_factors',
  'auth_used_codes',
  'auth_rate_limits',
  'password_guesses',
  'invitations',
  'account_events',
  'agent_sessions',
  'tool_policies',
  'installation_connections',
  'call_starts',
  'default_task_queue',
]
const deletable = [
  'run_events',
  'memberships',
  'rules',
  'label_rules',
  'outbox',
  'idempotency_keys',
  'process_heartbeats',
  'memory',
  'auth_accounts',
  'auth_sessions',
  'auth_verifications',
  'auth_two_factors',
  'auth_used_codes',
  'auth_rate_limits',
  'password_guesses',
  'account_events',
  'tool_policies',
  'call_starts',
  'storage_moves',
  'installation_connections',
]

/** Statements that give `role` exactly these rights. The role name is a quoted identifier. */
export function grantStatements(role: string): string[] {
  return [
    `revoke all on all tables in schema public from ${role}`,
    `grant usage on schema public to ${role}`,
    `grant select, insert on ${appendOnly.join(', ')} to ${role}`,
    `grant select, insert, update on ${changeable.join(', ')} to ${role}`,
    `grant delete on ${deletable.join(', ')} to ${role}`,
    `grant usage on all sequences in schema public to ${role}`,
    `grant select on schema_migrations to ${role}`,
  ]
}
