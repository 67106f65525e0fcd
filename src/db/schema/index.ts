import type { Kysely } from 'kysely'
import type { AgentObservationsTable, AgentSessionsTable, ToolPoliciesTable } from './agents.ts'
import type {
  AuditCountsTable,
  AuditEventsTable,
  ChainHeadTable,
  CheckpointFoldersTable,
  StorageMovesTable,
} from './audit.ts'
import type { ConnectionAttemptsTable, ConnectionsTable, SecretRemovalsTable } from './connections.ts'
import type { FilesTable } from './files.ts'
import type {
  AccountEventsTable,
  ApiKeysTable,
  AuthAccountsTable,
  InstallationConnectionsTable,
  InvitationsTable,
  MembershipsTable,
  OrganizationsTable,
  SlackClaimsTable,
  UsersTable,
} from './identity.ts'
import type {
  MailPreferencesTable,
  NoticesTable,
  NotificationLanesTable,
  NotificationsTable,
} from './notifications.ts'
import type {
  CallStartsTable,
  DataKeysTable,
  DefaultTaskQueueTable,
  IdempotencyKeysTable,
  MemoryTable,
  MemoryUsageTable,
  OutboxTable,
  ProcessHeartbeatsTable,
  RequestWindowsTable,
} from './plumbing.ts'
import type { RolePolicyOverridesTable, RulesTable } from './policy.ts'
import type {
  ApprovalsTable,
  ApprovalVotesTable,
  DecisionsTable,
  EffectsTable,
  RunEventsTable,
  RunStepsTable,
  RunsTable,
} from './runs.ts'
import type { WebhookDeliveriesTable, WebhookEventsTable, WebhooksTable } from './webhooks.ts'
import type { RegistryEntriesTable, WorkflowsTable, WorkflowVersionsTable } from './workflows.ts'

export interface Database {
  organizations: OrganizationsTable
  users: UsersTable
  auth_accounts: AuthAccountsTable
  invitations: InvitationsTable
  account_events: AccountEventsTable
  memberships: MembershipsTable
  slack_claims: SlackClaimsTable
  api_keys: ApiKeysTable
  chain_head: ChainHeadTable
  audit_events: AuditEventsTable
  audit_counts: AuditCountsTable
  storage_moves: StorageMovesTable
  checkpoint_folders: CheckpointFoldersTable
  rules: RulesTable
  label_rules: RulesTable
  workflows: WorkflowsTable
  workflow_versions: WorkflowVersionsTable
  registry_entries: RegistryEntriesTable
  runs: RunsTable
  run_steps: RunStepsTable
  effects: EffectsTable
  decisions: DecisionsTable
  approvals: ApprovalsTable
  approval_votes: ApprovalVotesTable
  run_events: RunEventsTable
  outbox: OutboxTable
  notices: NoticesTable
  notifications: NotificationsTable
  notification_lanes: NotificationLanesTable
  idempotency_keys: IdempotencyKeysTable
  process_heartbeats: ProcessHeartbeatsTable
  memory: MemoryTable
  memory_usage: MemoryUsageTable
  request_windows: RequestWindowsTable
  data_keys: DataKeysTable
  agent_sessions: AgentSessionsTable
  agent_observations: AgentObservationsTable
  tool_policies: ToolPoliciesTable
  role_policy_overrides: RolePolicyOverridesTable
  installation_connections: InstallationConnectionsTable
  connections: ConnectionsTable
  secret_removals: SecretRemovalsTable
  files: FilesTable
  connection_attempts: ConnectionAttemptsTable
  call_starts: CallStartsTable
  default_task_queue: DefaultTaskQueueTable
  webhooks: WebhooksTable
  mail_preferences: MailPreferencesTable
  webhook_events: WebhookEventsTable
  webhook_deliveries: WebhookDeliveriesTable
}

/** The type of a database parameter. Its value is a pool or an open transaction. */
export type Db = Kysely<Database>
