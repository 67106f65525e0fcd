/* This file is longer than others because it is one table, with one entry for each event. */

import * as fields from './audit-event-fields.ts'

/**
 * All events of the audit log: when each event is written, and the fields of its metadata. Every entry also has
 * `policy_version`, and `api_key_id` where a key was used. `npm run openapi` writes docs/reference/audit-events.md
 * from this table.
 */
export const auditEvents = {
  'workflow.deployed': {
    when: 'A version of a workflow is saved and becomes the current one.',
    metadata: ['version', 'definition_hash', 'rolled_back_from', 'rolled_back_to'],
  },
  'workflow.updated': { when: 'The name or description of a workflow changes.', metadata: [] },
  'workflow.deleted': { when: 'A workflow is deleted.', metadata: [] },
  'workflow.execute': {
    when: 'A run is accepted (action `execute`), and it ends (action `finish`).',
    metadata: [
      'input_hash',
      'workflow_version',
      'risk',
      'risk_reasons',
      'nodes_executed',
      'nodes_failed',
      'api_key_id',
      'requested_by',
    ],
  },
  'workflow.refused': {
    when: 'Nothing was started: a rule would deny a step for certain, or the person’s mail address is not confirmed.',
    metadata: ['step_id', 'rule_name', 'input_hash', 'reason', 'risk', 'risk_reasons'],
  },
  'workflow.cancel': { when: 'Somebody asks to cancel a run.', metadata: ['reason'] },
  'template.approved': {
    when: 'An owner makes a version of a workflow a template.',
    metadata: ['template_name', 'version', 'definition_hash'],
  },
  'template.deprecated': {
    when: 'A template is marked as outdated.',
    metadata: ['reason', 'replacement_id'],
  },
  'template.archived': { when: 'A deprecated template is archived.', metadata: [] },
  'template.used': {
    when: 'A workflow is made from a template.',
    metadata: ['made_workflow_id', 'version', 'state'],
  },
  'run.started': { when: 'A run that waited for an approval starts.', metadata: ['approval_id'] },
  'run.queued': { when: 'An approved run waits for a free slot.', metadata: ['approval_id'] },
  'run.waits_for_slot': {
    when: 'An approved call waits for a free slot of its organization.',
    metadata: ['step_id', 'limit'],
  },
  'step.expanded': { when: 'A `for_each` step knows its items.', metadata: ['step_id', 'items'] },
  'step.completed': {
    when: 'All items of a `for_each` step have ended, each completed.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.failed': {
    when: 'All items of a `for_each` step have ended, and one failed.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.denied': {
    when: 'All items of a `for_each` step have ended, and one was denied.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.rejected': {
    when: 'All items of a `for_each` step have ended, and a person rejected one.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.expired': {
    when: 'All items of a `for_each` step have ended, and the approval of one expired.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.cancelled': {
    when: 'All items of a `for_each` step have ended, and one was cancelled.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'step.skipped': {
    when: 'A `for_each` step is skipped.',
    metadata: ['step_id', 'items', 'too_many_labels'],
  },
  'tool_call.decided': {
    when: 'The rules decide a call of a run. The status is the verdict.',
    metadata: [
      'decision_id',
      'step_id',
      'item_index',
      'requested_by',
      'rule_id',
      'rule_name',
      'labels',
      'params_hash',
      'approval_id',
    ],
  },
  'tool_call.completed': { when: 'A call of a run has taken effect.', metadata: fields.callFields },
  'tool_call.failed': { when: 'A call of a run failed.', metadata: fields.callFields },
  'tool_call.denied': { when: 'A call of a run ends because it was denied.', metadata: fields.callFields },
  'tool_call.rejected': {
    when: 'A call of a run ends because a person rejected it.',
    metadata: fields.callFields,
  },
  'tool_call.expired': {
    when: 'A call of a run ends because its approval expired.',
    metadata: fields.callFields,
  },
  'tool_call.cancelled': { when: 'A call ends because its run was cancelled.', metadata: fields.callFields },
  'tool_call.skipped': { when: 'A call ends because its step was skipped.', metadata: fields.callFields },
  'tool_call.retry': {
    when: 'A call failed in a way that a further attempt may help.',
    metadata: fields.callFields,
  },
  'tool_call.unknown_outcome': {
    when: 'Nobody can know whether a call took effect. A person must resolve it.',
    metadata: fields.callFields,
  },
  'tool_call.resolved': {
    when: 'A person says what became of a call with an unknown outcome. The status is `retry`, `done` or `fail`.',
    metadata: ['step_id', 'item_index', 'attempt', 'decision_id', 'outcome'],
  },
  'approval.requested': {
    when: 'A run, a step or an agent’s call is held for a person.',
    metadata: fields.requestFields,
  },
  'approval.voted': {
    when: 'A person approves, and more approvals are needed.',
    metadata: fields.voteFields,
  },
  'approval.granted': { when: 'The last needed approval is given.', metadata: fields.voteFields },
  'approval.rejected': { when: 'A person rejects.', metadata: fields.voteFields },
  'approval.expired': {
    when: 'Nobody decided in time.',
    metadata: ['approval_id', 'step_id', 'item_index', 'session_id'],
  },
  'approval.withdrawn': {
    when: 'An agent’s client no longer waits for a decision.',
    metadata: ['approval_id', 'session_id'],
  },
  'approval.reopened': {
    when: 'An approved run needs more approvals when it starts, since the settings have changed.',
    metadata: ['approval_id', 'needed', 'counting'],
  },
  'agent_call.decided': {
    when: 'The rules decide a call of an agent. The status is the decision.',
    metadata: [
      'decision_id',
      'session_id',
      'side_effect',
      'reason',
      'rule_id',
      'rule_name',
      'labels',
      'params_hash',
      'approval_id',
    ],
  },
  'agent_call.unreadable': {
    when: 'An agent’s question cannot be read, and is denied.',
    metadata: ['decision_id'],
  },
  'agent.unapproved_call': {
    when: 'An agent reports a call that nobody allowed.',
    metadata: ['session_id', 'side_effect', 'labels', 'params_hash'],
  },
  'agent_session.ended': {
    when: 'A session of an agent ends.',
    metadata: ['session_id', 'cancelled_approvals'],
  },
  'agent_session.revoked': {
    when: 'A person revokes a session of an agent.',
    metadata: ['session_id', 'cancelled_approvals'],
  },
  'rule.created': { when: 'A rule is created.', metadata: fields.ruleFields('rule_id') },
  'rule.updated': { when: 'A rule changes.', metadata: fields.ruleFields('rule_id') },
  'rule.deleted': { when: 'A rule is deleted.', metadata: fields.ruleFields('rule_id') },
  'label_rule.created': { when: 'A label rule is created.', metadata: fields.ruleFields('label_rule_id') },
  'label_rule.updated': { when: 'A label rule changes.', metadata: fields.ruleFields('label_rule_id') },
  'label_rule.deleted': { when: 'A label rule is deleted.', metadata: fields.ruleFields('label_rule_id') },
  'tool_policy.created': { when: 'A tool policy is created.', metadata: fields.policyFields },
  'tool_policy.updated': { when: 'A tool policy changes.', metadata: fields.policyFields },
  'tool_policy.deleted': { when: 'A tool policy is deleted.', metadata: fields.policyFields },
  'role_override.created': {
    when: 'A tool is allowed or blocked for a role.',
    metadata: fields.overrideFields,
  },
  'role_override.deleted': { when: 'The override of a role is deleted.', metadata: fields.overrideFields },
  'governance.updated': { when: 'A governance setting changes.', metadata: ['changes'] },
  'organization.created': {
    when: 'An organization is created.',
    metadata: ['plan', 'owner_id', 'personal', 'installation_tools'],
  },
  'organization.frozen': { when: 'An organization is frozen.', metadata: ['reason'] },
  'organization.unfrozen': { when: 'A freeze ends.', metadata: ['reason'] },
  'organization.queue_changed': {
    when: 'An operator gives an organization another task queue.',
    metadata: ['from', 'to'],
  },
  'connection.created': {
    when: 'A tool is connected: by the operator to the installation, or by a member to a service.',
    metadata: ['tool', 'scope', ...fields.connectionFields, 'replaced_id'],
  },
  'connection.removed': {
    when: 'The operator disconnects a tool of the installation.',
    metadata: ['tool', 'scope'],
  },
  'connection.authorization_begun': {
    when: 'A member begins to authorize a connection in the browser.',
    metadata: ['tool', 'scope', 'integration'],
  },
  'connection.renamed': {
    when: 'A connection gets another name.',
    metadata: ['scope', ...fields.connectionFields, 'name'],
  },
  'connection.expired': {
    when: 'A service no longer accepts the credential of a connection.',
    metadata: ['scope', ...fields.connectionFields],
  },
  'connection.revoked': {
    when: 'A connection is revoked, and its credential deleted.',
    metadata: ['scope', ...fields.connectionFields],
  },
  'quota.updated': { when: 'The plan or a limit changes.', metadata: ['changes'] },
  'quota.exceeded': {
    when: 'Something is refused or waits because of a limit.',
    metadata: ['limit', 'value', 'risk', 'risk_reasons'],
  },
  'file.created': {
    when: 'A file is uploaded.',
    metadata: ['file_id', 'sha256', 'size', 'media_type', 'labels'],
  },
  'file.deleted': { when: 'An uploaded file is deleted.', metadata: ['file_id', 'sha256', 'labels'] },
  'memory.set': {
    when: 'A value is kept in the organization’s memory.',
    metadata: ['key', 'value_hash', 'labels', 'labels_before'],
  },
  'memory.deleted': { when: 'A kept value is deleted.', metadata: ['key', 'labels', 'labels_before'] },
  'member.invited': { when: 'A person is invited.', metadata: ['invitation_id', 'role'] },
  'member.joined': { when: 'A person accepts an invitation.', metadata: ['invitation_id', 'role'] },
  'member.role_changed': { when: 'A member gets another role.', metadata: ['member_id', 'from', 'to'] },
  'member.removed': { when: 'A member is removed.', metadata: ['member_id', 'cancelled_approvals'] },
  'member.account_claimed': {
    when: 'A code is sent to an account at another service that a member says is theirs.',
    metadata: ['member_id', 'service', 'external_id'],
  },
  'member.account_linked': {
    when: 'A member’s account at another service is linked.',
    metadata: ['member_id', 'service', 'external_id'],
  },
  'member.account_unlinked': {
    when: 'A member’s account at another service is linked no more.',
    metadata: ['member_id', 'service', 'external_id'],
  },
  'webhook.created': { when: 'A webhook is created.', metadata: [...fields.webhookFields, 'events'] },
  'webhook.updated': {
    when: 'The address or the events of a webhook change, or it is turned on or off.',
    metadata: [...fields.webhookFields, 'events', 'active'],
  },
  'webhook.secret_rotated': {
    when: 'A webhook gets a new secret.',
    metadata: [...fields.webhookFields, 'former_until'],
  },
  'webhook.tested': { when: 'A test is sent to a webhook.', metadata: fields.webhookFields },
  'webhook.redelivered': {
    when: 'A message is sent to a webhook again.',
    metadata: [...fields.webhookFields, 'delivery_id'],
  },
  'webhook.disabled': {
    when: 'The service turns a webhook off: nothing has arrived for days, or its receiver wants no more.',
    metadata: [...fields.webhookFields, 'reason'],
  },
  'webhook.deleted': { when: 'A webhook is deleted.', metadata: fields.webhookFields },
  'member.mails_changed': {
    when: 'A member chooses whether and when they get mails.',
    metadata: ['mail', 'delay_seconds'],
  },
  'member.left': { when: 'A member leaves.', metadata: ['member_id', 'cancelled_approvals'] },
  'invitation.revoked': { when: 'An invitation is withdrawn.', metadata: ['invitation_id', 'role'] },
  'api_key.created': { when: 'An API key is created.', metadata: fields.keyFields },
  'api_key.updated': { when: 'An API key changes.', metadata: fields.keyFields },
  'api_key.revoked': { when: 'An API key is revoked.', metadata: [...fields.keyFields, 'happened_at'] },
  'api_key.reactivated': { when: 'A revoked API key is made active again.', metadata: fields.keyFields },
  'api_key.confirmed': {
    when: 'A person confirms an API key with a second factor.',
    metadata: fields.keyFields,
  },
  'session.started': { when: 'A person signs in.', metadata: fields.accountFields },
  'session.ended': { when: 'A person signs out, or a session is ended.', metadata: fields.accountFields },
  'user.password_changed': { when: 'A person changes the password.', metadata: fields.accountFields },
  'user.email_verified': { when: 'A person confirms the mail address.', metadata: fields.accountFields },
  'user.email_unverified': {
    when: 'A mail address counts as not confirmed any more.',
    metadata: fields.accountFields,
  },
  DEVELOPER_SHELL_EXECUTED: {
    when: 'A developer opens the shell on the organization.',
    metadata: ['mode', 'system_user'],
  },
} as const satisfies Readonly<Record<string, { readonly when: string; readonly metadata: readonly string[] }>>

export type AuditEventType = keyof typeof auditEvents

/** The metadata fields of one event type, or of several event types together. */
export type AuditField<T extends AuditEventType> = (typeof auditEvents)[T]['metadata'][number]

/** Events of people's accounts, which triggers in the database record. */
export type AccountEventType = Extract<
  AuditEventType,
  `session.${string}` | `user.${string}` | 'api_key.revoked'
>
