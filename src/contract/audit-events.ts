/* This file is longer than others because it is one table, with one entry for each event. */

import * as fields from './audit-event-fields.ts'

const { text, number, flag, list, object } = fields

/**
 * Each text says when the event is written. The metadata also has `policy_version`, and `api_key_id` if an
 * API key was used. `npm run openapi` writes docs/reference/audit-events.md from this table.
 */
export const auditEvents = {
  'workflow.deployed': {
    when: 'A version of a workflow is saved and becomes the current one.',
    metadata: {
      version: number,
      definition_hash: text,
      rolled_back_from: number,
      rolled_back_to: number,
      ...fields.secondFields,
    },
  },
  'workflow.updated': {
    when: 'The name, description or protection of a workflow changes.',
    metadata: { protected: flag, ...fields.secondFields },
  },
  'workflow.deleted': { when: 'A workflow is deleted.', metadata: fields.secondFields },
  'workflow.execute': {
    when: 'A run is accepted (action `execute`), and it ends (action `finish`).',
    metadata: {
      input_hash: text,
      workflow_version: number,
      risk: text,
      risk_reasons: list,
      nodes_executed: number,
      nodes_failed: number,
      requested_by: text,
      trigger_id: text,
      rerun_of: text,
      from: text,
      on_repeat: text,
      unknown_outcomes: text,
    },
  },
  'workflow.refused': {
    when: 'Nothing was started: a rule would deny a step for certain, or the person’s mail address is not confirmed.',
    metadata: {
      step_id: text,
      rule_name: text,
      input_hash: text,
      reason: text,
      risk: text,
      risk_reasons: list,
    },
  },
  'workflow.cancel': { when: 'Somebody asks to cancel a run.', metadata: { reason: text } },
  'template.approved': {
    when: 'An owner makes a version of a workflow a template.',
    metadata: { template_name: text, version: number, definition_hash: text },
  },
  'template.deprecated': {
    when: 'A template is marked as outdated.',
    metadata: { replacement_id: text },
  },
  'template.archived': { when: 'A deprecated template is archived.', metadata: {} },
  'template.used': {
    when: 'A workflow is made from a template.',
    metadata: { made_workflow_id: text, version: number, state: text },
  },
  'run.started': { when: 'A run that waited for an approval starts.', metadata: { approval_id: text } },
  'run.queued': { when: 'An approved run waits for a free slot.', metadata: { approval_id: text } },
  'run.waits_for_slot': {
    when: 'An approved call waits for a free slot of its organization.',
    metadata: { step_id: text, limit: number },
  },
  'step.expanded': { when: 'A `for_each` step knows its items.', metadata: { step_id: text, items: number } },
  'step.waiting': {
    when: 'A step, or an item of it, begins to wait for a time.',
    metadata: { step_id: text, item_index: number, until: text },
  },
  'step.completed': {
    when: 'All items of a `for_each` step have ended, each completed; or a step without a tool has ended: its time has come, or its values are computed.',
    metadata: { ...fields.stepFields, reused_from: text },
  },
  'step.failed': {
    when: 'All items of a `for_each` step have ended, and one failed; or a step without a tool failed.',
    metadata: fields.stepFields,
  },
  'step.denied': {
    when: 'All items of a `for_each` step have ended, and one was denied; or a freeze ended a step without a tool.',
    metadata: fields.stepFields,
  },
  'step.rejected': {
    when: 'All items of a `for_each` step have ended, and a person rejected one.',
    metadata: fields.stepFields,
  },
  'step.expired': {
    when: 'All items of a `for_each` step have ended, and the approval of one expired.',
    metadata: fields.stepFields,
  },
  'step.cancelled': {
    when: 'All items of a `for_each` step have ended, and one was cancelled; or a step without a tool ends because its run was cancelled.',
    metadata: fields.stepFields,
  },
  'step.skipped': {
    when: 'A `for_each` step, or a step without a tool, is skipped.',
    metadata: fields.stepFields,
  },
  'tool_call.decided': {
    when: 'The rules decide a call of a run. The status is the verdict.',
    metadata: {
      decision_id: text,
      step_id: text,
      item_index: number,
      requested_by: text,
      rule_id: text,
      rule_name: text,
      labels: list,
      params_hash: text,
      approval_id: text,
      destination: text,
    },
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
  'tool_call.reused': {
    when: 'A run that was made again takes the outcome of a call that an earlier run has made.',
    metadata: { ...fields.callFields, reused_from: text },
  },
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
    metadata: { step_id: text, item_index: number, attempt: number, decision_id: text, outcome: text },
  },
  'approval.requested': {
    when: 'A run, a step, an agent’s call or a change is held for a person.',
    metadata: fields.requestFields,
  },
  'approval.voted': {
    when: 'A person approves, and more approvals are needed.',
    metadata: fields.voteFields,
  },
  'approval.granted': { when: 'The last needed approval is given.', metadata: fields.voteFields },
  'approval.rejected': { when: 'A person rejects.', metadata: fields.voteFields },
  'approval.revised': {
    when: 'A person edits the parameters of a held call, which is then decided anew.',
    metadata: fields.reviseFields,
  },
  'approval.answered': { when: 'A person answers a question of a run.', metadata: fields.answerFields },
  'approval.expired': {
    when: 'Nobody decided in time.',
    metadata: { approval_id: text, step_id: text, item_index: number, session_id: text },
  },
  'approval.withdrawn': {
    when: 'An agent’s client no longer waits for a decision; or a change is withdrawn, or cannot be made any more.',
    metadata: { approval_id: text, session_id: text, because: text },
  },
  'approval.reopened': {
    when: 'An approved run needs more approvals when it starts, because settings, rules or roles are stricter now.',
    metadata: { approval_id: text, needed: number, counting: number },
  },
  'agent_call.decided': {
    when: 'The rules decide a call of an agent. The status is the decision.',
    metadata: {
      decision_id: text,
      session_id: text,
      side_effect: text,
      reason: text,
      rule_id: text,
      rule_name: text,
      labels: list,
      params_hash: text,
      approval_id: text,
    },
  },
  'agent_call.unreadable': {
    when: 'An agent’s question cannot be read, and is denied.',
    metadata: { decision_id: text },
  },
  'agent.unapproved_call': {
    when: 'An agent reports a call that Countersign did not allow.',
    metadata: { session_id: text, side_effect: text, labels: list, params_hash: text },
  },
  'agent_session.ended': {
    when: 'An agent ends its session.',
    metadata: { session_id: text, reason: text, cancelled_approvals: number },
  },
  'agent_session.revoked': {
    when: 'A person revokes a session of an agent.',
    metadata: { session_id: text, reason: text, cancelled_approvals: number },
  },
  'rule.created': { when: 'A rule is created.', metadata: fields.decidingRuleFields },
  'rule.updated': { when: 'A rule changes.', metadata: fields.decidingRuleFields },
  'rule.deleted': { when: 'A rule is deleted.', metadata: fields.decidingRuleFields },
  'label_rule.created': { when: 'A label rule is created.', metadata: fields.labelRuleFields },
  'label_rule.updated': { when: 'A label rule changes.', metadata: fields.labelRuleFields },
  'label_rule.deleted': { when: 'A label rule is deleted.', metadata: fields.labelRuleFields },
  'tool_policy.created': { when: 'A tool policy is created.', metadata: fields.policyFields },
  'tool_policy.updated': { when: 'A tool policy changes.', metadata: fields.policyFields },
  'tool_policy.deleted': { when: 'A tool policy is deleted.', metadata: fields.policyFields },
  'role_override.created': {
    when: 'A tool is allowed or blocked for a role.',
    metadata: fields.overrideFields,
  },
  'role_override.deleted': { when: 'The override of a role is deleted.', metadata: fields.overrideFields },
  'governance.updated': {
    when: 'A governance setting changes.',
    metadata: { changes: object, ...fields.secondFields },
  },
  'organization.created': {
    when: 'An organization is created.',
    metadata: { plan: text, owner_id: text, personal: flag, installation_tools: list },
  },
  'organization.applied': {
    when: 'Files change rules, policies, groups, settings or workflows together. The entries of these changes have the same `apply_id`.',
    metadata: {
      repository: text,
      commit: text,
      plan: text,
      created: number,
      changed: number,
      deleted: number,
      unchanged: number,
      ...fields.secondFields,
    },
  },
  'organization.released': {
    when: 'Objects no longer come from files: people change them again.',
    metadata: { kinds: list, objects: list },
  },
  'organization.frozen': {
    when: 'An organization is frozen. `before` is the reason of a freeze that held already.',
    metadata: { reason: text, before: text },
  },
  'organization.unfrozen': {
    when: 'A freeze ends. `before` is its reason.',
    metadata: { reason: text, before: text },
  },
  'organization.queue_changed': {
    when: 'An operator gives an organization another task queue.',
    metadata: { from: text, to: text },
  },
  'organization.checkpoint_accepted': {
    when: 'An operator accepts that the folder of checkpoints has lost the checkpoint of this audit log. `folder_id` is null if the folder is new.',
    metadata: { folder_id: text },
  },
  'connection.created': {
    when: 'A tool is connected: by the operator to the installation, or by a member to a service.',
    metadata: { tool: text, scope: text, ...fields.connectionFields, replaced_id: text },
  },
  'connection.removed': {
    when: 'The operator disconnects a tool of the installation.',
    metadata: { tool: text, scope: text },
  },
  'connection.authorization_begun': {
    when: 'A member begins to authorize a connection in the browser.',
    metadata: { tool: text, scope: text, integration: text },
  },
  'connection.renamed': {
    when: 'A connection gets another name.',
    metadata: { scope: text, ...fields.connectionFields, name: text },
  },
  'connection.expired': {
    when: 'A service no longer accepts the credential of a connection.',
    metadata: { scope: text, ...fields.connectionFields },
  },
  'connection.revoked': {
    when: 'A connection is revoked, and its credential deleted.',
    metadata: { scope: text, ...fields.connectionFields },
  },
  'quota.updated': { when: 'The plan or a limit changes.', metadata: { changes: object } },
  'quota.exceeded': {
    when: 'Something is refused or waits because of a limit.',
    metadata: { limit: text, value: number, risk: text, risk_reasons: list },
  },
  'file.created': {
    when: 'A file is uploaded.',
    metadata: { file_id: text, sha256: text, size: number, media_type: text, labels: list },
  },
  'file.deleted': {
    when: 'An uploaded file is deleted.',
    metadata: { file_id: text, sha256: text, labels: list },
  },
  'memory.set': {
    when: 'A value is kept in the organization’s memory.',
    metadata: { key: text, value_hash: text, labels: list, labels_before: list },
  },
  'memory.deleted': {
    when: 'A kept value is deleted.',
    metadata: { key: text, labels: list, labels_before: list },
  },
  'member.invited': { when: 'A person is invited.', metadata: { invitation_id: text, role: text } },
  'member.joined': {
    when: 'A person accepts an invitation, or signs in with the organization’s provider for the first time.',
    metadata: { invitation_id: text, member_id: text, role: text },
  },
  'member.role_changed': {
    when: 'A member gets another role.',
    metadata: { member_id: text, from: text, to: text, ended_sessions: number, cancelled_approvals: number },
  },
  'member.removed': {
    when: 'A member is removed. Their agents’ sessions end.',
    metadata: { member_id: text, ended_sessions: number, cancelled_approvals: number, groups: list },
  },
  'member.identity_linked': {
    when: 'A person signs in with the organization’s provider for the first time.',
    metadata: { member_id: text, issuer: text },
  },
  'member.identity_unlinked': {
    when: 'An owner unlinks the person whom the provider names from a member.',
    metadata: { member_id: text, issuer: text, ended_sessions: number },
  },
  'sign_in.provider_saved': {
    when: 'An owner sets the provider with which people sign in.',
    metadata: { before: object, after: object, ended_sessions: number, ...fields.secondFields },
  },
  'sign_in.provider_removed': {
    when: 'An owner removes the provider with which people sign in.',
    metadata: { before: object, ended_sessions: number },
  },
  'sign_in.domain_proven': {
    when: 'A mail domain is proven to belong to the organization: by DNS, or by the operator.',
    metadata: { domain: text, proven_by: text },
  },
  'scim_user.changed': {
    when: 'The directory (SCIM) adds a person, gives them another id, or forgets them.',
    metadata: { member_id: text, before: object, after: object },
  },
  'scim_group.changed': {
    when: 'The directory (SCIM) makes a group, or gives one another name or id.',
    metadata: { group_id: text, before: object, after: object },
  },
  'scim_token.created': {
    when: 'An owner makes a token for the directory of the company (SCIM).',
    metadata: { token_id: text, name: text, ...fields.secondFields },
  },
  'scim_token.deleted': { when: 'A SCIM token is deleted.', metadata: { token_id: text, name: text } },
  'member.account_claimed': {
    when: 'A code is sent to an account at another service that a member says is theirs.',
    metadata: fields.slackFields,
  },
  'member.account_linked': {
    when: 'A member’s account at another service is linked.',
    metadata: fields.slackFields,
  },
  'member.account_unlinked': {
    when: 'A member’s account at another service is linked no more.',
    metadata: fields.slackFields,
  },
  'group.created': {
    when: 'A group is created. `after` has its name, description and members.',
    metadata: { group_id: text, name: text, after: object, ...fields.secondFields },
  },
  'group.updated': {
    when: 'The name or the description of a group changes.',
    metadata: { group_id: text, name: text, before: object, after: object, ...fields.secondFields },
  },
  'group.deleted': {
    when: 'A group is deleted. `before` has its name, description and members.',
    metadata: { group_id: text, name: text, before: object, ...fields.secondFields },
  },
  'group.member_added': {
    when: 'A member joins a group.',
    metadata: { group_id: text, name: text, member_id: text, ...fields.secondFields },
  },
  'group.member_removed': {
    when: 'A member is taken out of a group.',
    metadata: { group_id: text, name: text, member_id: text, ...fields.secondFields },
  },
  'service_account.created': {
    when: 'A service account is created.',
    metadata: fields.serviceAccountFields,
  },
  'service_account.updated': {
    when: 'A service account gets another name or role.',
    metadata: {
      ...fields.serviceAccountFields,
      name_before: text,
      role_before: text,
      ended_sessions: number,
      cancelled_approvals: number,
    },
  },
  'service_account.deleted': {
    when: 'A service account is deleted. Its keys are revoked, and its agents’ sessions end.',
    metadata: {
      ...fields.serviceAccountFields,
      revoked_keys: number,
      ended_sessions: number,
      cancelled_approvals: number,
    },
  },
  'webhook.created': { when: 'A webhook is created.', metadata: { ...fields.webhookFields, events: list } },
  'webhook.updated': {
    when: 'The address or the events of a webhook change, or it is turned on or off.',
    metadata: { ...fields.webhookFields, events: list, active: flag },
  },
  'webhook.secret_rotated': {
    when: 'A webhook gets a new secret.',
    metadata: { ...fields.webhookFields, former_until: text },
  },
  'webhook.tested': { when: 'A test is sent to a webhook.', metadata: fields.webhookFields },
  'webhook.redelivered': {
    when: 'A message is sent to a webhook again.',
    metadata: { ...fields.webhookFields, delivery_id: text },
  },
  'webhook.disabled': {
    when: 'The service turns a webhook off: nothing has arrived for days, or its receiver wants no more.',
    metadata: { ...fields.webhookFields, reason: text },
  },
  'webhook.deleted': { when: 'A webhook is deleted.', metadata: fields.webhookFields },
  'rerun.requested': {
    when: 'A person asks that many ended runs are made again.',
    metadata: { rerun_id: text, runs: number, from: text, on_repeat: text },
  },
  'rerun.cancelled': {
    when: 'A person cancels such a request: what has not started never does.',
    metadata: fields.rerunFields,
  },
  'rerun.ended': {
    when: 'Every run of such a request was started or refused.',
    metadata: fields.rerunFields,
  },
  'trigger.created': { when: 'A trigger of a workflow is saved.', metadata: fields.triggerFields },
  'trigger.updated': {
    when: 'A trigger changes, or somebody pauses or resumes it.',
    metadata: fields.triggerFields,
  },
  'trigger.deleted': { when: 'A trigger is deleted.', metadata: fields.triggerFields },
  'trigger.skipped': {
    when: 'A due time starts no run: nobody was there, an earlier run has not ended, or the organization is frozen. Or items were there at the first poll.',
    metadata: fields.firingFields,
  },
  'trigger.failed': {
    when: 'A due time, a message or an item starts no run, because the run was refused; or a poll has failed.',
    metadata: fields.firingFields,
  },
  'trigger.paused': {
    when: 'The service pauses a trigger that has failed ten times in a row.',
    metadata: fields.firingFields,
  },
  'member.mails_changed': {
    when: 'A member chooses whether and when they get mails.',
    metadata: { mail: flag, delay_seconds: number, time_zone: text },
  },
  'absence.set': {
    when: 'A member says when they are away, and who decides in their place.',
    metadata: { before: object, after: object },
  },
  'absence.ended': {
    when: 'A member is not away any more. The votes of their deputy count no more.',
    metadata: { before: object },
  },
  'member.left': {
    when: 'A member leaves. Their agents’ sessions end.',
    metadata: { member_id: text, ended_sessions: number, cancelled_approvals: number, groups: list },
  },
  'invitation.revoked': {
    when: 'An invitation is withdrawn.',
    metadata: { invitation_id: text, role: text },
  },
  'api_key.created': { when: 'An API key is created.', metadata: fields.keyFields },
  'api_key.updated': { when: 'An API key changes.', metadata: fields.keyFields },
  'api_key.revoked': { when: 'An API key is revoked.', metadata: { ...fields.keyFields, happened_at: text } },
  'api_key.reactivated': { when: 'A revoked API key is made active again.', metadata: fields.keyFields },
  'api_key.confirmed': {
    when: 'A person confirms an API key with a second factor.',
    metadata: fields.keyFields,
  },
  'terminal_login.approved': {
    when: 'A person signs a terminal in, which gets a key of theirs.',
    metadata: { key_id: text, machine: text, address: text },
  },
  'terminal_login.denied': {
    when: 'A person refuses a terminal that waits to be signed in.',
    metadata: { machine: text, address: text },
  },
  'session.started': { when: 'A person signs in.', metadata: fields.accountFields },
  'session.ended': { when: 'A person signs out, or a session is ended.', metadata: fields.accountFields },
  'session.beside_provider': {
    when: 'An owner signs in with a second factor or a passkey, although the organization requires its provider.',
    metadata: fields.accountFields,
  },
  'user.password_changed': { when: 'A person changes the password.', metadata: fields.accountFields },
  'user.email_verified': { when: 'A person confirms the mail address.', metadata: fields.accountFields },
  'user.email_unverified': {
    when: 'A mail address counts as not confirmed any more.',
    metadata: fields.accountFields,
  },
  'mfa.enabled': { when: 'A person sets up a second factor.', metadata: fields.accountFields },
  'mfa.disabled': { when: 'A person removes the second factor.', metadata: fields.accountFields },
  'mfa.backup_codes_changed': {
    when: 'The backup codes of a second factor change: new ones are made, or one is used.',
    metadata: fields.accountFields,
  },
  'passkey.added': { when: 'A person adds a passkey.', metadata: fields.accountFields },
  'passkey.renamed': { when: 'A person renames a passkey.', metadata: fields.accountFields },
  'passkey.removed': { when: 'A person removes a passkey.', metadata: fields.accountFields },
  DEVELOPER_SHELL_EXECUTED: {
    when: 'A developer opens the shell on the organization.',
    metadata: { mode: text, system_user: text },
  },
} as const satisfies Readonly<Record<string, { readonly when: string; readonly metadata: Fields }>>

type Fields = Readonly<Record<string, fields.FieldKind>>

export type AuditEventType = keyof typeof auditEvents

type FieldsOf<T extends AuditEventType> = (typeof auditEvents)[T]['metadata']
/** Several event types together have the fields of all of them. */
type FieldOf<T> = T extends AuditEventType ? keyof FieldsOf<T> : never
type ValueOf<T, Field> = T extends AuditEventType
  ? Field extends keyof FieldsOf<T>
    ? fields.FieldValues[FieldsOf<T>[Field] & fields.FieldKind]
    : never
  : never

export type AuditMetadata<T extends AuditEventType> = { readonly [Field in FieldOf<T>]?: ValueOf<T, Field> }

/** Triggers in the database record these, and no other events. */
export const accountEvents = [
  'session.started',
  'session.ended',
  'session.beside_provider',
  'user.password_changed',
  'user.email_verified',
  'user.email_unverified',
  'mfa.enabled',
  'mfa.disabled',
  'mfa.backup_codes_changed',
  'passkey.added',
  'passkey.renamed',
  'passkey.removed',
  'api_key.revoked',
] as const satisfies readonly AuditEventType[]
export type AccountEventType = (typeof accountEvents)[number]
